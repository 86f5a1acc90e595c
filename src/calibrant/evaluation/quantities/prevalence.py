"""Share of positives."""

from calibrant.evaluation.quantities.quantity import Quantity, Ratio

PREVALENCE = Quantity(
    key="prevalence",
    title="Actual rate",
    meaning="Share of positives in the data.",
    section="Accuracy and confidence",
    kinds=("binary", "multilabel"),
    share=True,
    computed=Ratio(lambda samples: (samples.happened, samples.each), column=11),
)
