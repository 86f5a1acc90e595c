"""How true are these probabilities, how sure is that, and what repairs them? One call, frozen data."""

from __future__ import annotations

from calibrant.evaluation.compare import compare
from calibrant.evaluation.evaluate import evaluate
from calibrant.evaluation.result import Comparison, Evaluation

__all__ = ["Comparison", "Evaluation", "compare", "evaluate"]
