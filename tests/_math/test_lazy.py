"""Packages that import their public names on first use."""

from __future__ import annotations

from importlib import import_module

import pytest

PACKAGES = ["calibrant", "calibrant.metrics", "calibrant.reports", "calibrant_lab.training"]


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_is_found(package: str) -> None:
    """Each name of ``__all__`` can be fetched, and ``dir`` lists exactly these."""
    module = import_module(package)
    assert dir(module) == sorted(module.__all__)
    for name in module.__all__:
        assert getattr(module, name) is not None


@pytest.mark.parametrize("package", PACKAGES)
def test_an_unknown_name_is_an_attribute_error(package: str) -> None:
    """The message is the one that Python gives for any module."""
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'nonsense'"):
        _ = import_module(package).nonsense
