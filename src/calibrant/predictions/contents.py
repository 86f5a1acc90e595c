"""What predictions consist of once everything has been checked."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor

from calibrant._math.errors import InputError
from calibrant._math.scores import steady_sigmoid, top_label
from calibrant._math.shapes import Bool, Float, Int, UInt8
from calibrant._math.top_k import TopK
from calibrant.predictions.checks import Kind
from calibrant.predictions.formats.mark import MARK, mark_in
from calibrant.predictions.formats.top_k import arrays_of_top_k
from calibrant.predictions.oddities import are_one_hot
from calibrant.predictions.stores import ScoreStore

Space: TypeAlias = Literal["logits", "probs", "confidence"]


@dataclass(frozen=True, kw_only=True)
class Source:
    """The file that was read."""

    name: str
    sha256: str
    format: str
    path: str | None = None
    """As it was given, for commands that can be run again."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Contents:
    """Scores in a store and what is known about each sample; nothing here is checked again."""

    kind: Kind
    space: Space
    store: ScoreStore
    labels: Int[Tensor, " N"] | Int[Tensor, "N C"] | None
    weights: Float[Tensor, " N"] | None
    correct: Bool[Tensor, " N"] | None = None
    class_names: tuple[str, ...] | None = None
    split: UInt8[Tensor, " N"] | None = None
    groups: tuple[str, ...] | None = None
    clusters: tuple[str, ...] | None = None
    source: Source | None = None
    top_k: TopK | None = None
    """What confidences were computed from, where that is known."""
    notes: tuple[str, ...]

    @property
    def num_samples(self) -> int:
        """N."""
        return self.store.shape[0]

    @property
    def num_classes(self) -> int | None:
        """C; 2 for binary, None for top-label predictions."""
        return {"binary": 2, "top_label": None}.get(self.kind, self.store.shape[-1])

    @property
    def all_notes(self) -> tuple[str, ...]:
        """The notes, and what was repaired in the rows read so far."""
        return (*self.notes, *repairs) if (repairs := self.store.repairs) else self.notes

    def scores(self, rows: slice) -> Float[Tensor, " n"] | Float[Tensor, "n C"]:
        """Some rows as logits, log-probabilities or log-odds."""
        self.refuse_top_label("scores")
        values = self.store.read(rows)
        if self.space == "logits":
            return values
        probs = values.to(torch.float64)
        return probs.log() if self.kind == "multiclass" else probs.log() - torch.log1p(-probs)

    def probs(self, rows: slice) -> Float[Tensor, " n"] | Float[Tensor, "n C"]:
        """Some rows as probabilities, float64."""
        self.refuse_top_label("probs")
        values = self.store.read(rows).to(torch.float64)
        if self.space == "logits":
            return values.softmax(dim=1) if self.kind == "multiclass" else steady_sigmoid(values)
        return values

    def refuse_top_label(self, what: str) -> None:
        """Scores and probabilities of all classes cannot be had from the winner's alone."""
        if self.kind == "top_label":
            raise InputError(
                f"`{what}` of all classes are not known: these predictions hold top-label confidences."
            )

    @property
    def has_labels(self) -> bool:
        """Whether it is known what is true, or of confidences which are right."""
        return (self.correct if self.kind == "top_label" else self.labels) is not None

    def correctness(self) -> Tensor:
        """Whether each prediction is right.

        Raises:
            InputError: If there are no labels.
        """
        if self.correct is not None:
            return self.correct
        if not self.has_labels:
            missing = "correct" if self.kind == "top_label" else "labels"
            raise InputError(f"whether predictions are correct cannot be told without `{missing}`.")
        return self.top_labels()[1]

    def top_labels(self) -> tuple[Tensor, Tensor]:
        """Confidence and correctness, in pieces; without labels everything counts as wrong."""
        shape = self.store.shape if self.kind != "multiclass" else self.store.shape[:1]
        labels = torch.full(shape, -1) if self.labels is None else self.labels
        # Filled in place: a list of small pieces between the freed large ones would leave the heap in holes.
        confidence, correct = torch.empty(shape, dtype=torch.float64), torch.empty(shape, dtype=torch.bool)
        for rows in self.store.pieces():
            probs, true = self.probs(rows), labels[rows]
            if self.kind == "multilabel":  # each label is an event of its own
                found = top_label(probs.flatten(), true.flatten())
            else:
                found = top_label(probs, true)
            confidence[rows] = found.confidence.view_as(true)
            correct[rows] = found.correct.view_as(true)
        return confidence, correct

    def select(self, where: slice | Int[Tensor, " n"], what: str) -> Contents:
        """The samples of some rows, which messages call ``what``."""
        store = self.store.select(where)
        if store.shape[0] < 2:
            raise InputError(f"{what} must hold at least two samples; got {store.shape[0]}.")
        weights = None if self.weights is None else self.weights[where]
        if weights is not None and not bool(weights.any()):
            raise InputError(f"{what} must not have weight zero throughout.")
        return replace(
            self,
            store=store,
            labels=None if self.labels is None else self.labels[where],
            correct=None if self.correct is None else self.correct[where],
            split=None if self.split is None else self.split[where],
            weights=weights,
            groups=_chosen(self.groups, where),
            clusters=_chosen(self.clusters, where),
            top_k=None if self.top_k is None else self.top_k.rows(where),
        )

    def part(self, code: int, name: str) -> Contents:
        """The samples of one split, which then have none."""
        if self.split is None:
            raise InputError(f"there is no {name} split; give `split` (0 for calibration, 1 for test).")
        chosen = torch.nonzero(self.split == code)[:, 0]
        contiguous = len(chosen) > 0 and int(chosen[-1] - chosen[0]) + 1 == len(chosen)
        where = slice(int(chosen[0]), int(chosen[-1]) + 1) if contiguous else chosen  # a slice copies nothing
        return replace(self.select(where, f"the {name} split"), split=None)

    def arrays(self) -> dict[str, Any]:
        """Tensors, and tuples of texts, that together say everything, by the names that files use."""
        unsaid_kind = self.kind == "multilabel" and (
            self.labels is None or are_one_hot(self.space, self.store.read(slice(None)), self.labels)
        )
        mark = mark_in(self.notes)
        arrays = {
            self.space: self.store.read(slice(None)),
            "labels": self.labels,
            "correct": self.correct,
            "split": self.split,
            "weights": self.weights,
            "class_names": self.class_names,
            "groups": self.groups,
            "clusters": self.clusters,
            "kind": ("multilabel",) if unsaid_kind else None,
            MARK: None if mark is None else (mark.text,),
        }
        if self.top_k is not None and self.kind == "top_label":
            arrays |= arrays_of_top_k(self.top_k)
        return {name: values for name, values in arrays.items() if values is not None}

    def description(self) -> str:
        """Kind, sizes and what else there is, separated by commas."""
        parts = [self.kind, f"{self.num_samples} samples"]
        if self.kind in {"multiclass", "multilabel"}:
            parts.append(f"{self.num_classes} {'classes' if self.kind == 'multiclass' else 'labels'}")
        parts.append(f"{self.space} {str(self.store.dtype).removeprefix('torch.')}")
        if self.split is not None:
            tests = int(self.split.sum())
            parts.append(f"{self.num_samples - tests} calibration + {tests} test")
        if self.labels is None and self.correct is None:
            parts.append("no labels")
        if self.class_names is not None:
            parts.append("named classes")
        if self.weights is not None:
            parts.append("weighted")
        if self.groups is not None:
            parts.append(f"{len(set(self.groups))} groups")
        if self.clusters is not None:
            parts.append(f"{len(set(self.clusters))} clusters")
        if self.source is not None:
            parts.append(f"from {self.source.name}")
        if notes := self.all_notes:
            parts.append(f"{len(notes)} {'note' if len(notes) == 1 else 'notes'}")
        return ", ".join(parts)


def _chosen(names: tuple[str, ...] | None, where: slice | Tensor) -> tuple[str, ...] | None:
    """Names of some rows."""
    if names is None:
        return None
    return names[where] if isinstance(where, slice) else tuple(names[k] for k in where.tolist())
