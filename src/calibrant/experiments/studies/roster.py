"""Which studies there are."""

from __future__ import annotations

from dataclasses import dataclass

from calibrant._math.errors import InputError
from calibrant._math.text_form import nearest


@dataclass(frozen=True, kw_only=True)
class Study:
    """An experiment that one command repeats."""

    name: str
    summary: str


STUDIES = (
    Study(
        name="losses",
        summary="The losses on Fashion-MNIST, as it is and long-tailed: some twenty arms, three seeds each.",
    ),
    Study(
        name="calibrators",
        summary="Every calibrator on every file of logits in a folder, over ten divisions into halves.",
    ),
    Study(
        name="predictions",
        summary="Every file of predictions in a folder, judged as it came: one row each.",
    ),
    Study(
        name="properness",
        summary="Every loss: is it proper, does it keep the class, is it convex, how sure does it make one.",
    ),
    Study(
        name="curvature",
        summary="Does focal loss calibrate by lowering curvature? Some 300 small networks, measured.",
    ),
    Study(
        name="linear-model",
        summary="Cross-entropy and focal loss on a linear model: norms, confidence of mistakes, curvature.",
    ),
    Study(
        name="generalisation-gap",
        summary="Where the truth is known: over-confidence by sample size, capacity and exponent.",
    ),
    Study(
        name="temperature-line",
        summary="How linear the best temperature is in the exponent: prediction files and small networks.",
    ),
    Study(
        name="theory-on-data",
        summary="The focal map on real files and stored runs: lowered confidences, products of temperatures.",
    ),
)


def study_named(name: str) -> Study:
    """The study of that name.

    Raises:
        InputError: If there is none.

    Example:
        >>> study_named("losses").name
        'losses'
    """
    for study in STUDIES:
        if study.name == name:
            return study
    names = [study.name for study in STUDIES]
    raise InputError(f"there is no study {name!r}{nearest(name, names)} `calibrant study --list` says more.")
