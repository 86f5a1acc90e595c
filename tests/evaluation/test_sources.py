"""One law of all sources: wherever the samples are, an evaluation and a gate find the same values."""

from pathlib import Path

import numpy as np
import pytest

from calibrant import InputError, Predictions, evaluate
from calibrant.evaluation import check
from calibrant.predictions import DensePredictions, open_predictions, partitioned
from tables_as_files import as_parts

IMAGES, WIDTH = 12, 6
CELLS = {"slope", "intercept", "adaptive_ece", "smce", "brier_skill"}
"""Of images they are made of cells of confidence, 300 in all, and within 6%."""
WITHOUT_AUROC = {("file", 3), ("images", 3), ("images", 2)}


def sources(num_classes: int, folder: Path) -> dict[str, object]:
    """The positions of twelve images, which are the clusters, twice too confident."""
    rng = np.random.default_rng(num_classes)
    logits = rng.normal(size=(IMAGES, num_classes, WIDTH, WIDTH)) + rng.normal(
        size=(IMAGES, num_classes, 1, 1)
    )
    rows = np.moveaxis(logits, 1, -1).reshape(-1, num_classes)
    labels = (rows + rng.gumbel(size=rows.shape)).argmax(axis=1)
    scores, clusters = 2 * rows, np.repeat([f"image {k}" for k in range(IMAGES)], WIDTH**2)
    names = "abc"[:num_classes]
    columns = {f"logit_{name}": scores[:, k] for k, name in enumerate(names)}
    columns |= {"label": np.array([*names])[labels], "cluster": clusters}
    given = {"logits": scores, "labels": labels, "clusters": clusters, "class_names": np.array([*names])}
    for name, array in given.items():
        np.save(folder / f"{name}.npy", array)
    positions = labels.reshape(IMAGES, WIDTH, WIDTH)
    return {
        "memory": Predictions(**given),
        "file": open_predictions(folder, stream=True),
        "images": DensePredictions(logits=2 * logits, labels=positions, class_names=[*names]),
        "parts": as_parts(folder / "parts" / "a.parquet", columns, row_group_size=100),
    }


@pytest.mark.parametrize("num_classes", [3, 2], ids=["classes", "event"])
def test_values_do_not_depend_on_where_the_samples_are(num_classes, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(partitioned, "PART", 1)
    found = sources(num_classes, tmp_path)
    assert found["file"].streamed
    assert len(found["parts"].parts) > 1
    judged = {
        name: evaluate(each, calibrators=[], bootstrap=10, null_draws=10) for name, each in found.items()
    }
    known = judged["memory"]
    for name, each in judged.items():
        (mine,), (theirs,) = each.arms, known.arms
        assert (each.kind, each.num_test, each.class_names) == (known.kind, known.num_test, known.class_names)
        assert list(mine.metrics) == list(theirs.metrics)
        lacking = {key for key, estimate in mine.metrics.items() if estimate.value is None}
        assert lacking == ({"auroc"} if (name, num_classes) in WITHOUT_AUROC else set())
        assert all(mine.metrics[key].reason for key in lacking)
        for key in mine.metrics.keys() - lacking:
            rough = name == "images" and key.removeprefix("event_") in CELLS
            within = {"rel": 0.06} if rough else {"rel": 1e-12, "abs": 1e-13}
            assert mine.metrics[key].value == pytest.approx(theirs.metrics[key].value, **within), (name, key)
        for one, other in zip(mine.classes, theirs.classes, strict=True):
            assert (one.name, one.count) == (other.name, other.count)
            for key in ("mean_probability", "prevalence", "ece", "accuracy"):
                assert getattr(one, key) == pytest.approx(getattr(other, key), rel=1e-12), (name, key)
    limits = {"ece": 0.04, "accuracy": 0.2, "nll": 3.0}
    gates = {name: check(each, limits, bootstrap=200).checks for name, each in found.items()}
    for name, each in gates.items():
        assert [one.outcome for one in each] == [one.outcome for one in gates["memory"]], name
        assert [one.value for one in each] == pytest.approx([one.value for one in gates["memory"]], rel=1e-12)
        if each[0].p_value is not None:  # of whole clusters: a thousandth if samples were independent
            assert each[0].p_value == pytest.approx(gates["memory"][0].p_value, abs=0.06), name
    if num_classes == 3:
        with pytest.raises(InputError, match="cannot be checked with clusters, because the scores are read"):
            check(found.pop("file"), {"classwise_ece": 0.01})
        of_classes = [check(each, {"classwise_ece": 0.01}).checks[0] for each in found.values()]
        assert [each.outcome for each in of_classes] == ["fail"] * 3
        assert [each.value for each in of_classes] == pytest.approx([of_classes[0].value] * 3, rel=1e-12)
