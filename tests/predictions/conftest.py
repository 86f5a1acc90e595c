"""What several tests of predictions need."""

from collections.abc import Callable

import pytest
import torch

from calibrant.predictions import Predictions


@pytest.fixture(scope="session")
def assert_same() -> Callable[..., None]:
    """Compare two tables of predictions, value by value and without tolerance."""

    def check(found: Predictions, expected: Predictions, *, dtype: torch.dtype | None = None) -> None:
        assert found.kind == expected.kind
        assert found.space == expected.space
        assert found.values.dtype == (dtype or expected.values.dtype)
        assert torch.equal(found.values.double(), expected.values.double())
        for name in ("labels", "split", "weights"):
            one, other = getattr(found, name), getattr(expected, name)
            assert (one is None) == (other is None), name
            if one is not None:
                assert one.dtype == other.dtype
                assert torch.equal(one, other), name
        if expected.kind == "top_label":
            assert torch.equal(found.correct, expected.correct)
        assert found.class_names == expected.class_names
        assert found.groups == expected.groups
        assert found.clusters == expected.clusters

    return check
