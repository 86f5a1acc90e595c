"""Brier score."""

from calibrant.evaluation.quantities.quantity import Gate, Quantity, Ratio, Shown

BRIER = Quantity(
    key="brier",
    title="Brier score",
    meaning="Mean squared distance between probabilities and outcomes: scores accuracy and calibration "
    "together.",
    section="Proper scores",
    better="lower",
    bounds=(0.0, 2.0),
    computed=Ratio(lambda samples: (samples.brier, samples.each), column=9),
    shown=Shown(terminal=True, comparison=5),
    gate=Gate("Brier score", help="Largest Brier score allowed."),
)
