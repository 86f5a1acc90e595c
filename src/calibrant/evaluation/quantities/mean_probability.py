"""Mean probability of a positive."""

from calibrant.evaluation.quantities.quantity import Quantity, Ratio

MEAN_PROBABILITY = Quantity(
    key="mean_probability",
    title="Average probability",
    meaning="Mean stated probability of a positive; equals the prevalence if honest.",
    section="Accuracy and confidence",
    kinds=("binary", "multilabel"),
    computed=Ratio(lambda samples: (samples.stated, samples.each), column=10),
)
