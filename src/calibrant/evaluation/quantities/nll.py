"""Negative log-likelihood."""

from math import inf

from calibrant.evaluation.quantities.quantity import Gate, Quantity, Ratio, Shown

NLL = Quantity(
    key="nll",
    title="Log loss",
    meaning="Negative log-likelihood (NLL) in nats: scores accuracy and calibration together, and penalises "
    "confident mistakes most.",
    section="Proper scores",
    better="lower",
    bounds=(0.0, inf),
    computed=Ratio(lambda samples: (samples.nll, samples.each), column=8),
    shown=Shown(terminal=True, comparison=3, tile=True),
    gate=Gate("log loss", help="Largest log loss allowed."),
)
