"""What several tests of predictions need."""

from collections.abc import Callable

import pytest
import torch

from calibrant.predictions import Predictions


@pytest.fixture(scope="session")
def assert_same() -> Callable[..., None]:
    """Compare two tables of predictions, value by value and without tolerance."""

    def check(found: Predictions, expected: Predictions, *, dtype: torch.dtype | None = None) -> None:
        for name in ("kind", "space", "class_names", "groups", "clusters"):
            assert getattr(found, name) == getattr(expected, name), name
        assert found.values.dtype == (dtype or expected.values.dtype)
        assert torch.equal(found.values.double(), expected.values.double())
        for name in ("labels", "split", "weights", *(["correct"] if expected.kind == "top_label" else [])):
            one, other = getattr(found, name), getattr(expected, name)
            assert (one is None) == (other is None), name
            assert one is None or (one.dtype == other.dtype and torch.equal(one, other)), name

    return check
