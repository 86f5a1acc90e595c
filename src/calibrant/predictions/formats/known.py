"""The names that others give to what calibrant reads: one table for columns, fields and arrays."""

from __future__ import annotations

LABELS = (
    *("y_true", "y_test", "y", "target", "targets", "truth", "ground_truth", "gold", "actual", "true_label"),
    *("true_labels", "true_class", "references", "reference"),
)
WEIGHTS = (
    *("sample_weight", "sample_weights", "case_weight", "case_weights", "survey_weight", "survey_weights"),
    *("importance_weight", "importance_weights", "exposure", "w"),
)
CONFIDENCES = ("conf", "stated_confidence", "verbal_confidence", "confidence_score")
OUTCOMES = ("is_correct", "was_correct", "is_right", "right")
SINGLE = (
    *("predict_proba", "y_score", "y_prob", "y_proba", "y_pred_proba", "y_pred_prob", "pred_proba", "proba"),
    *("probas", "probability", "probabilities", "prediction_scores", "prediction_probs", "p"),
)
DECISIONS = ("y_pred", "pred", "prediction", "predictions", "predicted")
"""What holds decisions as often as probabilities: its values say so."""
PREDICTED = ("pred_label", "predicted_label", "predicted_class", *DECISIONS)
FAMILIES = {
    "prob": (
        *("p_", "predict_proba_", "proba_", "probs_", "probability_", "y_score_", "y_prob_", "y_proba_"),
        *("y_pred_proba_", "y_pred_prob_", "pred_proba_", "prob.", "proba.", ".pred_", "prediction_"),
    ),
    "logit": ("logits_", "logit.", "logits."),
}
SPACES = {"logit": "logits", "prob": "probs"}
SCORES = frozenset({"prob", "logit", "confidence"})
NO_CLASS = frozenset(
    {"max", "pred", "predicted", "top", "top1", "true", "correct", "label", "value", "class", "score"}
)
"""What may stand in the name of a column of scores and is not a class."""
ARRAYS = {
    "label": "labels",
    "weight": "weights",
    "group": "groups",
    "cluster": "clusters",
    **SPACES,
}
"""An array has the plural for its name, a column the singular or the plural."""


def space_of(name: str) -> str | None:
    """Whether a column of this name, whose cells are lists, holds the logits or probabilities of all classes.

    Example:
        >>> space_of("y_prob"), space_of("Logits"), space_of("tokens")
        ('probs', 'logits', None)
    """
    lower = name.lower()
    if lower in {"logit", "logits"}:
        return "logits"
    return "probs" if lower in {"prob", "probs", *SINGLE, *DECISIONS} else None
