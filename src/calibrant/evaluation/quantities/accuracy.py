"""Accuracy."""

from calibrant.evaluation.quantities.quantity import Gate, Quantity, Ratio, Shown

ACCURACY = Quantity(
    key="accuracy",
    title="Accuracy",
    meaning="Share of samples whose most probable answer is right.",
    section="Accuracy and confidence",
    better="higher",
    share=True,
    computed=Ratio(lambda samples: (samples.correct, samples.every), column=0),
    shown=Shown(terminal=True, comparison=4, tile=True),
    gate=Gate("accuracy", help="Smallest accuracy allowed."),
)
