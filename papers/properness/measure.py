"""Which losses are proper, keep the class, are convex, and how sure they make a network: computed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from calibrant import losses
from calibrant._math.text_form import parse_call
from calibrant.losses._module import BatchLossModule, MultilabelLossModule
from calibrant.theory import ClassificationCalibration, classification_calibration, convexity, properness
from papers.properness import settings


@dataclass(frozen=True, kw_only=True)
class Row:
    """One loss."""

    loss: str
    proper: bool
    """No counter-example was found."""
    posterior: tuple[float, ...] | None
    """That of the counter-example."""
    minimiser: tuple[float, ...] | None
    num_posteriors: int
    largest_miss: float
    keeps_class: bool
    convex_in_probs: bool
    convex_in_logits: bool
    confidence: str
    least_change: float
    largest_change: float
    confidence_many: str | None
    statement: str
    """What the loss states of itself."""


def every_loss() -> tuple[str, ...]:
    """The losses of the settings, then every other loss of the library as it comes."""
    shown = {parse_call(name)[0] for name in settings.LOSSES}
    return (*settings.LOSSES, *(name for name in losses.available() if name not in shown))


def properness_table(
    names: Sequence[str] | None = None,
    *,
    num_posteriors: int = settings.NUM_POSTERIORS,
    progress: Callable[[str, float], None] | None = None,
) -> tuple[Row, ...]:
    """One row for each loss.

    Args:
        names: Losses as :func:`calibrant.losses.build` takes them; by default :func:`every_loss`.
        num_posteriors: Number of posteriors for each number of classes.
        progress: Called with a few words and the share that is done.
    """
    tell = progress or (lambda _stage, _fraction: None)
    names = every_loss() if names is None else names
    rows: list[Row] = []
    for place, name in enumerate(names):
        tell(name, place / len(names))
        rows.append(_row(name, num_posteriors))
    return tuple(rows)


def _row(name: str, num_posteriors: int) -> Row:
    module = losses.build(name)
    of_batches, binary = isinstance(module, BatchLossModule), isinstance(module, MultilabelLossModule)
    loss = _of_two(module) if binary else module
    classes = (2,) if binary else (2, 3) if of_batches else (2, 3, 5)
    batch_size = settings.BATCH if of_batches else None
    count = min(num_posteriors, 3) if of_batches else num_posteriors
    found = properness(
        loss, num_classes=classes, num_posteriors=count, batch_size=batch_size, seed=settings.SEED
    )
    kept = classification_calibration(
        loss, num_classes=classes, num_posteriors=count, batch_size=batch_size, seed=settings.SEED
    )
    many: ClassificationCalibration | None = None
    if not of_batches and not binary:
        many = classification_calibration(
            loss, num_classes=(settings.MANY,), num_posteriors=2, seed=settings.SEED
        )
    spaces = [
        convexity(
            loss,
            space=space,
            num_classes=classes[:2],
            num_segments=40 if of_batches else settings.SEGMENTS,
            batch_size=batch_size,
            seed=settings.SEED,
        ).convex
        for space in ("probs", "logits")
    ]
    example = found.counter_example
    return Row(
        loss=name,
        proper=example is None,
        posterior=None if example is None else _rounded(example.posterior),
        minimiser=None if example is None else _rounded(example.minimiser),
        num_posteriors=count * len(classes),
        largest_miss=found.largest_miss,
        keeps_class=kept.counter_example is None and (many is None or many.counter_example is None),
        convex_in_probs=spaces[0],
        convex_in_logits=spaces[1],
        confidence=kept.confidence,
        least_change=kept.least_change,
        largest_change=kept.largest_change,
        confidence_many=None if many is None else many.confidence,
        statement=str(module.properness),
    )


def _of_two(module: nn.Module) -> Callable[[Tensor, Tensor], Tensor]:
    """A multilabel loss as one of two classes, with logits ``(N, 2)``."""

    def of_two(logits: Tensor, labels: Tensor) -> Tensor:
        log_odds = logits[:, 1:] - logits[:, :1]
        values = [
            module(row[None], label[None, None].to(row.dtype))
            for row, label in zip(log_odds, labels, strict=True)
        ]
        return torch.stack(values)

    return of_two


def _rounded(probs: Tensor) -> tuple[float, ...]:
    return tuple(round(p, 6) for p in probs.tolist())
