"""Samples of one patient or image hang together: noise, intervals, resamples and folds of whole clusters."""

import numpy as np
import pytest

from calibrant import InputError, Predictions, compare, evaluate
from calibrant.calibrators import select
from calibrant.evaluation import check
from calibrant.evaluation.arguments import in_clusters
from calibrant.evaluation.fitting.split import stratified_folds
from calibrant.evaluation.resampling.event_cells import BinnedEvents, clustered_sums
from calibrant.evaluation.resampling.events import Events, effective_share_number, standard_error
from calibrant.evaluation.resampling.inversion import invert
from calibrant.evaluation.resampling.null import draw_null, noise_of
from calibrant.evaluation.resampling.resamples import Deletions, Resamples


def patients(rng: np.random.Generator, num: int, visits: int, factor: float = 1.0) -> Events:
    """Each patient's visits hold the same log-odds and the same outcome: one sample, many times over."""
    log_odds = 1.5 * rng.normal(size=num)
    outcomes = rng.random(num) < 1 / (1 + np.exp(-log_odds))
    stated = 1 / (1 + np.exp(-factor * log_odds))
    codes = np.repeat(np.arange(num), visits)
    return Events(stated[codes], outcomes[codes].astype(float), None, codes)


def alone(events: Events) -> Events:
    return Events(events.confidences, events.outcomes, events.weights)


def p_value(events: Events) -> float:
    """Of the ECE over five bins, by 99 draws."""
    cells = BinnedEvents(events, 5)
    drawn = draw_null(cells, 99, (0,)).errors["width l1"]
    return (1 + int((drawn >= cells.cells("width l1").observed - 1e-12).sum())) / 100


def test_the_noise_has_the_covariance_of_whole_clusters() -> None:
    """That of the bins' sums is the sum of the outer products of the clusters' totals, across bins too."""
    rng = np.random.default_rng(0)
    num, codes = 600, np.repeat(np.arange(60), 10)
    shift = rng.normal(size=60)[codes]  # a patient is off in all bins alike
    stated = rng.uniform(0.2, 0.8, num)
    events = Events(stated, (rng.random(num) < 1 / (1 + np.exp(-2 * shift))).astype(float), None, codes)
    cells = BinnedEvents(events, 3)
    drawn = draw_null(cells, 1500, (0,), num_kept=1500).sums[:, :3]
    totals = np.zeros((60, 3))
    np.add.at(totals, (codes, np.minimum((stated * 3).astype(int), 2)), events.outcomes - stated)
    expected = totals.T @ totals / num**2
    scale = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    assert np.abs(expected[0, 1] / scale[0, 1]) > 0.2
    assert np.abs(np.cov(drawn.T) - expected).max() < 6 * scale.max() / np.sqrt(1500)


def test_calibrated_patients_are_not_called_off() -> None:
    """Of 24 calibrated sets with 20 copies of each sample most pass; taken for independent, few do."""
    rng = np.random.default_rng(1)
    sets = [patients(rng, 40, 20) for _ in range(24)]
    assert sum(p_value(each) <= 0.05 for each in sets) <= 4
    assert sum(p_value(alone(each)) <= 0.05 for each in sets) >= 18


@pytest.mark.slow
def test_true_errors_of_patients_are_covered() -> None:
    """In 60 sets with 20 copies of each sample 95 % intervals hold the true error 53 times or more."""
    rng = np.random.default_rng(2)
    log_odds = 1.5 * rng.normal(size=100_000)
    stated, true = 1 / (1 + np.exp(-1.6 * log_odds)), 1 / (1 + np.exp(-log_odds))
    error = BinnedEvents(Events(stated, true), 15).cells("width l1").observed
    held = {True: 0, False: 0}
    for _ in range(60):
        given = patients(rng, 150, 20, 1.6)
        for clustered in held:
            places = [BinnedEvents(given if clustered else alone(given), 15)]
            drawn = [draw_null(places[0], 300, (0,), num_kept=300)]
            found = invert(*noise_of(places, drawn, "width l1"), 0.95)
            held[clustered] += found.low <= error <= found.high
    assert held[True] >= 53
    assert held[False] <= 45


def test_a_rare_event_that_has_not_happened_keeps_its_noise() -> None:
    """Residuals of a bin without events say next to nothing of its noise: independent draws fill it up."""
    stated = np.full(300, 0.001)
    cells = BinnedEvents(Events(stated, np.zeros(300), None, np.repeat(np.arange(100), 3)), 5)
    drawn = draw_null(cells, 2000, (0,), num_kept=2000).sums[:, 0]
    assert drawn.std() == pytest.approx(np.sqrt(0.3 * 0.999) / 300, rel=0.15)


def test_gaps_are_taken_from_the_residuals_before_signs_are_drawn() -> None:
    """With the gaps found the noise is that of clusters about them; without, that of the whole residuals."""
    rng = np.random.default_rng(3)
    given = patients(rng, 200, 5, 3.0)
    places = [BinnedEvents(given, 4)]
    drawn = [draw_null(places[0], 3000, (0,), num_kept=3000)]
    for kernel in ("width l1", "smooth"):
        cells, noise = noise_of(places, drawn, kernel)
        sums = clustered_sums(cells, noise, cells.gaps, np.zeros(noise.shape, np.float32))
        bins = np.minimum((given.confidences * 4).astype(int), 3)
        centred = given.outcomes - given.confidences - cells.gaps[bins]
        totals = np.zeros(200)
        np.add.at(totals, given.clusters, centred)
        assert sums.sum(axis=1).std() == pytest.approx(np.sqrt((totals**2).sum()) / 1000, rel=0.06)
        assert noise.sum(axis=1).std() > 1.02 * sums.sum(axis=1).std()


def test_standard_errors_sum_over_clusters() -> None:
    """Copies of each sample tell nothing more; clusters of one sample tell as much as the sample."""
    influence = np.random.default_rng(4).normal(size=50)
    codes = np.repeat(np.arange(50), 4)
    alone = standard_error(influence, None)
    small = np.sqrt(50 / 49)
    assert standard_error(np.repeat(influence, 4), None, codes) == pytest.approx(alone * small, rel=1e-12)
    assert standard_error(np.repeat(influence, 4), np.full(200, 3.0), codes) == pytest.approx(alone * small)
    assert standard_error(np.repeat(influence, 4), None) == pytest.approx(alone / 2)


def test_a_share_of_clusters_counts_as_that_of_fewer_samples() -> None:
    """Copies count once, up to the factor for small samples; where all are right, clusters count."""
    right = np.array([1.0, 0, 1, 1, 0, 1, 1, 0, 1, 1] * 8)
    codes = np.repeat(np.arange(80), 5)
    assert effective_share_number(np.repeat(right, 5), None, codes, 400) == pytest.approx(79, rel=1e-9)
    assert effective_share_number(np.ones(400), None, codes, 400) == pytest.approx(80)
    # Sums of batches of independent samples tell as much as these, not as the few rows of sums.
    rng = np.random.default_rng(0)
    right = rng.binomial(1000, 0.8, 200).astype(float)  # of a thousand in each batch
    outcomes, codes = np.repeat([1.0, 0.0], 200), np.tile(np.arange(200), 2)
    counts = np.concatenate([right, 1000 - right])
    assert effective_share_number(outcomes, counts, codes, counts.sum()) == pytest.approx(200_000, rel=0.2)


def test_no_cluster_is_on_both_sides_of_a_split() -> None:
    rng = np.random.default_rng(5)
    clusters = rng.integers(0, 60, 1200)
    given = Predictions(probs=rng.random(1200), labels=rng.integers(0, 2, 1200), clusters=clusters)
    folds = stratified_folds(given, 2, 0)
    assert all(len(set(folds[clusters == each])) == 1 for each in range(60))
    assert abs(int(folds.sum()) - 600) < 60
    # Each draw takes the rows of a cluster equally often, as many clusters as there are.
    codes = np.array([0, 0, 0, 1, 2, 2])
    resamples, deletions = Resamples(6, 50, (0,), codes), Deletions(6, (0,), codes)
    counts = resamples.by_row(next(resamples.blocks()))
    assert (counts[:, 0] == counts[:, 2]).all()
    assert (counts[:, [0, 3, 4]].sum(axis=1) == 3).all()
    left_out = deletions.by_row(next(deletions.blocks()))
    assert sorted(left_out.sum(axis=1).tolist()) == [3, 4, 5]


def test_choosing_judges_whole_clusters() -> None:
    rng = np.random.default_rng(6)
    log_odds = 2 * rng.normal(size=150)
    labels = (rng.random(150) < 1 / (1 + np.exp(-log_odds))).astype(int)
    copies = np.repeat(np.arange(150), 4)
    names = [f"patient {k}" for k in copies]
    behind = [
        {each.text: each for each in found.candidates}["none"].standard_error
        for found in (
            select(3 * log_odds[copies], labels[copies], calibrators=["temperature"]),
            select(3 * log_odds[copies], labels[copies], calibrators=["temperature"], clusters=names),
        )
    ]
    assert behind[1] > 1.7 * behind[0]
    with pytest.raises(InputError, match="`clusters` must name the cluster of each of 600 samples"):
        select(log_odds[copies], labels[copies], clusters=names[:9])


@pytest.fixture(scope="module")
def visits() -> Predictions:
    """40 patients of 10 visits, calibrated, three classes, in groups that are the patients."""
    rng = np.random.default_rng(7)
    probs = rng.dirichlet([1.0, 1, 1], 40)
    labels = (probs.cumsum(axis=1) < rng.random((40, 1))).sum(axis=1)
    codes = np.repeat(np.arange(40), 10)
    return Predictions(probs=probs[codes], labels=labels[codes], groups=codes)


def test_an_evaluation_says_what_it_resampled(visits) -> None:
    """``cluster`` takes names or the groups; settings and a note say how many; coverage is not claimed."""
    found = evaluate(visits, cluster="groups", calibrators=[], bootstrap=20, null_draws=60)
    plain = evaluate(visits, calibrators=[], bootstrap=20, null_draws=60)
    names = in_clusters(visits, [f"p{k}" for k in visits.groups])
    assert names.clusters[::200] == ("p0", "p20")
    assert in_clusters(names, None) is names
    assert (found.settings.clusters, plain.settings.clusters, found.coverage) == (40, None, None)
    assert any("the 40 clusters of 10 samples as the independent units" in note for note in found.notes)
    assert not any("--cluster" in note for note in found.notes)
    assert any("--cluster" in note for note in plain.notes)
    for key in ("ece", "classwise_ece", "accuracy", "nll"):
        whole, single = (each.arms[0].metrics[key] for each in (found, plain))
        assert whole.value == single.value
        assert whole.high - whole.low > 1.5 * (single.high - single.low) or key.endswith("ece")
    assert next(part.p_value for part in plain.arms[0].parts if part.name == "classes") < 0.05
    assert next(part.p_value for part in found.arms[0].parts if part.name == "classes") > 0.05


def test_a_gate_does_not_blame_copies(visits) -> None:
    """A limit that copies break beyond noise is within noise for the patients; the test by classes too."""
    for metric in ("ece", "classwise_ece", "accuracy"):
        limit = 0.02 if metric != "accuracy" else float(visits.correct.double().mean()) + 0.09
        plain = check(visits, {metric: limit}, bootstrap=100).checks[0]
        whole = check(visits, {metric: limit}, cluster="groups", bootstrap=100).checks[0]
        assert (plain.outcome, whole.outcome) == ("fail", "within noise")


def test_models_are_compared_in_the_same_clusters(visits) -> None:
    sharper = visits.replace_scores(2 * visits.scores)
    found = compare(
        [("one", visits.with_clusters(visits.groups)), ("other", sharper)], bootstrap=60, null_draws=60
    )
    plain = compare([("one", visits), ("other", sharper)], bootstrap=60, null_draws=60)
    wide, narrow = (each.models[1].difference["nll"] for each in (found, plain))
    assert wide.high - wide.low > 1.5 * (narrow.high - narrow.low)
    assert (found.settings.clusters, found.paired) == (40, True)
    others = sharper.with_clusters(list(range(400)))
    with pytest.raises(InputError, match="the same clusters"):
        compare([("one", visits.with_clusters(visits.groups)), ("other", others)], bootstrap=60)
