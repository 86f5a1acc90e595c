"""Trainings whose reports have fewer pictures, or none: drawing is nearly all that so small runs do."""

import functools
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from markupsafe import Markup

from calibrant.evaluation import evaluate


@contextmanager
def drawing_little() -> Iterator[None]:
    """Leave out the pictures of a training and most null draws."""
    with pytest.MonkeyPatch.context() as patch:
        quick = functools.partial(evaluate, null_draws=20)
        patch.setattr("calibrant_lab.training.run_report.evaluate", quick)
        patch.setattr("calibrant_lab.training.run_report.dynamics_sections", lambda _rows, _snapshots: ())
        yield


@contextmanager
def drawing_no_diagrams() -> Iterator[None]:
    """And the diagrams of the evaluation; all else of a report stays."""
    with drawing_little(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "calibrant.reports.pictures.to_svg",
            lambda _figure, **_words: Markup('<svg aria-hidden="true"></svg>'),
        )
        yield


@contextmanager
def drawing_nothing() -> Iterator[None]:
    with drawing_little(), pytest.MonkeyPatch.context() as patch:
        patch.setattr("calibrant.reports.html.report_text", lambda *_given, **_sections: "<!doctype html>")
        yield
