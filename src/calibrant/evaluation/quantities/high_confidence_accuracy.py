"""Accuracy of confident answers."""

from calibrant.evaluation.quantities.quantity import Quantity, Ratio
from calibrant.evaluation.quantities.samples import HIGH_CONFIDENCE

HIGH_CONFIDENCE_ACCURACY = Quantity(
    key="high_confidence_accuracy",
    title=f"Accuracy when ≥ {HIGH_CONFIDENCE} sure",
    meaning=f"How often those samples are right; {HIGH_CONFIDENCE} or more if honest.",
    section="Certainty",
    share=True,
    computed=Ratio(lambda samples: (samples.confident * samples.correct, samples.confident), column=4),
    undefined=f"undefined: no confidence reaches {HIGH_CONFIDENCE}",
)
