"""Which studies there are: a line each."""

from __future__ import annotations

from calibrant._math.text_form import named
from calibrant.experiments.studies.calibrators import STUDY as CALIBRATORS
from calibrant.experiments.studies.curvature import STUDY as CURVATURE
from calibrant.experiments.studies.generalisation_gap import STUDY as GENERALISATION_GAP
from calibrant.experiments.studies.linear_model import STUDY as LINEAR_MODEL
from calibrant.experiments.studies.losses import STUDY as LOSSES
from calibrant.experiments.studies.predictions import STUDY as PREDICTIONS
from calibrant.experiments.studies.properness import STUDY as PROPERNESS
from calibrant.experiments.studies.temperature_line import STUDY as TEMPERATURE_LINE
from calibrant.experiments.studies.theory_on_data import STUDY as THEORY_ON_DATA
from calibrant.experiments.study import Study

STUDIES = (
    LOSSES,
    CALIBRATORS,
    PREDICTIONS,
    PROPERNESS,
    CURVATURE,
    LINEAR_MODEL,
    GENERALISATION_GAP,
    TEMPERATURE_LINE,
    THEORY_ON_DATA,
)


def study_named(name: str) -> Study:
    """The study of that name.

    Raises:
        InputError: If there is none.

    Example:
        >>> study_named("losses").name
        'losses'
    """
    return named(
        name, {each.name: each for each in STUDIES}, "study", remedy=" `calibrant study --list` says more."
    )
