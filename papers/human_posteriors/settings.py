"""Settings of the study of people's judgements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

JUDGEMENTS = "cifar10h_human_labels/cifar10h.npz"
NETWORKS: Mapping[str, tuple[str, str]] = {
    "vgg16": ("VGG-16", "logits_cifar10_vgg16_probs/cifar10_vgg16.npz"),
    "lenet5": ("LeNet-5", "logits_netcal_cifar/lenet-5-cifar-10.npz"),
}
"""Networks with outputs on the test images of CIFAR-10, in the order of the judgements: title and file."""
DIVISIONS = 5
"""Divisions of the images into halves; each half is judged by what was fitted on the other."""
REFITS = 100
"""Resamples of the images to which everything is fitted again."""
WEIGHT = 0.5
"""Weight of FCL's distance."""
ASKED = tuple(step / 4 for step in range(41))
"""Exponents tried for what a loss asks for."""
MAPPED = tuple(step / 20 for step in range(-19, 61))
"""Exponents tried for the focal calibration map."""

AS_TRAINED = "as-trained"
TEMPERATURE = "temperature"
FOCAL = "focal-temperature"
MAP = "focal-map"
FOCAL_ASKED = "focal-asked"
FCL_ASKED = "fcl-asked"
IDEAL_FOCAL = "ideal-focal"
IDEAL_FCL = "ideal-fcl"
BY_PEOPLE = "temperature-people"
FOCAL_BY_PEOPLE = "focal-temperature-people"


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One way to treat a network's probabilities.

    Attributes:
        key: Name in the results file.
        title: What it is called on the page.
        what: What it does, for the list on the page.
        said: What a sentence calls it, if not by its title.
    """

    key: str
    title: str
    what: str
    said: str = ""


ARMS = (
    Arm(
        key=AS_TRAINED,
        title="as trained",
        what="the network's own probabilities",
        said="the network as trained",
    ),
    Arm(key=TEMPERATURE, title="temperature", what="temperature scaling", said="temperature scaling"),
    Arm(
        key=FOCAL,
        title="focal temperature",
        what="focal temperature scaling: temperature, then focal map",
        said="focal temperature scaling",
    ),
    Arm(
        key=MAP,
        title="focal map",
        what="the focal calibration map alone, its exponent fitted",
        said="the focal calibration map with a fitted exponent (inverse where that is negative)",
    ),
    Arm(
        key=FOCAL_ASKED,
        title="focal loss's answer",
        what="what focal loss asks for where the network's probabilities are the truth, its exponent fitted",
    ),
    Arm(
        key=FCL_ASKED,
        title="FCL's answer",
        what="the same of focal calibration loss (FCL), λ = 0.5, its exponent fitted",
    ),
    Arm(key="ensemble-temperature", title="ensemble temperature", what="ensemble temperature scaling"),
    Arm(key="vector", title="vector", what="vector scaling"),
    Arm(
        key=IDEAL_FOCAL,
        title="temperature, then focal loss's answer, γ = 1",
        said="focal loss's answer (γ = 1) to what temperature scaling says",
        what="what a perfect learner of focal loss with γ = 1 would say if temperature scaling were right",
    ),
    Arm(
        key=IDEAL_FCL,
        title="temperature, then FCL's answer, γ = 3",
        said="FCL's answer (γ = 3, λ = 0.5) to what temperature scaling says",
        what="the same of FCL with γ = 3 and λ = 0.5",
    ),
    Arm(key=BY_PEOPLE, title="temperature, by people", what="temperature scaling fitted to the judgements"),
    Arm(
        key=FOCAL_BY_PEOPLE,
        title="focal temperature, by people",
        what="focal temperature scaling fitted to the judgements",
    ),
)
TITLES: Mapping[str, str] = {arm.key: arm.title for arm in ARMS}
SAID: Mapping[str, str] = {arm.key: arm.said or arm.title for arm in ARMS}

PAIRS = (
    (TEMPERATURE, AS_TRAINED),
    (FOCAL, AS_TRAINED),
    (FOCAL, TEMPERATURE),
    (MAP, AS_TRAINED),
    (MAP, TEMPERATURE),
    (FOCAL_ASKED, AS_TRAINED),
    (FOCAL_ASKED, TEMPERATURE),
    (FCL_ASKED, AS_TRAINED),
    (FCL_ASKED, TEMPERATURE),
    (IDEAL_FOCAL, TEMPERATURE),
    (IDEAL_FCL, TEMPERATURE),
    (BY_PEOPLE, TEMPERATURE),
    (FOCAL_BY_PEOPLE, BY_PEOPLE),
)
"""What is compared: the first is asked to be nearer to people than the second."""
MEASURES: Mapping[str, str] = {"nll": "NLL", "distance": "squared distance"}
"""Measures of which pairs are compared: one family of tests each."""
