"""A mistake is answered in one sentence, and leaves nothing behind."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from calibrant._math.errors import InputError
from calibrant_lab import data


def refused(words: str, use: Callable[..., Any], *given: Any, **settings: Any) -> None:
    """Check that a call is refused, by one sentence that these words match."""
    with pytest.raises(InputError, match=words) as caught:
        use(*given, **settings)
    assert "\n" not in str(caught.value)


def not_loaded(words: str, name: Path | str, folder: Path | None = None, **how: Any) -> None:
    """Check that data are refused, and that there are no more files than before."""
    place = folder or (Path(name).parent if Path(name).exists() else Path(name))
    present = set(place.rglob("*"))
    refused(words, data.load, str(name), folder=folder, **how)
    assert set(place.rglob("*")) == present
