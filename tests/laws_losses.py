"""The laws of losses: values, reductions, weights.

A law is a function of an entry of the roster, and asserts; so it can also be run against a loss with a fault.
The flags in its ``@law`` say which losses it holds for; the others must break it, so no flag is a way round.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from calibrant import theory
from rosters_losses import Loss

CLOSED = {"rtol": 1e-12, "atol": 1e-12}
OTHER = {"rtol": 1e-10, "atol": 1e-10}
SINGLE = {"rtol": 1e-5, "atol": 1e-5}


class Law(NamedTuple):
    """What to check, and the flags with which it must hold."""

    check: Callable[[Loss], None]
    flags: dict[str, bool]

    def holds_for(self, loss: Loss) -> bool:
        return all(getattr(loss, flag) == value for flag, value in self.flags.items())


LAWS: dict[str, Law] = {}


def law(**flags: bool) -> Callable[[Callable[[Loss], None]], Callable[[Loss], None]]:
    def enter(check: Callable[[Loss], None]) -> Callable[[Loss], None]:
        LAWS[check.__name__] = Law(check, flags)
        return check

    return enter


def problem(
    loss: Loss, *, num_samples: int = 24, num_classes: int = 5, seed: int = 0
) -> tuple[Tensor, Tensor]:
    """Logits and labels: right and wrong, sure and unsure."""
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(num_samples, num_classes, generator=generator, dtype=torch.float64)
    if loss.multilabel:
        return logits, torch.randint(2, (num_samples, num_classes), generator=generator)
    # Half of them as predicted, half at random.
    labels = torch.randint(num_classes, (num_samples,), generator=generator)
    labels[::2] = logits.argmax(1)[::2]
    return logits, labels


def value_and_gradient(loss: Loss, logits: Tensor, labels: Tensor, **more: Any) -> tuple[Tensor, Tensor]:
    leaf = logits.detach().clone().requires_grad_()
    value = loss(leaf, labels, **more)
    (gradient,) = torch.autograd.grad(value.sum(), leaf)
    return value.detach(), gradient


def class_weights(num_classes: int = 5) -> Tensor:
    return torch.linspace(0.5, 2.0, num_classes, dtype=torch.float64)


@law()
def has_its_hand_value(loss: Loss) -> None:
    probs, labels, expected = loss.hand
    scores = torch.tensor(probs, dtype=torch.float64)
    logits = scores.logit() if loss.multilabel else scores.log()
    value = loss(logits, torch.tensor(labels))
    torch.testing.assert_close(value, torch.tensor(float(expected), dtype=torch.float64), **CLOSED)


@law()
def has_the_value_of_its_formula(loss: Loss) -> None:
    """The value is that of an independent, naive implementation."""
    logits, labels = problem(loss)
    torch.testing.assert_close(loss(logits, labels), loss.reference(logits, labels).mean(), **OTHER)


@law(solved=False)
def has_the_gradient_of_its_formula(loss: Loss) -> None:
    """The gradient is that of an independent, naive implementation."""
    logits, labels = problem(loss)
    leaf = logits.clone().requires_grad_()
    (expected,) = torch.autograd.grad(loss.reference(leaf, labels).mean(), leaf)
    torch.testing.assert_close(value_and_gradient(loss, logits, labels)[1], expected, **OTHER)


@law()
def survives_extreme_logits(loss: Loss) -> None:
    """Finite at |logit| = 1e4 in float32, float16 and bfloat16, of the right type and not negative."""
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        for num_classes in (2, 3, 200):
            logits = torch.zeros(6, num_classes, dtype=dtype)
            logits[0, 0], logits[1, 0], logits[2, 1], logits[3, 1] = 1e4, -1e4, 1e4, -1e4
            logits[4, 0], logits[4, 1] = 1e4, -1e4
            logits[5, :] = -1e4
            labels = torch.zeros(6, dtype=torch.int64)
            if loss.multilabel:
                labels = torch.zeros_like(logits, dtype=torch.int64)
                labels[:, 0] = 1
            value, gradient = value_and_gradient(loss, logits, labels)
            assert value.dtype == gradient.dtype == dtype
            assert value.isfinite()
            assert gradient.isfinite().all()
            assert value >= 0


@law(multilabel=False)
def ignores_a_shift(loss: Loss) -> None:
    """A constant added to a row changes nothing, and gradients sum to zero over the classes."""
    logits, labels = problem(loss)
    shifts = torch.linspace(-50, 50, len(logits), dtype=torch.float64).unsqueeze(1)
    value, gradient = value_and_gradient(loss, logits, labels)
    shifted_value, shifted_gradient = value_and_gradient(loss, logits + shifts, labels)
    torch.testing.assert_close(shifted_value, value, **OTHER)
    torch.testing.assert_close(shifted_gradient, gradient, **OTHER)
    torch.testing.assert_close(gradient.sum(1), torch.zeros(len(gradient), dtype=torch.float64), **OTHER)


@law()
def ignores_the_names_of_classes(loss: Loss) -> None:
    """Renaming the classes renames the gradient and changes nothing else."""
    logits, labels = problem(loss)
    order = torch.tensor([3, 0, 4, 1, 2])
    renamed = labels[:, order] if loss.multilabel else order.argsort()[labels]
    value, gradient = value_and_gradient(loss, logits, labels)
    renamed_value, renamed_gradient = value_and_gradient(loss, logits[:, order], renamed)
    torch.testing.assert_close(renamed_value, value, **CLOSED)
    torch.testing.assert_close(renamed_gradient, gradient[:, order], **CLOSED)


@law()
def ignores_the_order_of_samples(loss: Loss) -> None:
    """Reordering the samples, ties among them included, reorders the gradient."""
    logits, labels = problem(loss)
    logits[3] = logits[7]  # with a tie
    labels[3] = labels[7]
    order = torch.randperm(len(logits), generator=torch.Generator().manual_seed(1))
    value, gradient = value_and_gradient(loss, logits, labels)
    other_value, other_gradient = value_and_gradient(loss, logits[order], labels[order])
    torch.testing.assert_close(other_value, value, **CLOSED)
    torch.testing.assert_close(other_gradient, gradient[order], **CLOSED)


@law(proper=True)
def asks_for_the_truth(loss: Loss) -> None:
    """Its expectation is least at the true probabilities; of one that is not proper, somewhere else."""
    batch_size = 20 if loss.batch else None

    def of_two_classes(logits: Tensor, labels: Tensor) -> Tensor:
        return loss((logits[:, 1] - logits[:, 0])[:, None], labels[:, None], reduction="none")[:, 0]

    found = theory.properness(
        of_two_classes if loss.multilabel else loss,
        num_classes=2 if loss.multilabel or loss.batch else 3 if loss.proper else (2, 3),
        num_posteriors=2,
        batch_size=batch_size,
    )
    assert found.verdict == "none found", str(found)
    assert found.largest_miss < 1e-6


@law()
def leaves_ignored_samples_out(loss: Loss) -> None:
    """Ignored samples, with several labels ignored entries, are as good as absent, whatever their logits."""
    logits, labels = problem(loss)
    weight = class_weights()
    if loss.multilabel:
        _leaves_ignored_entries_out(loss, logits, labels, weight)
        return
    for ignore_index in (-100, -1, 2):
        marked = labels.clone()
        marked[1::3] = ignore_index
        kept = marked != ignore_index
        more = {"ignore_index": ignore_index, "weight": weight}
        value, gradient = value_and_gradient(loss, logits, marked, **more)
        subset = loss(logits[kept], labels[kept], weight=weight)
        torch.testing.assert_close(value, subset, **CLOSED)
        assert (gradient[~kept] == 0).all()
        poisoned = logits.clone()
        poisoned[~kept] = math.nan
        torch.testing.assert_close(loss(poisoned, marked, **more), subset, **CLOSED)


def _leaves_ignored_entries_out(loss: Loss, logits: Tensor, labels: Tensor, weight: Tensor) -> None:
    marked = labels.clone()
    marked[1::3, 2] = -100
    kept = marked != -100
    poisoned = logits.clone()
    poisoned[~kept] = math.nan
    values = loss(poisoned, marked, weight=weight, reduction="none")
    alone = loss(logits, labels, weight=weight, reduction="none")
    torch.testing.assert_close(values, alone * kept, **CLOSED)
    expected = alone[kept].sum() / weight.expand_as(logits)[kept].sum()
    torch.testing.assert_close(loss(poisoned, marked, weight=weight), expected, **CLOSED)


@law()
def is_nan_where_nothing_counts(loss: Loss) -> None:
    """A batch of which nothing counts gives NaN, and gradients of zero, as cross-entropy does."""
    logits, labels = problem(loss)
    value, gradient = value_and_gradient(loss, logits, torch.full_like(labels, -100))
    assert value.isnan()
    assert (gradient == 0).all()


@law()
def is_nan_for_no_samples(loss: Loss) -> None:
    """The mean of an empty batch is NaN, as cross-entropy's."""
    for num_classes in (3, 200):
        logits, labels = problem(loss, num_samples=1, num_classes=num_classes)
        assert loss(logits[:0], labels[:0]).isnan()


@law(batch=False)
def adds_up_to_nothing_for_no_samples(loss: Loss) -> None:
    """The sum over an empty batch is zero, and it has no values."""
    for num_classes in (3, 200):
        logits, labels = problem(loss, num_samples=1, num_classes=num_classes)
        assert loss(logits[:0], labels[:0], reduction="sum") == 0
        assert loss(logits[:0], labels[:0], reduction="none").shape == labels[:0].shape


@law()
def lets_nan_through(loss: Loss) -> None:
    """NaN in the logits gives NaN in the loss, never a number."""
    logits, labels = problem(loss)
    logits[2, 1] = math.nan
    assert loss(logits, labels).isnan()


@law(multilabel=False, masked_is_absent=True)
def takes_masked_classes(loss: Loss) -> None:
    """A class with a logit of -inf in every row is as if absent, and has no gradient."""
    logits, labels = problem(loss, num_samples=8, num_classes=4)
    labels = labels.clamp(max=2)
    masked = logits.clone()
    masked[:, 3] = -math.inf
    value, gradient = value_and_gradient(loss, masked, labels)
    expected, expected_gradient = value_and_gradient(loss, logits[:, :3], labels)
    torch.testing.assert_close(value, expected, **OTHER)
    torch.testing.assert_close(gradient[:, :3], expected_gradient, **OTHER)
    assert (gradient[:, 3] == 0).all()


@law(multilabel=False)
def takes_rows_with_one_class_left(loss: Loss) -> None:
    """Each row has its own mask; one in which only the true class is left has loss and gradient zero."""
    for dtype, tolerance in ((torch.float64, OTHER), (torch.float32, SINGLE)):
        logits, labels = problem(loss, num_samples=8, num_classes=4)
        logits = logits.to(dtype)
        logits[:4].masked_fill_(torch.arange(4) != labels[:4, None], -math.inf)
        logits[4, (labels[4] + 1) % 4] = -math.inf
        value, gradient = value_and_gradient(loss, logits, labels)
        assert value.isfinite()
        assert gradient.isfinite().all()
        assert (gradient[logits == -math.inf] == 0).all()
        if not loss.batch:
            values = loss(logits, labels, reduction="none")
            torch.testing.assert_close(values[:4], torch.zeros(4, dtype=dtype), **tolerance)
            torch.testing.assert_close(
                values[4:], loss(logits[4:], labels[4:], reduction="none"), **tolerance
            )
            torch.testing.assert_close(gradient[:4], torch.zeros(4, 4, dtype=dtype), **tolerance)
        if loss.twice_differentiable:
            leaf = logits.requires_grad_()
            (graph,) = torch.autograd.grad(loss(leaf, labels), leaf, create_graph=True)
            torch.testing.assert_close(graph.detach(), gradient, **tolerance)


@law(soft=True, masked_is_absent=True)
def takes_masked_classes_without_a_share(loss: Loss) -> None:
    """A masked class of which the targets have nothing is as if absent: 0 times infinity is 0."""
    for dtype, tolerance in ((torch.float64, OTHER), (torch.float32, SINGLE)):
        logits, _ = problem(loss, num_samples=8, num_classes=4)
        logits = logits.to(dtype)
        shares = torch.softmax(logits[:, :3].flip(0), 1)
        targets = torch.nn.functional.pad(shares, (0, 1))
        masked = logits.clone()
        masked[:, 3] = -math.inf
        leaf, fewer = masked.requires_grad_(), logits[:, :3].clone().requires_grad_()
        value, expected = loss(leaf, None, targets=targets), loss(fewer, None, targets=shares)
        torch.testing.assert_close(value, expected, **tolerance)
        (gradient,) = torch.autograd.grad(value, leaf)
        torch.testing.assert_close(gradient[:, :3], torch.autograd.grad(expected, fewer)[0], **tolerance)
        assert (gradient[:, 3] == 0).all()


@law(multilabel=False)
def names_a_wrong_label(loss: Loss) -> None:
    """On a CPU a label that is no class is refused, with the classes that there are."""
    logits, labels = problem(loss, num_samples=4, num_classes=3)
    for wrong in (3, -1):
        labels[3] = wrong
        words = (
            rf"^Target {wrong} is out of bounds: `labels` must be in 0\.\.2, or be `ignore_index`, -100\.$"
        )
        with pytest.raises(IndexError, match=words):
            loss(logits, labels)


@law(batch=False, scales=True)
def multiplies_by_the_class_weight(loss: Loss) -> None:
    logits, labels = problem(loss)
    weight = class_weights()
    share = weight.expand_as(logits) if loss.multilabel else weight[labels]
    expected = loss(logits, labels, reduction="none") * share
    torch.testing.assert_close(loss(logits, labels, weight=weight, reduction="none"), expected, **CLOSED)


@law(batch=False)
def divides_by_the_class_weights(loss: Loss) -> None:
    """The mean divides by the weights of the samples that count, the sum does not."""
    logits, labels = problem(loss)
    weight = class_weights()
    share = weight.expand_as(logits) if loss.multilabel else weight[labels]
    values = loss(logits, labels, weight=weight, reduction="none")
    for reduction, expected in (("sum", values.sum()), ("mean", values.sum() / share.sum())):
        value = loss(logits, labels, weight=weight, reduction=reduction)
        torch.testing.assert_close(value, expected, **CLOSED)


@law(batch=False)
def reduces_as_cross_entropy(loss: Loss) -> None:
    """``"none"`` has a value per sample; ``"sum"`` and ``"mean"`` are its sum and mean."""
    logits, labels = problem(loss)
    values = loss(logits, labels, reduction="none")
    assert values.shape == labels.shape
    torch.testing.assert_close(loss(logits, labels, reduction="sum"), values.sum(), **CLOSED)
    torch.testing.assert_close(loss(logits, labels, reduction="mean"), values.mean(), **CLOSED)
    torch.testing.assert_close(loss(logits, labels), values.mean(), **CLOSED)


@law(batch=True)
def has_a_mean_only(loss: Loss) -> None:
    """A loss of the whole batch says that it has no value per sample."""
    logits, labels = problem(loss)
    for reduction in ("sum", "none"):
        with pytest.raises(ValueError, match="`reduction` must be 'mean'"):
            loss(logits, labels, reduction=reduction)
        with pytest.raises(ValueError, match="`reduction` must be 'mean'"):
            loss.build(reduction=reduction)
