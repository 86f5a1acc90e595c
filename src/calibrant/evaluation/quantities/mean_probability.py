"""Mean probability of a positive."""

from calibrant.evaluation.quantities.quantity import Quantity, Ratio

MEAN_PROBABILITY = Quantity(
    key="mean_probability",
    title="Average probability",
    meaning="Average predicted probability of the positive class; equals the actual rate if calibrated.",
    section="Accuracy and confidence",
    kinds=("binary", "multilabel"),
    computed=Ratio(lambda samples: (samples.stated, samples.each), column=10),
)
