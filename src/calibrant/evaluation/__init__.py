"""How true are these probabilities, how sure is that, and what repairs them? One call, frozen data."""

from __future__ import annotations

from calibrant.evaluation.comparison import compare
from calibrant.evaluation.gate.check import check
from calibrant.evaluation.gate.result import Check, GateResult
from calibrant.evaluation.judging.smooth_band import smooth_consistency_band
from calibrant.evaluation.pipeline import evaluate
from calibrant.evaluation.resampling.chance import (
    NullDistribution,
    PairedTest,
    null_distribution,
    paired_test,
)
from calibrant.evaluation.result import Comparison, Evaluation

__all__ = [
    "Check",
    "Comparison",
    "Evaluation",
    "GateResult",
    "NullDistribution",
    "PairedTest",
    "check",
    "compare",
    "evaluate",
    "null_distribution",
    "paired_test",
    "smooth_consistency_band",
]
