"""Arguments of the wrong type, and what to pass instead."""

from __future__ import annotations

from collections.abc import Iterable

from calibrant.predictions import Predictions

GROUPS_NOTE = "`groups` are kept but not used yet: intervals treat samples as independent."


def check_predictions(value: object, name: str) -> None:
    """Refuse a path, an array or anything else that is not predictions."""
    if not isinstance(value, Predictions):
        raise TypeError(
            f"`{name}` must be Predictions; got {type(value).__name__}; "
            "to read a file use `calibrant.load_predictions(path)`."
        )


def check_pairs(models: Iterable[object]) -> None:
    """Refuse anything but pairs of a name and predictions."""
    for model in models:
        match model:
            case (str(name), value):
                check_predictions(value, name)
            case _:
                raise TypeError(
                    f"`models` must hold pairs of a name and Predictions; got {type(model).__name__}; "
                    "to read a file use `calibrant.load_predictions(path)`."
                )
