"""Share of confident answers."""

from calibrant.evaluation.quantities.quantity import Quantity, Ratio
from calibrant.evaluation.quantities.samples import HIGH_CONFIDENCE

HIGH_CONFIDENCE_SHARE = Quantity(
    key="high_confidence_share",
    title=f"Share ≥ {HIGH_CONFIDENCE} sure",
    meaning=f"Share of samples with a confidence of {HIGH_CONFIDENCE} or more.",
    section="Certainty",
    share=True,
    computed=Ratio(lambda samples: (samples.confident, samples.every), column=3),
)
