"""Which losses are proper, keep the class, are convex, and how sure they make a network: computed."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor

from calibrant import losses
from calibrant._math.files import atomic_write
from calibrant._math.text_form import parse_call
from calibrant.theory import ClassificationCalibration, classification_calibration, convexity, properness

LOSSES = (
    "cross-entropy",
    "brier",
    "proper-focal(gamma=2)",
    "focal(gamma=0.5)",
    "focal(gamma=1)",
    "focal(gamma=3)",
    "focal(gamma=5)",
    "scheduled-focal",
    "sample-focal",
    "dual-focal",
    "adafocal",
    "label-smoothing",
    "margin-label-smoothing",
    "focal-calibration(gamma=0, calibration_weight=0.5)",
    "focal-calibration(gamma=3, calibration_weight=0.5)",
    "focal-calibration(gamma=3, calibration_weight=5)",
    'focal-calibration(gamma=0, calibration_weight=0.5, norm="l1")',
    "mmce",
    "mmce(as_published=False)",
    "mmce(as_published=False, weighted=False)",
    "mdca",
    "smooth-calibration",
    "multilabel-focal",
    "multilabel-focal-calibration",
)
"""As :func:`calibrant.losses.build` takes them."""

STATEMENTS = {
    "cross-entropy": "strictly proper (Gibbs' inequality)",
    "brier": "strictly proper (a squared distance)",
    "proper-focal": "strictly proper: the inverse focal map undoes what focal loss elicits",
    "focal": "proper for γ = 0 only; elicits the inverse focal map, which keeps the order",
    "scheduled-focal": "as focal with the exponent of the epoch, here the first",
    "sample-focal": "focal with an exponent that jumps",
    "dual-focal": "the runner-up enters the power: below the truth's probability only",
    "adafocal": "as it starts: focal with γ = 1",
    "label-smoothing": "elicits (1 − α) p + α / C",
    "margin-label-smoothing": "proper where no probability is below exp(−margin) times the largest",
    "focal-calibration": 'strictly proper for γ = 0 with norm="l2" only',
    "mmce": "unweighted, the penalty is zero at the truth and nowhere negative: strictly proper; "
    "the weighted one is not zero at the truth",
    "mdca": "cross-entropy plus a penalty that is zero at the truth: strictly proper",
    "smooth-calibration": "cross-entropy plus a penalty that is zero at the truth: strictly proper",
    "multilabel-focal": "label by label as focal",
    "multilabel-focal-calibration": "label by label as focal-calibration",
}
_OF_BATCHES = frozenset({"mmce", "mdca", "smooth-calibration"})
_BATCH = 40
_MANY = 30
ABOUT = """\
Each cell is computed, by `calibrant.theory`. *Proper*: a counter-example is a proof, "none found" is the
result of a search among {num_posteriors} posteriors of {few} classes (seed {seed}; fewer for losses of a
batch or of labels). *Keeps the class*: the most probable class at the minimiser is the posterior's.
*Convex*: none of the {segments} segments lies below the loss; in the probabilities, and in the logits. *At
the optimum*: how the top probability of the minimiser compares with the true one, over the same posteriors,
and over some of {many} classes. Losses of a whole batch are taken on equal logits with {batch} labels in
the posterior's proportions; of multilabel losses one label is looked at.
"""


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


def properness_table(
    names: Sequence[str] = LOSSES,
    *,
    num_posteriors: int = 5,
    seed: int = 0,
    progress: Callable[[str, float], None] | None = None,
) -> tuple[Row, ...]:
    """One row for each loss.

    Args:
        names: Losses as :func:`calibrant.losses.build` takes them.
        num_posteriors: How many of each number of classes.
        seed: Of posteriors, starts and segments.
        progress: Called with a few words and the share that is done.
    """
    tell = progress or (lambda _stage, _fraction: None)
    rows: list[Row] = []
    for place, name in enumerate(names):
        tell(name, place / len(names))
        rows.append(_row(name, num_posteriors, seed))
    return tuple(rows)


def write_properness(rows: Sequence[Row], folder: Path, *, seed: int = 0) -> tuple[Path, Path]:
    """``properness.md`` and the same as ``.json``."""
    folder.mkdir(parents=True, exist_ok=True)
    first, second = folder / "properness.md", folder / "properness.json"
    texts = {
        first: markdown(rows, seed=seed),
        second: json.dumps([asdict(row) for row in rows], indent=1, ensure_ascii=False) + "\n",
    }
    for path, text in texts.items():
        with atomic_write(path) as temporary:
            temporary.write_text(text, encoding="utf-8")
    return first, second


def markdown(rows: Sequence[Row], *, seed: int = 0) -> str:
    """The table to read."""
    most = max(row.num_posteriors for row in rows)
    about = ABOUT.format(
        num_posteriors=most, few="2, 3 and 5", seed=seed, segments=800, many=_MANY, batch=_BATCH
    )
    titles = [
        "loss",
        "proper",
        "keeps the class",
        "convex (p / logits)",
        "at the optimum",
        f"{_MANY} classes",
    ]
    lines = [
        "# Losses: what they elicit",
        "",
        about,
        "Made by `calibrant study properness`.",
        "",
        f"| {' | '.join([*titles, 'known'])} |",
        "|---" * (len(titles) + 1) + "|",
    ]
    lines += [f"| {' | '.join(_cells(row))} |" for row in rows]
    return "\n".join(lines) + "\n"


def _row(name: str, num_posteriors: int, seed: int) -> Row:
    kind = parse_call(name)[0]
    loss = _of_rows(name)
    of_batches, binary = kind in _OF_BATCHES, kind.startswith("multilabel")
    classes = (2,) if binary else (2, 3) if of_batches else (2, 3, 5)
    batch_size = _BATCH if of_batches else None
    count = min(num_posteriors, 3) if of_batches else num_posteriors
    found = properness(loss, num_classes=classes, num_posteriors=count, batch_size=batch_size, seed=seed)
    kept = classification_calibration(
        loss, num_classes=classes, num_posteriors=count, batch_size=batch_size, seed=seed
    )
    many: ClassificationCalibration | None = None
    if not of_batches and not binary:
        many = classification_calibration(loss, num_classes=(_MANY,), num_posteriors=2, seed=seed)
    spaces = [
        convexity(
            loss,
            space=space,
            num_classes=classes[:2],
            num_segments=40 if of_batches else 400,
            batch_size=batch_size,
            seed=seed,
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
        statement=STATEMENTS[kind],
    )


def _of_rows(name: str) -> Callable[[Tensor, Tensor], Tensor]:
    """The loss of logits ``(N, C)``; a multilabel one as a loss of two classes."""
    module = losses.build(name)
    if not name.startswith("multilabel"):
        return module

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


def _cells(row: Row) -> list[str]:
    """A line of the table."""
    proper = "none found"
    if row.posterior is not None and row.minimiser is not None:
        proper = f"no: {_shown(row.posterior)} elicits {_shown(row.minimiser)}"
    change = ""
    if row.confidence != "calibrated":
        change = f" ({row.least_change:+.3f} to {row.largest_change:+.3f})"
    said = {
        "under": "under-confident",
        "over": "over-confident",
        "both": "either",
        "calibrated": "calibrated",
    }
    return [
        f"`{row.loss}`",
        proper,
        "yes" if row.keeps_class else "no",
        f"{'yes' if row.convex_in_probs else 'no'} / {'yes' if row.convex_in_logits else 'no'}",
        said[row.confidence] + change,
        "–" if row.confidence_many is None else said[row.confidence_many],
        row.statement,
    ]


def _shown(probs: Sequence[float]) -> str:
    return "(" + ", ".join(f"{p:.4g}" for p in probs) + ")"
