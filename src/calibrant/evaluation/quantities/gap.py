"""Mean confidence minus accuracy."""

from calibrant.evaluation.quantities.quantity import Quantity, Ratio

GAP = Quantity(
    key="gap",
    title="Gap",
    meaning="Mean confidence minus accuracy: above 0 the model claims too much, below 0 too little.",
    section="Calibration errors",
    better="near zero",
    bounds=(-1.0, 1.0),
    computed=Ratio(lambda samples: (samples.confidence - samples.correct, samples.every), column=2),
)
