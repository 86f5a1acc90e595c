"""COCO's results as they come from a detector: scores to repair, with nothing known of what is true."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from calibrant._math.errors import InputError
from calibrant._math.files import atomic_write
from calibrant.predictions.detections import parsed, scores_of
from calibrant.predictions.formats.mark import MARK, mark_in, notes_of_mark
from calibrant.predictions.table import Predictions


@dataclass(frozen=True, kw_only=True, eq=False)
class DetectionResults:
    """The entries of a results file, and their scores as confidences."""

    entries: Sequence[Mapping[str, Any]]
    predictions: Predictions

    def save(self, path: Path, repaired: Predictions) -> None:
        """Write the entries again, all fields kept, with other scores, and their mark if they have one."""
        scores, mark = repaired.confidence.tolist(), mark_in(repaired.notes)
        marked = {} if mark is None else {MARK: mark.text}
        changed = [
            {**each, "score": score} | marked for each, score in zip(self.entries, scores, strict=True)
        ]
        with atomic_write(path) as temporary:
            temporary.write_text(json.dumps(changed), encoding="utf-8")


def detection_results(path: Path, *, annotations: Path | None = None) -> DetectionResults | None:
    """What a file holds, if it is COCO's results: a list of ``image_id``, ``category_id`` and ``score``.

    Args:
        path: The file.
        annotations: Of which the ``categories`` name the classes; without it there are no groups.

    Raises:
        InputError: If a score is not in 0..1, or a class has no name.
    """
    if path.suffix.lower() != ".json" or not path.is_file():
        return None
    entries = parsed(path)
    if not isinstance(entries, list) or not entries:
        return None
    entries = cast("list[Any]", entries)
    if not isinstance(entries[0], dict) or not {"image_id", "category_id", "score"} <= set(entries[0]):
        return None
    try:
        scores = scores_of(entries)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    predictions = Predictions(
        confidence=scores,
        groups=None if annotations is None else _classes(entries, path, annotations),
        notes=notes_of_mark([str(each.get(MARK, "")) for each in entries]),
    )
    return DetectionResults(entries=entries, predictions=predictions)


def _classes(entries: Sequence[Mapping[str, Any]], path: Path, annotations: Path) -> list[str]:
    truth = parsed(annotations)
    if not isinstance(truth, dict):
        raise InputError(f"{annotations} must be COCO's annotations, with `categories`.")
    given = cast("dict[str, Any]", truth)
    names = {each["id"]: str(each["name"]) for each in given.get("categories", [])}
    found: list[str] = []
    for place, each in enumerate(entries):
        number = each.get("category_id")
        if names and number not in names:
            raise InputError(
                f"{path}: detection {place} is of class {number}, which is none of the {len(names)} "
                f"`categories` of {annotations}."
            )
        found.append(names.get(number, str(number)))
    return found
