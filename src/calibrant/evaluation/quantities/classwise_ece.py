"""Class-wise calibration error."""

from calibrant.evaluation.quantities.quantity import ClassErrors, Gate, Quantity

CLASSWISE_ECE = Quantity(
    key="classwise_ece",
    title="Classwise ECE",
    meaning="Calibration error of every class's probability, not only the winner's, averaged over the "
    "classes.",
    section="Calibration errors",
    better="lower",
    computed=ClassErrors(),
    needs_all_classes=True,
    gate=Gate("classwise calibration error", help="Largest classwise ECE allowed, e.g. 0.005."),
    when_streamed="no interval: the scores are read in pieces, not once for every resample",
)
