"""Monitoring: bets that pay one on average, alarms that come after a change and hardly ever without one."""

import itertools

import numpy as np
import pytest
from scipy.special import beta, comb, expit

from calibrant import Predictions
from calibrant._math.errors import InputError
from calibrant.evaluation import Monitoring, monitor
from calibrant.evaluation.monitoring.evidence import (
    BENDERS,
    CERTAIN,
    GAMBLERS,
    SHIFTERS,
    log_change,
    log_mean_wealth,
    log_tilted,
    log_wealth,
    mean_of,
    over_starts,
)
from calibrant.evaluation.monitoring.questions import (
    MOST,
    Watched,
    calibration_test,
    change_test,
    drift_tests,
    events_of,
    windows_of,
)

PER_DAY = 200


def _stream(rng, days: int, *, change: float = 1.0, at: int | None = None) -> tuple[Predictions, np.ndarray]:
    """A binary model that is calibrated, until the true log-odds are multiplied from a day on."""
    when = np.repeat(np.arange(days), PER_DAY)
    log_odds = 2 * rng.normal(size=len(when))
    truth = np.where(when >= (days if at is None else at), change * log_odds, log_odds)
    return Predictions(logits=log_odds, labels=rng.random(len(when)) < expit(truth)), when


@pytest.mark.parametrize("prob", [0.0, 1e-9, CERTAIN, 0.03, 0.5, 0.9, 1 - 1e-9, 1.0])
def test_a_bet_pays_one_on_average(prob) -> None:
    """No gambler's mean wealth after a bet exceeds one; where nothing is clipped it is one."""
    probs = np.array([prob, prob])
    pays = log_wealth(probs, np.array([0.0, 1.0]), np.array([0, 1]), 2, GAMBLERS)
    mean = (1 - prob) * np.exp(pays[0]) + prob * np.exp(pays[1])
    assert (mean <= 1 + 1e-12).all()
    if CERTAIN <= prob <= 1 - CERTAIN:
        np.testing.assert_allclose(mean, 1, rtol=1e-9)


@pytest.mark.parametrize("prob", [0.003, 0.44, 0.93])
def test_bets_on_a_bend_pay_one_on_average(prob) -> None:
    probs, windows = np.append(np.linspace(0.001, 0.999, 50), prob), np.append(np.zeros(50), 1).astype(int)
    pays = [log_wealth(probs, np.append(np.zeros(50), y), windows, 2, BENDERS)[1] for y in (0.0, 1.0)]
    np.testing.assert_allclose((1 - prob) * np.exp(pays[0]) + prob * np.exp(pays[1]), 1, rtol=1e-9)
    assert (np.abs(pays[1][len(GAMBLERS) :]) > 1e-6).all()


def test_errors_of_both_signs_of_a_rare_event_raise_an_alarm() -> None:
    """Observed to expected runs from .6 to 1.6 along the scale; the mean and the slope are right."""
    rng = np.random.default_rng(0)
    log_odds = rng.normal(-3.6, 0.9, 20_000)
    truth = log_odds + 0.5 * np.sin(3.2 * (log_odds + 3.6) / 0.9)
    when = np.arange(20_000) // 1000
    for true, passed in ((log_odds, True), (truth, False)):
        stream = Predictions(logits=log_odds, labels=rng.random(20_000) < expit(true))
        windows = windows_of(when, 1)
        test = calibration_test(Watched(stream, stream, windows, windows.index, 0.05), decides=True)
        assert (test.alarm is None) is passed


@pytest.mark.parametrize("prob", [0.03, 0.5, 0.9])
def test_bets_on_a_cluster_pay_one_on_average_whatever_hangs_together(prob) -> None:
    """Three samples that are all alike: the mean wealth is one, where the product of three bets pays more."""
    probs, windows = np.full(3, prob), np.zeros(3, dtype=np.int64)
    pays = [
        log_wealth(probs, np.full(3, outcome), windows, 1, GAMBLERS, clusters=np.zeros(3, dtype=np.int64))[0]
        for outcome in (0.0, 1.0)
    ]
    np.testing.assert_allclose((1 - prob) * np.exp(pays[0]) + prob * np.exp(pays[1]), 1, rtol=1e-9)
    apart = log_wealth(probs, np.ones(3), windows, 1, GAMBLERS)[0]
    np.testing.assert_allclose(apart, 3 * pays[1], rtol=1e-9, atol=1e-12)


def test_copies_of_a_stream_in_clusters_tell_as_much_as_the_stream() -> None:
    """Each sample four times, the copies in one cluster: the same evidence, and no more of a change."""
    rng = np.random.default_rng(0)
    stream, when = _stream(rng, 6, change=0.2, at=3)
    baseline, _ = _stream(rng, 4)
    copies = np.repeat(np.arange(stream.num_samples), 4)
    many = stream.rows(copies).with_clusters([str(each) for each in copies])
    given = {"window": 1, "baseline": baseline, "bootstrap": 4}
    once, again = monitor(stream, when, **given), monitor(many, when[copies], **given)
    assert any("share one stake" in note for note in again.notes)
    for mine, theirs in zip(again.tests, once.tests, strict=True):
        assert mine.log10_evidence == pytest.approx(theirs.log10_evidence)
    blind = monitor(many.with_clusters(None), when[copies], **given)
    assert blind.tests[0].log10_evidence[-1] > 2 * once.tests[0].log10_evidence[-1]


def _visits(rng, size: int) -> tuple[Predictions, np.ndarray]:
    """Calibrated predictions for patients of about four visits each, who may come again in later windows."""
    log_odds = 2 * rng.normal(size=size)
    patients = [f"p{row // 4 - rng.integers(12)}" for row in range(size)]
    labels = rng.random(size) < expit(log_odds)
    return Predictions(logits=log_odds, labels=labels, groups=patients), np.arange(size)


def test_a_longer_stream_leaves_the_evidence_of_past_windows_as_it_was(rng) -> None:
    """New patients, and further visits of those seen, change no bit of any test in windows that are over."""
    baseline, _ = _visits(rng, 200)
    stream, when = _visits(rng, 400)
    given = {"window": 50, "baseline": baseline, "cluster": "groups", "bootstrap": 2}
    whole = monitor(stream, when, **given)
    early = monitor(stream.rows(when < 200), when[:200], **given)
    assert len(set(stream.groups[:200]) & set(stream.groups[200:])) > 2
    for mine, theirs in zip(whole.tests, early.tests, strict=True):
        assert mine.log10_evidence[:4] == theirs.log10_evidence


def test_clusters_are_those_of_the_baseline_too(rng) -> None:
    """Groups as clusters count in both; names of the stream's clusters alone are not enough."""
    baseline, _ = _visits(rng, 200)
    stream, when = _visits(rng, 100)
    given = {"window": 50, "bootstrap": 2}
    named = monitor(stream, when, baseline=baseline, cluster="groups", **given)
    ready = baseline.with_clusters(baseline.groups)
    assert named.tests == monitor(stream, when, baseline=ready, cluster=stream.groups, **given).tests
    ungrouped = Predictions(probs=[0.2, 0.7], labels=[0, 1])
    for cluster, other in ((stream.groups, baseline), ("groups", ungrouped)):
        with pytest.raises(InputError, match="`baseline` must have clusters if"):
            monitor(stream, when, baseline=other, cluster=cluster, **given)


def test_gamblers_win_where_they_are_right() -> None:
    """Who bets on the truth gains on average; the mean logarithm is the divergence of stated from true."""
    stated, truth = 0.8, expit(0.5 * np.log(4))
    pays = log_wealth(
        np.array([stated] * 2), np.array([0.0, 1.0]), np.array([0, 1]), 2, np.array([[0.5, 0.0]])
    )
    gain = (1 - truth) * pays[0, 0] + truth * pays[1, 0]
    divergence = truth * np.log(truth / stated) + (1 - truth) * np.log((1 - truth) / (1 - stated))
    assert gain == pytest.approx(divergence, rel=1e-12)


def test_wealth_is_the_mean_of_products_from_each_start() -> None:
    """``log E[begun, ended]`` against the products written out, and its weighted sum over starts."""
    bets = np.log(np.array([[2.0, 0.5], [0.25, 3.0], [1.5, 1.0]]))
    found = log_mean_wealth(bets)
    for begun, ended in itertools.product(range(3), repeat=2):
        expected = np.exp(bets[begun : ended + 1].sum(0)).mean() if ended >= begun else 0.0
        assert np.exp(found[begun, ended]) == pytest.approx(expected)
    table = np.exp(found)
    expected = table[0, 1] / 2 + table[1, 1] / 6 + 1 / 3
    assert np.exp(over_starts(found)[1]) == pytest.approx(expected)


def test_evidence_of_a_change_is_one_on_average() -> None:
    """Over all streams of a share that has the baseline's posterior, exactly; so is the mean of several."""
    old, baseline = 3, np.array([2.0, 1.0])
    for gamblers in ("any other share", "tilted log-odds"):
        total = 0.0
        for new in range(old + 1):
            counts = np.array([[old - new, new]], dtype=float)
            if gamblers == "any other share":
                found = log_change(counts, baseline)
            else:
                found = log_tilted(counts[:, None], baseline[None])
            happens = beta(new + 1.5, old - new + 2.5) / beta(1.5, 2.5)
            total += comb(old, new) * happens * np.exp(mean_of([found, found], [0.5, 0.5])[0, 0])
        assert total == pytest.approx(1, rel=1e-12)


def test_cells_of_which_one_never_occurs_are_one_fewer() -> None:
    """Three cells, against their mean likelihoods written out by predicting one sample after the other."""
    counts, baseline = np.array([3, 9, 0]), np.array([5, 5, 2])

    def log_mean(prior: np.ndarray) -> float:
        seen, total = prior.astype(float), 0.0
        for cell in np.repeat(np.arange(3), counts):
            total += np.log(seen[cell] / seen.sum())
            seen[cell] += 1
        return total

    found = log_change(counts[None].astype(float), baseline.astype(float))[0, 0]
    assert found == pytest.approx(log_mean(np.full(3, 0.5)) - log_mean(baseline + 0.5), rel=1e-12)


def test_few_false_alarms_against_a_baseline() -> None:
    """At fixed shares, too, of 100 streams after baselines of 100 samples hardly more than 5 % alarm."""
    rng, alarms = np.random.default_rng(0), 0
    shares = np.linspace(0.1, 0.9, 5)
    for _ in range(100):
        before = rng.binomial(20, shares)
        now = rng.binomial(30, shares, (12, 5))
        baseline = np.stack([20 - before, before], 1).astype(float)
        alarms += (
            over_starts(log_tilted(np.stack([30 - now, now], 2).astype(float), baseline)) >= np.log(20)
        ).any()
    assert alarms <= 11  # more than 11 of 100 at 5 % have a probability of .5 %


def test_few_false_alarms() -> None:
    """Of 200 calibrated streams looked at after each of 10 windows, 5 % raise an alarm at most, and noise."""
    rng = np.random.default_rng(0)
    alarms = 0
    for _ in range(200):
        stream, when = _stream(rng, 10)
        bets = log_wealth(stream.probs.numpy(), stream.labels.numpy(), when, 10, SHIFTERS)
        alarms += (over_starts(log_mean_wealth(bets)) >= np.log(20)).any()
    assert alarms <= 17  # more than 17 of 200 at 5 % have a probability of 1 %


def test_an_alarm_tells_when_and_what(rng) -> None:
    """A model that becomes over-confident on day 15 raises an alarm within days, and that day is named."""
    stream, when = _stream(rng, 12, change=0.4, at=6)
    found = monitor(stream, when, window=1, bootstrap=10)
    (test,) = found.tests
    assert not found.passed
    assert 6 <= test.alarm <= 9
    assert abs(test.since - 6) <= 1
    assert f"most likely since {test.since}" in test.sentence
    assert [each.num_samples for each in found.windows] == [PER_DAY] * 12
    gaps = [each.metrics["ece"].value for each in found.windows]
    assert np.mean(gaps[6:]) > 1.5 * np.mean(gaps[:6])


def test_order_within_a_window_does_not_matter(rng) -> None:
    stream, when = _stream(rng, 3)
    shuffled = rng.permutation(len(when))
    one = monitor(stream, when, window=1, bootstrap=10)
    other = monitor(stream.rows(shuffled), when[shuffled], window=1, bootstrap=10)
    assert one.tests[0].log10_evidence == pytest.approx(other.tests[0].log10_evidence)


def test_samples_without_a_label_count_as_seen(rng) -> None:
    stream, when = _stream(rng, 3)
    labelled = np.arange(len(when)) % 3 > 0
    found = monitor(stream, when, window=1, labelled=labelled, bootstrap=10)
    alone = monitor(stream.rows(labelled), when[labelled], window=1, bootstrap=10)
    assert found.tests[0].log10_evidence == alone.tests[0].log10_evidence
    assert (found.num_samples, found.num_labelled) == (600, 400)
    assert found.windows[0].num_samples == 200
    assert found.windows[0].num_labelled == 133


def test_samples_of_weight_zero_place_no_bet(rng) -> None:
    """Wrong ones among them, in the stream and in the baseline, change no evidence and no number."""
    stream, when = _stream(rng, 3)
    counts = np.arange(len(when)) % 3 > 0
    absurd = np.where(counts, stream.values, 20 * (1 - 2 * stream.labels))
    weighted = Predictions(logits=absurd, labels=stream.labels, weights=2.0 * counts)
    rows = stream.rows(counts)
    alone = monitor(rows, when[counts], window=1, baseline=rows, bootstrap=10)
    found = monitor(weighted, when, window=1, baseline=weighted, bootstrap=10)
    assert [each.log10_evidence for each in found.tests] == [each.log10_evidence for each in alone.tests]
    assert found.windows[0].metrics["event_ece"].value == alone.windows[0].metrics["event_ece"].value
    assert found.num_samples == alone.num_samples == 400
    assert sum(note.startswith("Weights count in the numbers") for note in found.notes) == 1


def _three_classes(rng, size: int, shift: float = 0.0) -> Predictions:
    """A calibrated model of three classes; with a shift class 2 occurs more often than stated."""
    logits = 1.5 * rng.normal(size=(size, 3))
    truth = logits + np.array([0, 0, shift])
    probs = np.exp(truth) / np.exp(truth).sum(1, keepdims=True)
    labels = (rng.random(size)[:, None] > probs.cumsum(1)).sum(1).clip(max=2)
    return Predictions(logits=logits, labels=labels, class_names=["a", "b", "c"])


def test_a_class_that_is_stated_too_rarely_is_named(rng) -> None:
    first, then = _three_classes(rng, 500), _three_classes(rng, 1500, shift=1.0)
    labels = np.concatenate([first.labels.numpy(), then.labels.numpy()])
    logits = np.concatenate([first.values.numpy(), then.values.numpy()])
    stream = Predictions(logits=logits, labels=labels, class_names=["a", "b", "c"])
    (test,) = monitor(stream, np.arange(2000) // 250, window=1, bootstrap=10).tests
    assert test.alarm is not None
    assert test.about == "c"


def test_half_of_the_stake_is_on_the_top_label(rng) -> None:
    """The other half is on the classes, in equal parts; a single event, a confidence say, has all of it."""
    several = _three_classes(rng, 20)
    assert [each.share for each in events_of(several)] == pytest.approx([1 / 2, 1 / 6, 1 / 6, 1 / 6])
    (alone,) = events_of(_stream(rng, 1)[0])
    assert alone.share == 1


def test_a_class_that_changed_since_the_baseline_is_named(rng) -> None:
    """Against a baseline each class is watched, too; other samples of the same model raise no alarm."""
    before, first = (_three_classes(rng, 3000, shift=0.5) for _ in range(2))
    then = _three_classes(rng, 1500, shift=-0.5)
    labels, logits = (
        np.concatenate([getattr(each, name).numpy() for each in (first, then)])
        for name in ("labels", "values")
    )
    stream = Predictions(logits=logits, labels=labels, class_names=["a", "b", "c"])
    windows = windows_of(np.arange(4500.0) // 500, 1)
    changed = change_test(Watched(stream, stream, windows, windows.index, 0.05), before, decides=True)
    assert (changed.alarm is not None and changed.alarm >= 6, changed.about) == (True, "c")


def test_a_baseline_asks_for_change(rng) -> None:
    """A model that always was over-confident raises no alarm against its baseline, but against its word."""
    before, when = _stream(rng, 8, change=0.6, at=0)
    stream, _ = _stream(rng, 8, change=0.6, at=0)
    found = monitor(stream, when, window=1, baseline=before, bootstrap=10)
    tests = {test.key: test for test in found.tests}
    assert Monitoring.from_json(found.to_json()) == found
    assert found.passed
    assert tests["calibration"].alarm is not None
    assert not tests["calibration"].decides
    assert {key for key, test in tests.items() if test.alarm is not None} == {"calibration"}
    assert not monitor(stream, when, window=1, baseline=before, against="stated", bootstrap=10).passed


def test_other_samples_are_no_alarm_and_are_said(rng) -> None:
    """Where the log-odds move and their meaning stays, confidences and classes are said to have changed."""
    before, when = _stream(rng, 8)
    log_odds = 2 * rng.normal(size=len(when)) + 1.5
    stream = Predictions(logits=log_odds, labels=rng.random(len(when)) < expit(log_odds))
    found = monitor(stream, when, window=1, baseline=before, bootstrap=10)
    tests = {test.key: test for test in found.tests}
    assert tests["calibration"].alarm is None
    assert all(tests[key].alarm is not None for key in ("confidence", "stated-classes", "true-classes"))


def test_a_change_since_the_baseline_is_an_alarm(rng) -> None:
    before, _ = _stream(rng, 12)
    stream, when = _stream(rng, 12, change=0.2, at=5)
    found = monitor(stream, when, window=1, baseline=before, bootstrap=10)
    assert not found.passed
    assert found.tests[1].alarm >= 5
    assert abs(found.tests[1].since - 5) <= 1


@pytest.mark.parametrize("kind", ["binary", "multiclass", "multilabel", "top_label"])
def test_the_stakes_of_a_question_are_one_together(kind, rng, monkeypatch) -> None:
    labels = rng.integers(0, 2, 120)
    stream = {
        "binary": lambda: Predictions(logits=rng.normal(size=120), labels=labels),
        "multiclass": lambda: _three_classes(rng, 120),
        "multilabel": lambda: Predictions(
            logits=rng.normal(size=(120, 3)), labels=rng.integers(0, 2, (120, 3))
        ),
        "top_label": lambda: Predictions(confidence=rng.uniform(0.5, 1, 120), correct=labels == 1),
    }[kind]()
    assert stream.kind == kind
    stakes: list[float] = []

    def noting(evidence: list[np.ndarray], weights: list[float]) -> np.ndarray:
        stakes.append(sum(weights))
        return mean_of(evidence, weights)

    monkeypatch.setattr("calibrant.evaluation.monitoring.questions.mean_of", noting)
    windows = windows_of(np.arange(120.0) // 40, 1)
    watched = Watched(stream, stream, windows, windows.index, 0.05)
    asked = [calibration_test(watched, decides=True), change_test(watched, stream, decides=True)]
    asked += drift_tests(watched, stream, labelled=True, decides=False)
    assert stakes == pytest.approx([1.0] * len(asked), abs=1e-12)


def test_windows_of_dates() -> None:
    times = np.array(["2026-11-20T23:59:59", "2026-11-21", "2026-11-23T00:00:00"], dtype="datetime64[s]")
    days = windows_of(times, "1d")
    assert days.index.tolist() == [0, 1, 3]
    assert days.edges == ("2026-11-20", "2026-11-21", "2026-11-22", "2026-11-23", "2026-11-24")
    assert windows_of(times, "1w").edges == ("2026-11-16", "2026-11-23", "2026-11-30")
    assert windows_of(times, "12h").edges[:2] == ("2026-11-20T12:00:00", "2026-11-21")
    assert windows_of(np.array([-0.5, 2.2]), 1).edges == ("-1", "0", "1", "2", "3")
    unix = windows_of(np.array([1764000000.0, 1764000100.25]), 100)
    assert unix.edges == ("1764000000", "1764000100", "1764000200")
    assert windows_of(np.array([0.65]), 0.1).edges == ("0.6", "0.7")


@pytest.mark.parametrize(
    ("times", "window", "said"),
    [
        (
            np.array(["2026-01-01", "NaT"], dtype="datetime64[s]"),
            "1d",
            "`times` must be known .* row 1 has none",
        ),
        (np.array([0.0, np.inf]), 1, "`times` must be finite; got inf in row 1"),
        (np.array([0.0, 1.0]), "1d", "`window` must be a positive number where times are numbers"),
        (np.array(["2026-01-01"], dtype="datetime64[s]"), 1, "`window` must be a span such as '1d'"),
        (np.array(["2026-01-01"], dtype="datetime64[s]"), "0d", "`window` must be a span such as '1d'"),
        (np.array([0.0, MOST + 1.0]), 1, "`window` must be longer: the times span 2,002 windows"),
    ],
)
def test_wrong_times_get_a_sentence(times, window, said) -> None:
    with pytest.raises(InputError, match=said):
        windows_of(times, window)


def test_windows_wait_for_their_labels() -> None:
    """Positives are known at once, negatives three days later: an alarm, a note, and none if windows wait."""
    rng = np.random.default_rng(0)
    stream, when = _stream(rng, 8)
    known = (stream.labels.numpy() == 1) | (when < 5)
    found = monitor(stream, when, window=1, labelled=known, bootstrap=2)
    assert not found.passed
    assert any("Labels are missing in 3 windows" in note and "--label-delay" in note for note in found.notes)
    waited = monitor(stream, when, window=1, labelled=known, label_delay=3, bootstrap=2)
    assert waited.passed
    assert [each.num_labelled for each in waited.windows] == [PER_DAY] * 5 + [0] * 3
    assert not any("missing" in note for note in waited.notes)


@pytest.mark.parametrize("kind", ["binary", "multiclass", "multilabel", "top_label"])
def test_without_labels_a_drift_is_the_alarm(kind) -> None:
    """The same probabilities are quiet, others an alarm; labels that are not known are not looked at."""
    rng = np.random.default_rng(0)
    shape = {"binary": (), "top_label": ()}.get(kind, (3,))

    def made(size: int, sharpness: float) -> Predictions:
        scores = sharpness * rng.normal(size=(size, *shape))
        if kind == "top_label":
            return Predictions(confidence=1 / (1 + np.exp(-scores)))
        return Predictions(logits=scores, kind=kind)

    before, same, other = made(1000, 1), made(600, 1), made(600, 3)
    days = np.arange(600) // 100
    quiet, loud = (monitor(each, days, window=1, baseline=before, bootstrap=2) for each in (same, other))
    assert (quiet.against, quiet.passed, loud.passed, loud.num_labelled) == ("drift", True, False, 0)
    assert [test.key for test in loud.tests if test.decides] == ["confidence"]
    assert not {"calibration", "change", "true-classes"} & {test.key for test in loud.tests}
    (mean,) = loud.windows[0].metrics.values()
    stated = other.probs if kind in {"binary", "multilabel"} else other.confidence
    assert mean.value == pytest.approx(float(stated[:100].mean()))


def test_a_drift_may_decide_where_labels_are_known(rng) -> None:
    """Then the other questions are answered as notes, and labels of none are as if there were none."""
    stream, when = _stream(rng, 4)
    baseline, _ = _stream(rng, 8)
    found = monitor(stream, when, window=1, baseline=baseline, against="drift", bootstrap=2)
    assert [test.key for test in found.tests if test.decides] == ["confidence"]
    assert {"calibration", "change", "true-classes"} < {test.key for test in found.tests}
    none = np.zeros(stream.num_samples, dtype=bool)
    blind = monitor(stream, when, window=1, labelled=none, baseline=baseline, bootstrap=2)
    assert (blind.against, len(blind.tests)) == ("drift", 2)
