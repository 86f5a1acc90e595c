"""Mean entropy of wrong answers."""

from math import inf

from calibrant.evaluation.quantities.quantity import Quantity, Ratio

ENTROPY_INCORRECT = Quantity(
    key="entropy_incorrect",
    title="Entropy where wrong",
    meaning="The mean entropy of the samples that the model got wrong; it should be high: unsure where "
    "wrong.",
    section="Certainty",
    bounds=(0.0, inf),
    computed=Ratio(lambda samples: (samples.entropy * (1 - samples.correct), 1 - samples.correct), column=7),
    needs_all_classes=True,
    undefined="undefined: no prediction is wrong",
)
