"""Hands the roster of losses to the tests that ask for a ``loss``, or for a ``class_loss``."""

import pytest

from rosters_losses import LOSSES

KINDS = {"loss": LOSSES, "class_loss": [loss for loss in LOSSES if not loss.multilabel]}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One run of the test for every loss of the kind it asks for."""
    for kind, entries in KINDS.items():
        if kind in metafunc.fixturenames:
            metafunc.parametrize(kind, entries, ids=[loss.name for loss in entries])


@pytest.fixture(scope="session")
def loss_named() -> object:
    return {loss.name: loss for loss in LOSSES}.__getitem__
