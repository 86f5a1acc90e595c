"""What the largest logits of a row say of the whole row."""

import math
from typing import get_args

import pytest
import torch
from torch import Tensor

from calibrant import InputError
from calibrant._math.top_k import Spread, TopK, top_k_of


def rows(num_samples: int = 40, num_classes: int = 60) -> Tensor:
    """Logits with a few large ones and a long tail."""
    draws = torch.Generator().manual_seed(1)
    tail = -1.1 * torch.arange(1, num_classes + 1, dtype=torch.float64).log()
    return tail + 2 * torch.randn(num_samples, num_classes, generator=draws, dtype=torch.float64)


def listed(logits: Tensor, k: int, **given: object) -> TopK:
    """Its largest ones, in another order, with the log-sum-exp of the others."""
    order = logits.argsort(dim=1, descending=True)
    largest, rest = logits.gather(1, order[:, :k]), logits.gather(1, order[:, k:])
    return top_k_of(
        largest.flip(1), order[:, :k].flip(1), rest.logsumexp(1), num_classes=logits.shape[1], **given
    )


def test_confidence_and_true_class_are_exact() -> None:
    """As of the whole row; a true class that is not listed has a probability of at most the last one's."""
    logits, labels = rows(), torch.arange(40) % 60
    found, log_probs = listed(logits, 8), logits.log_softmax(1)
    torch.testing.assert_close(found.confidence, log_probs.amax(1).exp(), atol=1e-12, rtol=0)
    assert torch.equal(found.predicted, logits.argmax(1))
    exact, most = found.log_probs_of(labels)
    own, inside = log_probs.gather(1, labels[:, None])[:, 0], ~exact.isnan()
    assert 0 < int(inside.sum()) < 40
    torch.testing.assert_close(exact[inside], own[inside], atol=1e-12, rtol=0)
    assert bool((own <= most + 1e-12).all())
    told = listed(logits, 8, label_logits=logits.gather(1, labels[:, None])[:, 0])
    torch.testing.assert_close(told.log_probs_of(labels)[0], own, atol=1e-12, rtol=0)


@pytest.mark.parametrize("temperature", [0.5, 0.9, 1.3, 3.0])
def test_bounds_hold_at_any_temperature(temperature: float) -> None:
    """The confidence of the whole row lies between them, and so does the one that is taken."""
    logits = rows()
    found, true = listed(logits, 8), (logits / temperature).softmax(1).amax(1)
    low, high = found.confidence_bounds(temperature)
    taken = found.at(temperature).confidence
    assert bool((low <= true + 1e-12).all())
    assert bool((true <= high + 1e-12).all())
    assert bool((low <= taken + 1e-12).all())
    assert bool((taken <= high + 1e-12).all())
    assert float((taken - true).abs().mean()) < float((high - low).mean()) / 3


def test_bounds_are_reached() -> None:
    """By others that are all alike, and by one alone that is as large as may be."""
    alike = torch.tensor([[3.0, 1.0] + [0.0] * 6])
    alone = torch.tensor([[3.0, 1.0, 1.0] + [-900.0] * 5])
    for logits, place in ((alike, 0), (alone, 1)):
        ends = listed(logits.double(), 2).confidence_bounds(2.0)
        true = (logits.double() / 2).softmax(1).amax(1)
        torch.testing.assert_close(ends[place], true, atol=1e-12, rtol=0)


def test_log_probabilities_leave_the_rest() -> None:
    found = top_k_of(torch.tensor([[0.5, 0.25]]).log(), [[3, 0]])
    assert found.log_rest.exp().item() == pytest.approx(0.25)
    whole = top_k_of(torch.tensor([[0.75, 0.25]]).log(), [[1, 0]], num_classes=2)
    assert whole.at(0.5).confidence.item() == pytest.approx(0.9, abs=1e-6)


@pytest.mark.parametrize(
    ("logits", "indices", "given", "said"),
    [
        ([[1.0, 0.0]], [[1, 1]], {"log_rest": [0.0]}, "row 0 names one twice"),
        ([[1.0, 0.0]], [[1]], {"log_rest": [0.0]}, r"one shape \(N, k\)"),
        ([[1.0, math.inf]], [[1, 2]], {"log_rest": [0.0]}, "must be finite; row 0"),
        ([[1.0, 0.0]], [[1, 2]], {}, "sum to at most 1; those of row 0 sum to 3.718"),
        ([[1.0, 0.0]], [[1, 2]], {"log_rest": [math.nan]}, "`log_rest` must be finite or -inf; row 0"),
        ([[1.0, 0.0]], [[1, 2]], {"log_rest": [0.0, 1.0]}, r"must have shape \(1,\)"),
        ([[1.0, 0.0]], [[1, 9]], {"log_rest": [0.0], "num_classes": 9}, "above every class"),
        (
            [[1.0, 0.0]],
            [[1, 2]],
            {"log_rest": [2.0], "num_classes": 9},
            "the 7 unlisted logits",
        ),
        ([[1.0, 0.0]], [[1, 2]], {"log_rest": [0.0], "label_logits": [1.0, 2.0]}, "`label_logits` must have"),
        ([[1.0, 0.0]], [[1, 2]], {"log_rest": [0.0], "label_logits": [5.0]}, "and `log_rest`, here 0; row 0"),
        ([[1.0, 0.0]], [[1, 2]], {"log_rest": [-2.0], "label_logits": [-1.0]}, "must be listed logits"),
        ([[1.0, 0.0]], [[1, 2]], {"log_rest": [0.0], "label_logits": [-math.inf]}, "row 0 holds -inf"),
        ([[1.0, 0.0]], [[1, -5]], {"log_rest": [0.0]}, "must not be negative; row 0"),
        (torch.zeros(0, 2), torch.zeros(0, 2).long(), {}, "at least one sample"),
    ],
)
def test_what_cannot_be_is_refused(logits, indices, given, said) -> None:
    with pytest.raises(InputError, match=said):
        top_k_of(logits, indices, **given)


@pytest.mark.parametrize(
    ("label", "own", "said"),
    [
        (0, -9.0, "must be -0.1, which is listed of its class; got -9"),
        (7, -0.1, "at most -3, the last one listed, as its class is not listed; got -0.1"),
        (-1, math.nan, "row 0 holds -1; leave out"),
        (-100, math.nan, "row 0 holds -100; leave out the samples that do not count"),
        (50, math.nan, "below 50"),
    ],
)
def test_labels_that_cannot_be_are_refused(label: int, own: float, said: str) -> None:
    found = top_k_of([[-0.1, -3.0]], [[0, 1]], num_classes=50, label_logits=[own])
    with pytest.raises(InputError, match=said):
        found.logits_of(torch.tensor([label]))


@pytest.mark.parametrize("temperature", [0.2, 7.0])
@pytest.mark.parametrize("gap", [0.0, 9.0])
def test_a_temperature_keeps_true_classes_possible(temperature: float, gap: float) -> None:
    """What is taken at another temperature passes the checks, also where rounding left nothing over."""
    rest = [-2.0 if gap == 0 else -math.inf]
    given = top_k_of([[1.0, 0.0]], [[1, 2]], rest, num_classes=50, label_logits=[-2.0 - gap])
    for spread in get_args(Spread):
        found = given.at(temperature, spread)
        again = top_k_of(
            found.logits, found.indices, found.log_rest, num_classes=50, label_logits=found.label_logits
        )
        assert bool(again.logits_of(torch.tensor([7])).isfinite().all())


@pytest.mark.parametrize("temperature", [0.0, -1.0, math.nan, math.inf])
def test_a_temperature_is_above_zero(temperature: float) -> None:
    with pytest.raises(InputError, match="`temperature` must be above zero"):
        top_k_of([[-0.5, -2.0]], [[0, 1]], num_classes=9).at(temperature)


def test_a_temperature_needs_the_number_of_classes() -> None:
    with pytest.raises(InputError, match="`num_classes` must be known"):
        top_k_of([[-0.5, -2.0]], [[0, 1]]).at(2.0)
