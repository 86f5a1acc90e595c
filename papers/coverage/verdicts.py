"""What the verdict says of a test set: which parts fail, and whether it decides."""

from __future__ import annotations

import numpy as np

from calibrant.evaluation.judging.measure import Measured
from calibrant.evaluation.judging.noise import Noise
from calibrant.evaluation.judging.parts import parts_of
from calibrant.evaluation.quantities import CLASSWISE_ECE, ECE, GAP, MEAN_PROBABILITY, PREVALENCE
from calibrant.evaluation.resampling.intervals import centred_interval
from calibrant.evaluation.resampling.statistics import Means
from calibrant.evaluation.result import Estimate, Part
from calibrant.evaluation.verdict.finding import find

_MEANS = (GAP.key, MEAN_PROBABILITY.key, PREVALENCE.key)


def judged_parts(noise: Noise) -> tuple[Part, ...]:
    """The parts of the verdict."""
    reduced, procedure = noise.reduced, noise.procedure
    of_classes = noise.classes
    wanted = {ECE.key, CLASSWISE_ECE.key}
    errors = {each.key: noise.errors(each) for each in reduced.quantities if each.key in wanted}
    drawn = {key: each for key, each in errors.items() if each is not None}
    return parts_of(reduced, procedure, drawn, of_classes)


def word(noise: Noise, parts: tuple[Part, ...]) -> str:
    """The direction that the verdict gives, and why, if it decides nothing."""
    reduced, procedure = noise.reduced, noise.procedure
    means = Means({key: reduced.ratios[key] for key in _MEANS if key in reduced.ratios})
    blocks = [means(counts) for counts in procedure.resamples(reduced.num_samples, 0).blocks()]
    replicates = {key: np.concatenate([block[key] for block in blocks]) for key in blocks[0]}
    value = reduced.values[GAP.key]
    low, high = centred_interval(value, replicates[GAP.key], procedure.level, GAP.bounds) or (None, None)
    metrics = {GAP.key: Estimate(value=value, low=low, high=high)}
    finding = find(Measured(reduced, replicates, {}, noise, metrics), parts, procedure.level)
    return finding.direction if finding.doubt is None else f"{finding.direction}: {finding.doubt}"
