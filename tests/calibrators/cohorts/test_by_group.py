"""A calibrator for each group: shrinkage, application by group, files."""

import json
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from calibrant import CalibrantWarning, InputError, load_calibrator
from calibrant._math.convex_minimum import LOWEST_TEMPERATURE
from calibrant.calibrators import (
    GroupCalibrator,
    TemperatureScaling,
    available,
    build,
    fit_groups,
    load_group_calibrator,
)
from calibrant.calibrators.file_format import GROUPS_KEY, file_bytes


def drawn(num_samples: int = 600, seed: int = 0) -> tuple[Tensor, Tensor, list[str]]:
    """Three groups: over-confident by 3, calibrated, and over-confident by 1.5."""
    generator = torch.Generator().manual_seed(seed)
    truth = 2 * torch.randn(num_samples, 4, generator=generator, dtype=torch.float64)
    labels = torch.multinomial(torch.softmax(truth, dim=1), 1, generator=generator)[:, 0]
    number = torch.arange(num_samples) % 3
    factors = torch.tensor([3.0, 1.0, 1.5], dtype=torch.float64)[number]
    return truth * factors[:, None], labels, [("a", "b", "c")[each] for each in number.tolist()]


def test_borrowing_is_a_sum_of_objectives() -> None:
    """A group's temperature has the least sum of its own losses and ``borrowed`` times the mean of all."""
    logits, labels, groups = drawn(90)
    fitted = fit_groups("temperature", logits, labels, groups=groups, borrowed=25)
    own = torch.tensor([group == "a" for group in groups])

    def slope(temperature: float) -> float:
        t = torch.tensor(temperature, dtype=torch.float64, requires_grad=True)
        losses = torch.nn.functional.cross_entropy(logits / t, labels, reduction="none")
        (losses[own].sum() + 25 * losses.mean()).backward()
        assert t.grad is not None
        return t.grad.item()

    found = float(fitted.by_group["a"].temperature)
    assert slope(found * 0.999) < 0 < slope(found * 1.001)


@pytest.mark.filterwarnings("ignore::calibrant.CalibrantWarning")
@pytest.mark.parametrize("kind", ["multiclass", "binary", "multilabel"])
@pytest.mark.parametrize("borrowed", [0.0, 60.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_group_is_fitted_to_weights(kind: str, borrowed: float, weighted: bool) -> None:
    """With its own samples in full and all of them in the share that is borrowed, whatever they are like."""
    logits, labels, groups = drawn(210)
    if kind != "multiclass":
        logits, labels = logits[:, :2], torch.nn.functional.one_hot(labels, 4)[:, :2]
    if kind == "binary":
        logits, labels = logits[:, 0], labels[:, 0]
    best = logits.argmax(dim=1) if kind == "multiclass" else (logits > 0).long()
    groups = ["right" if row % 7 == 5 else name for row, name in enumerate(groups)]
    groups[7] = groups[50] = "tiny"
    aside = torch.tensor([name == "right" for name in groups]).reshape(-1, *[1] * (labels.ndim - 1))
    labels = torch.where(aside, best, labels)
    own = torch.arange(210).double() % 3 + 0.5 if weighted else torch.ones(210, dtype=torch.float64)
    weights = own if weighted else None
    fitted = fit_groups("temperature", logits, labels, groups=groups, weights=weights, borrowed=borrowed)
    for name, part in fitted.by_group.items():
        mine = torch.tensor([group == name for group in groups])
        scaled = own * (own.sum() / (own**2).sum())
        given = scaled * (borrowed / scaled.sum()) + torch.where(mine, scaled, 0)
        assert part.fit_result_ == TemperatureScaling().fit(logits, labels, weights=given).fit_result_
    if borrowed == 0:
        assert fitted.by_group["right"].temperature.unique().item() == LOWEST_TEMPERATURE


def test_groups_without_weight() -> None:
    """Refused where nothing is borrowed; else they have the pooled temperature."""
    logits, labels, _ = drawn(60)
    groups, weights = ["a"] * 30 + ["b"] * 30, [1.0] * 30 + [0.0] * 30
    with pytest.raises(InputError, match="group 'b': `weights` must not all be zero"):
        fit_groups("temperature", logits, labels, groups=groups, weights=weights, borrowed=0)
    with pytest.warns(CalibrantWarning, match="group 'b' holds fewer samples than the 5"):
        fitted = fit_groups("temperature", logits, labels, groups=groups, weights=weights, borrowed=5)
    pooled = float(fitted.pooled.temperature)
    assert float(fitted.by_group["b"].temperature) == pytest.approx(pooled, rel=1e-9)


def test_rows_are_mapped_by_their_group() -> None:
    """Row by row what the group's calibrator says, in the order of the rows, with gradients."""
    logits, labels, groups = drawn()
    fitted = fit_groups("temperature", logits, labels, groups=groups)
    probs = fitted.predict_proba(logits, groups=groups)
    for row in (0, 1, 2, 100):
        expected = fitted.by_group[groups[row]].predict_proba(logits[row : row + 1])[0]
        assert torch.equal(probs[row], expected)
    given = logits.float().requires_grad_()
    mapped = fitted(given, groups=groups)
    assert mapped.dtype == torch.float32
    torch.testing.assert_close(mapped.exp().double(), probs, rtol=0, atol=1e-6)
    mapped.sum().backward()
    assert given.grad is not None


@pytest.mark.filterwarnings("ignore::calibrant.CalibrantWarning")
@pytest.mark.parametrize("name", available())
def test_every_calibrator_has_groups(name: str, tmp_path: Path) -> None:
    """Whatever the method and the kind of predictions; a group of two samples and one class does no harm."""
    logits, labels, groups = drawn(90)
    kinds = build(name).kinds
    if "multiclass" not in kinds:
        logits, labels = logits[:, 0], (labels == 0).long()
    groups[:2] = ["tiny", "tiny"]
    labels[:2] = 0
    fitted = fit_groups(name, logits, labels, groups=groups, borrowed=30)
    probs = fitted.predict_proba(logits, groups=groups)
    assert torch.isfinite(probs).all()
    fitted.save(tmp_path / "groups.safetensors")
    loaded = load_group_calibrator(tmp_path / "groups.safetensors")
    assert torch.equal(loaded.predict_proba(logits, groups=groups), probs)
    assert list(loaded.by_group) == list(fitted.by_group)
    for one, other in zip(loaded.by_group.values(), fitted.by_group.values(), strict=True):
        assert one.fit_result_ == other.fit_result_
    assert (loaded.borrowed, loaded.unknown) == (30.0, "error")


def test_multilabel_and_numbered_groups() -> None:
    generator = torch.Generator().manual_seed(2)
    scores = 2 * torch.randn(400, 3, generator=generator, dtype=torch.float64)
    labels = torch.bernoulli(torch.sigmoid(scores), generator=generator).long()
    number = torch.arange(400) % 2
    fitted = fit_groups("platt", scores * (1 + number[:, None]), labels, groups=number)
    assert list(fitted.by_group) == ["0", "1"]
    slopes = [part.slope.mean().item() for part in fitted.by_group.values()]
    assert slopes[0] > 1.3 * slopes[1]
    assert fitted.predict_proba(scores, groups=number.numpy()).shape == (400, 3)


def test_unknown_groups() -> None:
    """Refused with the remedy, or mapped by the pooled calibrator where that was asked for."""
    logits, labels, groups = drawn(300)
    fitted = fit_groups("temperature", logits, labels, groups=groups)
    with pytest.raises(InputError, match=r"row 1 is of group 'd'. To map .* give --unknown-groups pooled"):
        fitted.predict_proba(logits[:2], groups=["a", "d"])
    fitted = fit_groups("temperature", logits, labels, groups=groups, unknown="pooled")
    probs = fitted.predict_proba(logits[:2], groups=["a", "d"])
    assert torch.equal(probs[1], fitted.pooled.predict_proba(logits[1:2])[0])


def test_small_groups_are_warned_of() -> None:
    """Those with fewer samples than are borrowed, by name; what fits warn of names its group."""
    logits, labels, groups = drawn(300)
    groups[0] = "d"
    with pytest.warns(CalibrantWarning, match=r"temperature: group 'd' holds fewer samples than the 50 that"):
        fit_groups("temperature", logits, labels, groups=groups, borrowed=50)
    seven = ["defghij"[row] if row < 7 else group for row, group in enumerate(groups)]
    with pytest.warns(CalibrantWarning, match="groups 'd', 'e', 'f', 'g', 'h' and 2 more hold fewer samples"):
        fit_groups("temperature", logits, labels, groups=seven, borrowed=50)
    with pytest.warns(
        CalibrantWarning, match="all groups: every .*bound of the search; group 'a': classes 0, 1"
    ):
        fit_groups("temperature", logits[:6], logits[:6].argmax(dim=1), groups=list("aabbcc"), borrowed=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", CalibrantWarning)
        fit_groups("temperature", logits[1:], labels[1:], groups=groups[1:], borrowed=50)


def test_settings_of_a_calibrator_are_kept() -> None:
    logits, labels, groups = drawn(300)
    fitted = fit_groups(TemperatureScaling(objective="brier"), logits, labels, groups=groups)
    assert all(
        part.settings == {"objective": "brier", "search": "continuous"} for part in fitted.by_group.values()
    )


def test_files_say_what_they_hold(tmp_path: Path) -> None:
    logits, labels, groups = drawn(300)
    fitted = fit_groups("temperature", logits, labels, groups=groups, unknown="pooled")
    path, single = tmp_path / "groups.safetensors", tmp_path / "one.safetensors"
    fitted.save(path)
    assert load_group_calibrator(path).unknown == "pooled"
    fitted.pooled.save(single)
    with pytest.raises(InputError, match="load_group_calibrator reads it"):
        load_calibrator(path)
    with pytest.raises(InputError, match=r"calibrant\.load_calibrator reads it"):
        load_group_calibrator(single)
    with pytest.raises(InputError, match=r"`path` must end in \.safetensors"):
        fitted.save(tmp_path / "groups.pt")
    with pytest.raises(OSError, match="no such file"):
        load_group_calibrator(tmp_path / "none.safetensors")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda content: content.pop("groups"), "does not have the form"),
        (lambda content: content["parts"].pop(), "one calibrator for each group"),
        (lambda content: content.update(groups=["a", "a", "b"]), "one calibrator for each group"),
        (lambda content: content["parts"][1].update(name="nothing"), "does not know"),
        (lambda content: content.update(format_version=99), "upgrade calibrant"),
        (lambda content: content.update(unknown="ignore"), "`unknown` must be one of"),
    ],
)
def test_damaged_files_are_refused(tmp_path: Path, change: Any, message: str) -> None:
    logits, labels, groups = drawn(300)
    path = tmp_path / "groups.safetensors"
    fit_groups("temperature", logits, labels, groups=groups).save(path)
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        content = json.loads(file.metadata()[GROUPS_KEY])
    content.pop("calibrant.sha256")
    change(content)
    path.write_bytes(file_bytes(GROUPS_KEY, content, load_file(path)))
    with pytest.raises(InputError, match=message):
        load_group_calibrator(path)


def test_parts_must_be_of_one_kind() -> None:
    logits, labels, _ = drawn(100)
    four = TemperatureScaling().fit(logits, labels)
    two = TemperatureScaling().fit(logits[:, 0], (labels == 0).long())
    with pytest.raises(InputError, match="group 'b' is of another kind"):
        GroupCalibrator(four, {"a": four, "b": two}, borrowed=0)
