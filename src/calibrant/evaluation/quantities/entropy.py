"""Mean entropy."""

from math import inf

from calibrant.evaluation.quantities.quantity import Quantity, Ratio

ENTROPY = Quantity(
    key="entropy",
    title="Entropy",
    meaning="Mean entropy of the predicted probabilities in nats; 0 is certain.",
    section="Certainty",
    bounds=(0.0, inf),
    computed=Ratio(lambda samples: (samples.entropy, samples.every), column=5),
    needs_all_classes=True,
)
