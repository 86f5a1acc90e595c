"""Mean entropy of right answers."""

from math import inf

from calibrant.evaluation.quantities.quantity import Quantity, Ratio

ENTROPY_CORRECT = Quantity(
    key="entropy_correct",
    title="Entropy where right",
    meaning="The mean entropy of the samples that the model got right.",
    section="Certainty",
    bounds=(0.0, inf),
    computed=Ratio(lambda samples: (samples.entropy * samples.correct, samples.correct), column=6),
    needs_all_classes=True,
    undefined="undefined: no prediction is right",
)
