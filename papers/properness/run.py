"""Which losses are proper, and how confident do they make a network?"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor, nn

from calibrant import losses
from calibrant._math.text_form import parse_call
from calibrant.losses._module import BatchLossModule, MultilabelLossModule
from calibrant.theory import classification_calibration, convexity, properness
from papers.analysis import Frames, Tables, content

SEED = 0
POSTERIORS = 5
MANY = 30
"""Classes of the second column of confidences."""
BATCH = 40
SEGMENTS = 400
"""Segments for each number of classes, of losses of single rows."""
WORDS = {"under": "underconfident", "over": "overconfident", "both": "either", "calibrated": "calibrated"}


def every_loss() -> tuple[str, ...]:
    """Those of the results, then every other loss of the library as it comes."""
    shown = {row["loss"]: parse_call(row["loss"])[0] for row in content("properness")["losses"]}
    return (*shown, *(name for name in losses.available() if name not in shown.values()))


def row_of(name: str, num_posteriors: int = POSTERIORS) -> dict[str, Any]:
    """What a loss elicits; ``posterior`` and ``minimiser`` are a counter-example, None if none was found."""
    module = losses.build(name)
    of_batches, binary = isinstance(module, BatchLossModule), isinstance(module, MultilabelLossModule)
    loss = _of_two(module) if binary else module
    classes = (2,) if binary else (2, 3) if of_batches else (2, 3, 5)
    batch: dict[str, Any] = {"batch_size": BATCH if of_batches else None, "seed": SEED}
    count = min(num_posteriors, 3) if of_batches else num_posteriors
    example = properness(loss, num_classes=classes, num_posteriors=count, **batch).counter_example
    kept = classification_calibration(loss, num_classes=classes, num_posteriors=count, **batch)
    many = None
    if not of_batches and not binary:
        many = classification_calibration(loss, num_classes=(MANY,), num_posteriors=2, seed=SEED)
    convex = [
        convexity(
            loss, space=space, num_classes=classes[:2], num_segments=40 if of_batches else SEGMENTS, **batch
        ).convex
        for space in ("probs", "logits")
    ]
    return {
        "loss": name,
        "posterior": None if example is None else _rounded(example.posterior),
        "minimiser": None if example is None else _rounded(example.minimiser),
        "keeps_class": kept.counter_example is None and (many is None or many.counter_example is None),
        "convex_in_probs": convex[0],
        "convex_in_logits": convex[1],
        "confidence": kept.confidence,
        "least_change": round(kept.least_change, 6),
        "largest_change": round(kept.largest_change, 6),
        "confidence_many": None if many is None else many.confidence,
    }


def _of_two(module: nn.Module) -> Callable[[Tensor, Tensor], Tensor]:
    """A multilabel loss as one of two classes, with logits ``(N, 2)``."""

    def of_two(logits: Tensor, labels: Tensor) -> Tensor:
        log_odds = logits[:, 1:] - logits[:, :1]
        rows = zip(log_odds, labels, strict=True)
        values = [module(row[None], label[None, None].to(row.dtype)) for row, label in rows]
        return torch.stack(values)

    return of_two


def _rounded(probs: Tensor) -> list[float]:
    return [round(p, 6) for p in probs.tolist()]


def measure(_folder: Path, which: str = "all") -> dict[str, Any]:
    """Every loss, in a few minutes; with ``which`` as ``new`` only those that have no row yet."""
    known = {row["loss"]: row for row in content("properness")["losses"]} if which == "new" else {}
    return {"losses": [known.get(name) or row_of(name) for name in every_loss()]}


def frames(results: Mapping[str, Any]) -> Frames:
    return {"losses": pd.DataFrame(results["losses"])}


def tables(found: Frames) -> Tables:
    rows = found["losses"].to_dict("records")
    table = pd.DataFrame(
        {
            "loss": f"`{row['loss']}`",
            "proper": _proper(row["posterior"], row["minimiser"]),
            "convex in p/logits": f"{_yes(row['convex_in_probs'])}/{_yes(row['convex_in_logits'])}",
            "few classes": WORDS[row["confidence"]],
            "30 classes": WORDS.get(row["confidence_many"], "–"),
        }
        for row in rows
    )
    return {"losses": table.set_index("loss")}


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _proper(posterior: list[float] | None, minimiser: list[float] | None) -> str:
    """The first class of the counter-example, and the probability that the loss asks for."""
    if posterior is None or minimiser is None:
        return "none found"
    return f"no: {posterior[0]:.4g} → {minimiser[0]:.4g}"
