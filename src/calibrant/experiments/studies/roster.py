"""Which studies there are, in the order of the list that people see: a line each."""
# ruff: noqa: I001

from __future__ import annotations

from calibrant._math.rosters import instances
from calibrant._math.text_form import named
from calibrant.experiments.study import Study
from calibrant.experiments.studies.losses import LOSSES as LOSSES
from calibrant.experiments.studies.calibrators import CALIBRATORS as CALIBRATORS
from calibrant.experiments.studies.predictions import PREDICTIONS as PREDICTIONS
from calibrant.experiments.studies.properness import PROPERNESS as PROPERNESS
from calibrant.experiments.studies.coverage import COVERAGE as COVERAGE
from calibrant.experiments.studies.monitoring import MONITORING as MONITORING
from calibrant.experiments.studies.curvature import CURVATURE as CURVATURE
from calibrant.experiments.studies.linear_model import LINEAR_MODEL as LINEAR_MODEL
from calibrant.experiments.studies.generalisation_gap import GENERALISATION_GAP as GENERALISATION_GAP
from calibrant.experiments.studies.temperature_line import TEMPERATURE_LINE as TEMPERATURE_LINE
from calibrant.experiments.studies.theory_on_data import THEORY_ON_DATA as THEORY_ON_DATA
from calibrant.experiments.studies.shift import SHIFT as SHIFT
from calibrant.experiments.studies.sum_or_mean import SUM_OR_MEAN as SUM_OR_MEAN
from calibrant.experiments.studies.dynamics import DYNAMICS as DYNAMICS
from calibrant.experiments.studies.gammas import GAMMAS as GAMMAS
from calibrant.experiments.studies.fcl_weights import FCL_WEIGHTS as FCL_WEIGHTS
from calibrant.experiments.studies.sst import SST as SST
from calibrant.experiments.studies.texts import TEXTS as TEXTS
from calibrant.experiments.studies.cifar10 import CIFAR10 as CIFAR10
from calibrant.experiments.studies.human_posteriors import HUMAN_POSTERIORS as HUMAN_POSTERIORS
from calibrant.experiments.studies.chest_x_rays import CHEST_X_RAYS as CHEST_X_RAYS

STUDIES = instances(globals(), Study)


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
