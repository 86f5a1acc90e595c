"""Area under the ROC curve."""

from calibrant.evaluation.quantities.quantity import ClassRanks, Quantity

AUROC = Quantity(
    key="auroc",
    title="AUROC",
    meaning="How well the scores rank: the chance that a positive sample scores above a negative one.",
    section="Accuracy and confidence",
    better="higher",
    computed=ClassRanks(),
    needs_all_classes=True,
    undefined="undefined: no class has both positive and negative samples",
    when_streamed="not computed: the scores are read in pieces, and ranking needs those of each class "
    "together",
)
