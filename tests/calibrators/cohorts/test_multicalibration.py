"""Multicalibration: within every group, overlapping or not, levels are as frequent as they say."""

import numpy as np
import torch

from calibrant.calibrators import multicalibrate


def biased(seed: int, count: int = 4000) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """Log-odds that are too low in one group and too high in another, which overlaps with it."""
    rng = np.random.default_rng(seed)
    odds = rng.normal(size=count)
    groups = {"old": rng.random(count) < 0.4, "rural": rng.random(count) < 0.3}
    true = odds + 1.0 * groups["old"] - 1.5 * groups["rural"]
    return odds, (rng.random(count) < 1 / (1 + np.exp(-true))).astype(int), groups


def worst(probs: np.ndarray, labels: np.ndarray, groups: dict[str, np.ndarray]) -> float:
    """The largest z-score of a group and a tenth."""
    bins = np.minimum(np.ceil(probs * 10).astype(int), 10)
    found = []
    for mask in groups.values():
        for k in range(1, 11):
            at = mask & (bins == k)
            noise = np.sqrt((probs[at] * (1 - probs[at])).sum())
            found.append(abs((labels[at] - probs[at]).sum()) / noise if at.any() else 0.0)
    return max(found)


def test_every_group_is_mended_on_other_samples_too() -> None:
    """No cell is off by three standard errors where it was fitted; gaps of new samples are small."""
    odds, labels, groups = biased(0)
    fitted = multicalibrate(odds, labels, groups=groups)
    assert worst(fitted.predict_proba(odds, groups=groups).numpy(), labels, groups) <= 3.0
    assert {each.group for each in fitted.corrections} <= {"", "old", "rural"}
    odds, labels, groups = biased(1)
    probs = fitted.predict_proba(odds, groups=groups).numpy()
    for mask in groups.values():
        before = abs((1 / (1 + np.exp(-odds)) - labels)[mask].mean())
        assert before > 0.05
        assert abs((probs - labels)[mask].mean()) < before / 2


def test_calibrated_probabilities_are_left_alone() -> None:
    """Where nothing is off by three standard errors there is nothing to correct; a lower bar finds noise."""
    rng = np.random.default_rng(2)
    odds = rng.normal(size=1000)
    labels = (rng.random(1000) < 1 / (1 + np.exp(-odds))).astype(int)
    masks = {"a": rng.random(1000) < 0.5}
    assert multicalibrate(odds, labels, groups=masks, threshold=4.0).corrections == ()
    assert len(multicalibrate(odds, labels, groups=masks, threshold=0.5).corrections) > 0


def test_texts_name_several_groups() -> None:
    odds, labels, groups = biased(3)
    texts = ["; ".join(name for name, mask in groups.items() if mask[k]) for k in range(len(odds))]
    by_masks = multicalibrate(odds, labels, groups=groups)
    by_texts = multicalibrate(odds, labels, groups=texts)
    assert {(c.group, c.low, c.shift) for c in by_masks.corrections} == {
        (c.group, c.low, c.shift) for c in by_texts.corrections
    }
    assert torch.equal(
        by_masks.predict_proba(odds, groups=groups), by_texts.predict_proba(odds, groups=texts)
    )
    assert by_texts.predict_proba([0.0], groups=["urban"]).shape == (1,)


def test_copies_are_weights_and_classes_are_events() -> None:
    """A weight of two counts like two copies but for its noise; rows of several classes sum to one."""
    rng = np.random.default_rng(4)
    logits = rng.normal(size=(900, 3))
    labels = rng.integers(0, 3, 900)
    masks = {"a": labels == 0}
    fitted = multicalibrate(logits, labels, groups=masks)
    probs = fitted.predict_proba(logits, groups=masks)
    torch.testing.assert_close(probs.sum(dim=1), torch.ones(900, dtype=torch.float64))
    assert float(probs[labels == 0, 0].mean()) > 0.8
    several = multicalibrate(logits, np.eye(3, dtype=int)[labels], groups=masks)
    assert several.predict_proba(logits, groups=masks).shape == (900, 3)
