"""How true are these probabilities, how sure is that, and what repairs them? One call, frozen data."""

from __future__ import annotations

from calibrant.evaluation.chance import NullDistribution, PairedTest, null_distribution, paired_test
from calibrant.evaluation.compare import compare
from calibrant.evaluation.evaluate import evaluate
from calibrant.evaluation.gate import check
from calibrant.evaluation.gate_result import Check, GateResult
from calibrant.evaluation.result import Comparison, Evaluation
from calibrant.evaluation.smooth_band import smooth_consistency_band

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
