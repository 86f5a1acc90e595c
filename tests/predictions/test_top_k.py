"""Predictions of which only the largest logits of each sample are known, and their files."""

import json
import re

import numpy as np
import pyarrow as pa
import pytest
import torch
from pyarrow import parquet as pq

from calibrant import InputError, evaluate, load_calibrator, load_predictions
from calibrant.calibrators import TemperatureScaling, fit_top_k_temperature
from calibrant.predictions import ColumnNames, Predictions, predictions_of_top_k, top_k_of
from calibrant.predictions.formats.top_k import fields_of_top_k
from calibrant.predictions.top_k import predicted_classes
from command_line import call

NUM, V, K = 300, 40, 6
_DRAWS = np.random.default_rng(0)
_TRUE = -1.1 * np.log(np.arange(1, V + 1)) + _DRAWS.normal(0, 2, (NUM, V))
LABELS = np.array([_DRAWS.choice(V, p=np.exp(row) / np.exp(row).sum()) for row in _TRUE])
LOGITS = 2.5 * _TRUE
LOG_PROBS = LOGITS - np.log(np.exp(LOGITS).sum(axis=1, keepdims=True))
INDICES = np.argsort(-LOGITS, axis=1)[:, :K]
TOP = np.take_along_axis(LOG_PROBS, INDICES, axis=1)
WHOLE = Predictions(logits=LOGITS, labels=LABELS)
DOCUMENTS = np.arange(NUM) // 10


def as_npz(folder) -> str:
    raw = np.take_along_axis(LOGITS, INDICES, axis=1)
    rest = np.log(np.exp(LOGITS).sum(axis=1) - np.exp(raw).sum(axis=1))
    given = {"top_k_logits": raw, "top_k_indices": INDICES, "log_rest": rest, "num_classes": V}
    np.savez(folder / "t.npz", labels=LABELS, **given)
    return "t.npz"


def as_records(folder) -> str:
    """Tokens by name with their log-probabilities, as servers of language models return them."""
    lines = [
        {
            "token": f"w{LABELS[i]}",
            "top_logprobs": [
                {"token": f"w{j}", "logprob": p} for j, p in zip(INDICES[i], TOP[i], strict=True)
            ],
            "document": int(DOCUMENTS[i]),
            "position": i % 10,
        }
        for i in range(NUM)
    ]
    (folder / "t.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return "t.jsonl"


def as_parquet(folder) -> str:
    columns = {"top_logprobs": list(TOP), "top_ids": list(INDICES), "token_id": LABELS}
    more = {"document": DOCUMENTS, "position": np.arange(NUM) % 10, "vocab_size": np.full(NUM, V)}
    pq.write_table(pa.table(columns | more), folder / "t.parquet")
    return "t.parquet"


def as_safetensors(folder) -> str:
    load_predictions(folder / as_npz(folder)).save(folder / "t.safetensors")
    return "t.safetensors"


@pytest.mark.parametrize("write", [as_npz, as_records, as_parquet, as_safetensors])
def test_every_form_says_the_same(write, tmp_path) -> None:
    found = load_predictions(tmp_path / write(tmp_path))
    assert found.kind == "top_label"
    torch.testing.assert_close(found.confidence, WHOLE.confidence, atol=1e-9, rtol=0)
    assert torch.equal(found.correct, WHOLE.correct)
    exact = -LOG_PROBS[np.arange(NUM), LABELS].mean()
    (note,) = [each for each in found.notes if each.startswith("The file holds the 6 most probable")]
    assert float(note.split("at least ")[1].split(";")[0]) < exact


def test_log_likelihood_is_exact_where_the_true_class_has_its_own(tmp_path) -> None:
    """``logprob`` beside the largest, as OpenAI's interface calls it."""
    own = LOG_PROBS[np.arange(NUM), LABELS]
    given = {"top_logprobs": TOP, "top_k_indices": INDICES}
    for names in (("token", "logprob"), ("labels", "label_logprob")):
        np.savez(tmp_path / "t.npz", **given, **dict(zip(names, (LABELS, own), strict=True)))
        notes = load_predictions(tmp_path / "t.npz").notes
        assert f"of the true classes is {-own.mean():.4g}." in " ".join(notes)


def test_logprob_of_a_drawn_token_is_not_that_of_the_label() -> None:
    """Beside a label, `token` and `logprob` are what the model drew, and are not used."""
    drawn = {"token_id": INDICES[:, 0], "logprob": TOP[:, 0]}
    given = {"top_logprobs": TOP, "top_k_indices": INDICES, "label": LABELS} | drawn
    found = fields_of_top_k(list(given), given.__getitem__)
    assert found["top_k"].label_logits is None
    assert found["notes"][0] == "Not used: `token_id`, `logprob`."


def test_a_token_that_is_nearly_always_the_most_probable_is_doubted() -> None:
    """The model may have drawn it itself; a note says so, but not of tokens of a text."""
    for truth, doubted in ((INDICES[:, 0], True), (LABELS, False)):
        given = {"top_logprobs": TOP, "top_k_indices": INDICES, "token": truth}
        notes = fields_of_top_k(list(given), given.__getitem__)["notes"]
        assert any("300 of 300 samples. If the model wrote these" in each for each in notes) is doubted


def test_rows_of_different_length() -> None:
    """All are cut to the shortest, which is told; an empty one is refused by its number."""
    rows = [
        [{"token": "a", "logprob": -0.1}, {"token": "b", "logprob": -3.0}],
        [{"token": "a", "logprob": -0.2}],
    ]
    given = {"top_logprobs": rows, "token": ["a", "b"]}
    found = fields_of_top_k(list(given), given.__getitem__)
    assert found["top_k"].logits.shape == (2, 1)
    assert "Row 1 lists one class, others up to 2. The most probable of each row is used" in found["notes"][0]
    assert "1 of 3 log-probabilities left out" in found["notes"][0]
    given["top_logprobs"] = [rows[0], []]
    with pytest.raises(InputError, match="row 1 lists none"):
        fields_of_top_k(list(given), given.__getitem__)


def test_other_lengths_and_ignored_labels_are_refused() -> None:
    given = {"top_logprobs": [[-0.1, -3.0], [-0.2]], "top_ids": [[1, 2], [1, 2]]}
    with pytest.raises(InputError, match="row 0 holds 2, row 1 1"):
        fields_of_top_k(list(given), given.__getitem__)
    with pytest.raises(InputError, match="row 1 holds -100"):
        predictions_of_top_k(top_k_of(TOP[:2], INDICES[:2]), [4, -100])


@pytest.mark.filterwarnings("ignore:.*never occur among the labels")
def test_temperature_is_near_that_of_the_whole_rows(tmp_path) -> None:
    """Within six per cent at T = 2.6 with six of forty classes listed, between those of the two extremes."""
    found = load_predictions(tmp_path / as_npz(tmp_path))
    part = fit_top_k_temperature(found.top_k, LABELS)
    whole = TemperatureScaling().fit(LOGITS, LABELS).fit_result_.parameters["temperature"]
    assert part.fit_result_.parameters["temperature"] == pytest.approx(whole, rel=0.06)
    low, high = map(float, re.findall(r"T = ([\d.]+\d)", part.fit_result_.message))
    assert low < whole < high
    off = abs(part.fit_result_.parameters["temperature"] - whole)
    assert off < min(whole - low, high - whole) / 2  # nearer than either
    listed_all = top_k_of(LOGITS, np.tile(np.arange(V), (NUM, 1)), np.full(NUM, -np.inf), num_classes=V)
    exact = fit_top_k_temperature(listed_all, LABELS, weights=np.ones(NUM)).fit_result_
    assert exact.parameters["temperature"] == pytest.approx(whole, rel=1e-7)
    assert exact.converged
    never_listed = fit_top_k_temperature(top_k_of(TOP, INDICES, num_classes=V), LOGITS.argmin(axis=1))
    assert "no upper end" in never_listed.fit_result_.message


def test_rounded_probabilities_that_sum_to_one(tmp_path) -> None:
    """They leave room below their rounding for a true class that is not listed."""
    log_probs, labels = TOP.copy(), LABELS.copy()
    log_probs[0], labels[0] = (0, *np.linspace(-11.5, -12, K - 1)), LOGITS[0].argmin()
    found = top_k_of(log_probs, INDICES, num_classes=V)
    repaired = fit_top_k_temperature(found, labels)
    (told,) = repaired.fit_result_.warnings
    assert told.startswith("1 sample left out, as the true class is not listed")
    rest = np.arange(NUM) > 0
    others = fit_top_k_temperature(top_k_of(log_probs[1:], INDICES[1:], num_classes=V), labels[1:])
    assert repaired.fit_result_.parameters == pytest.approx(others.fit_result_.parameters)
    exact, most = found.log_probs_of(torch.from_numpy(labels))
    assert exact[0].isnan()
    assert -13 < float(most[0]) <= -11
    with pytest.raises(InputError, match="row 0 is not listed, and `log_rest` leaves it no probability"):
        fit_top_k_temperature(top_k_of(log_probs[:1], INDICES[:1], num_classes=V), labels[:1])
    weighted = fit_top_k_temperature(found, labels, weights=rest.astype(float))
    assert weighted.fit_result_.parameters == pytest.approx(others.fit_result_.parameters)


def test_commands(tmp_path) -> None:
    """Evaluate, fit and apply take such a file; what needs all classes is refused with its reason."""
    file = as_npz(tmp_path)
    shown = call("evaluate", file, "--bootstrap", "20", "--method", "temperature", folder=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert "6 most probable of 40 classes" in " ".join(shown.stdout.split())
    fitted = call("fit", file, "--all", "--method", "temperature", "-o", "c.safetensors", folder=tmp_path)
    assert fitted.returncode == 0, fitted.stderr
    assert "two extreme guesses of the unlisted" in fitted.stdout
    calibrator = load_calibrator(tmp_path / "c.safetensors")
    assert (calibrator.kind_, calibrator.num_classes_) == ("multiclass", V)
    done = call("apply", "c.safetensors", file, "-o", "u.npz", folder=tmp_path)
    assert "it changes no confidence by more than" in done.stdout
    written = load_predictions(tmp_path / "u.npz")
    assert not any("Not used" in note for note in written.notes)
    repaired = written.confidence
    near = calibrator.predict_proba(torch.from_numpy(LOGITS)).amax(dim=1)
    assert float((repaired - near).abs().max()) < 0.1
    choice = call("fit", file, "--all", "-o", "chosen.safetensors", folder=tmp_path)
    assert "  temperature                 1  " in choice.stdout or "* temperature" in choice.stdout
    event = call("fit", file, "--all", "--method", "platt", "-o", "p.safetensors", folder=tmp_path)
    assert event.returncode == 0, event.stderr
    assert call("apply", "p.safetensors", file, "-o", "v.jsonl", folder=tmp_path).returncode == 0
    wrong = call("apply", "c.safetensors", as_records(tmp_path), "-o", "w.npz", folder=tmp_path)
    assert wrong.returncode == 2
    assert "it must also hold `num_classes`" in wrong.stderr


def test_evaluation_scales_the_logits(tmp_path) -> None:
    """The arm of temperature scaling is that of the rows, cross-fitted; the class-wise error has no value."""
    found = load_predictions(tmp_path / as_npz(tmp_path))
    judged = evaluate(found, calibrators=["temperature"], bootstrap=20, null_draws=40)
    arm = judged.arm("temperature")
    assert arm.parameters["temperature"] == pytest.approx(
        fit_top_k_temperature(found.top_k, LABELS).fit_result_.parameters["temperature"]
    )
    assert judged.choice.chosen == "temperature"  # far better than the confidences as they came
    before, after = (each.metrics["ece"].value for each in (judged.arm("uncalibrated"), arm))
    assert after < before / 2


def test_bands_and_clusters_of_tokens(tmp_path) -> None:
    names = ColumnNames(cluster="document", bands=("position:0:5",))
    for write in (as_records, as_parquet):
        found = load_predictions(tmp_path / write(tmp_path), columns=names)
        assert set(found.groups or ()) == {"position=0–4", "position=5+"}
        assert found.clusters == tuple(map(str, DOCUMENTS))


def test_which_class_is_predicted() -> None:
    top = predictions_of_top_k(top_k_of(TOP, INDICES), LABELS)
    assert torch.equal(predicted_classes(top), predicted_classes(WHOLE))
