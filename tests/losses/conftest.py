"""Hands the roster of losses to the tests that ask for a ``loss``."""

from __future__ import annotations

import pytest

from rosters_losses import LOSSES

# What a test may ask for, and which entries it then gets.
KINDS = {
    "loss": lambda _: True,
    "class_loss": lambda loss: not loss.multilabel,
    "sample_loss": lambda loss: not loss.batch,
    "batch_loss": lambda loss: loss.batch,
    "soft_loss": lambda loss: loss.soft,
    "twice_loss": lambda loss: loss.twice_differentiable,
    "transformed_loss": lambda loss: loss.transforms,
    "blind_loss": lambda loss: not loss.looks,
    "limited_loss": lambda loss: loss.limit is not None,
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One run of the test for every loss of the kind it asks for."""
    for kind, wanted in KINDS.items():
        if kind in metafunc.fixturenames:
            entries = [loss for loss in LOSSES if wanted(loss)]
            metafunc.parametrize(kind, entries, ids=[loss.name for loss in entries])


@pytest.fixture(scope="session")
def loss_named() -> object:
    """The roster's entry of a name."""
    return {loss.name: loss for loss in LOSSES}.__getitem__
