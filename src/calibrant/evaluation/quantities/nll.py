"""Negative log-likelihood."""

from math import inf

from calibrant.evaluation.quantities.quantity import Gate, Quantity, Ratio, Shown

NLL = Quantity(
    key="nll",
    title="NLL",
    meaning="Negative log-likelihood in nats: judges accuracy and honesty at once, confident mistakes "
    "hardest.",
    section="Proper scores",
    better="lower",
    bounds=(0.0, inf),
    computed=Ratio(lambda samples: (samples.nll, samples.each), column=8),
    shown=Shown(terminal=True, comparison=3, tile=True),
    gate=Gate("negative log-likelihood", help="Largest log loss allowed."),
)
