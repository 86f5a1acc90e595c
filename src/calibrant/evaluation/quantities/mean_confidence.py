"""Mean confidence."""

from calibrant.evaluation.quantities.quantity import Quantity, Ratio

MEAN_CONFIDENCE = Quantity(
    key="mean_confidence",
    title="Average confidence",
    meaning="Mean probability of the most probable answer; equals the accuracy if honest.",
    section="Accuracy and confidence",
    computed=Ratio(lambda samples: (samples.confidence, samples.every), column=1),
)
