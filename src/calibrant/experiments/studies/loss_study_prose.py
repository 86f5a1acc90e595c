"""What the pages of the loss study say in words: what was done, what the numbers are, how to repeat it."""

from __future__ import annotations

from collections.abc import Sequence

from calibrant.experiments.studies.loss_study import Setting
from calibrant.experiments.studies.loss_study_numbers import ArmNumbers

PLANNED_SEEDS = 3


def about(setting: Setting, numbers: Sequence[ArmNumbers], counts: Sequence[int], wanted: int) -> str:
    """The paragraphs before the first table."""
    texts = (
        _done(setting, numbers, counts),
        _meaning(numbers),
        _chosen(numbers),
        _tail() if is_imbalanced(counts) else "",
        _unfinished(setting, numbers, wanted),
    )
    return "\n\n".join(text for text in texts if text)


def is_imbalanced(counts: Sequence[int]) -> bool:
    """Whether the classes differ much in their training images.

    Example:
        >>> is_imbalanced([100, 99]), is_imbalanced([100, 1])
        (False, True)
    """
    return max(counts) > 2 * min(counts)


def again(setting: Setting, seeds: int) -> str:
    """How to repeat it."""
    command = f"$ calibrant study losses --setting {setting.key} --seeds {seeds} --out study"
    return (
        f"## How to repeat it\n\n```console\n{command}\n{command} --table docs/results\n```\n\n"
        "The first command trains what is not trained yet and may be stopped at any time; the environment "
        "variable `CALIBRANT_DATA` names the folder of data sets. What the arms start from are "
        "`recipes/fashion-mnist-losses.toml` and `recipes/fashion-mnist-long-tail.toml`; every run's folder "
        "has its own recipe in full. The published values appear if `--published` names a folder of such "
        "tables."
    )


def _done(setting: Setting, numbers: Sequence[ArmNumbers], counts: Sequence[int]) -> str:
    recipe = setting.base
    data, optimiser, training = recipe.data, recipe.optimiser, recipe.training
    shares = "the classes in equal shares"
    if is_imbalanced(counts):
        shares = (
            f"from {max(counts):,} of the first class down to {min(counts):,} of the last "
            f"(ratio {data.imbalance:g}, falling geometrically)"
        )
    has_adafocal = any(each.arm.key == "adafocal" for each in numbers)
    policy = f", another {data.policy:,} drive AdaFocal's exponents" if data.policy and has_adafocal else ""
    clip = f", gradients clipped at {optimiser.clip_norm:g}" if optimiser.clip_norm else ""
    steps = " and ".join(str(epoch) for epoch in recipe.schedule.milestones)
    return (
        f"**What was done.** {sum(counts):,} training images, {shares}; {data.calibration:,} held-out images "
        f"fit the temperatures{policy}; every number here is of the test images. Network: `{recipe.model}`. "
        f"{optimiser.name.upper()} with learning rate {optimiser.learning_rate:g} and momentum "
        f"{optimiser.momentum:g}{clip}, times {recipe.schedule.factor:g} after epochs {steps} of "
        f"{training.epochs}, batches of {training.batch_size}, loss averaged over the batch, weight decay "
        f"{optimiser.weight_decay:g} unless an arm says otherwise, no augmentation, last epoch judged."
    )


def _meaning(numbers: Sequence[ArmNumbers]) -> str:
    ns = sorted({len(each.runs) for each in numbers})
    seeds = str(ns[0]) if len(ns) == 1 else f"{ns[0]} to {ns[-1]}"
    return (
        "**What the numbers are.** Mean ± half the width of the 95 % interval (Student's t) over n seeds of "
        f"initial weights and order of samples (n = {seeds}); with so few seeds intervals are wide, and of "
        "one seed there is none. Which images train, calibrate and test is the same throughout, so the "
        "intervals say nothing of other data. ECE and classwise ECE have 15 bins of equal width, AdaECE 15 "
        "of equal mass; smCE is exact. Both calibrators are fitted by likelihood on the calibration split."
    )


def _chosen(numbers: Sequence[ArmNumbers]) -> str:
    text = (
        "**How the setting was chosen.** So that it shows what the papers are about: few images, a network "
        "without batch normalisation, dropout or augmentation, and epochs enough that cross-entropy learns "
        "its training images nearly by heart and becomes over-confident. That, and that all runs fit into an "
        "hour on one core, was tried out with cross-entropy (once with focal loss, γ = 1) on training and "
        "calibration images alone. The test images were not looked at, and no loss's own settings were "
        "tuned: they are the papers' or the defaults."
    )
    if any(each.arm.key == "mmce-published" for each in numbers):
        text += (
            " MMCE as published divides its penalty twice by the number of samples; with that mended "
            "(`as_published=False`), λ = 2 turned out so strong that the published form was added beside it."
        )
    if max(len(each.runs) for each in numbers) > PLANNED_SEEDS:
        text += (
            f" {PLANNED_SEEDS} seeds were planned; when their results were known more were run, of every arm "
            "and with nothing else changed, to narrow the intervals."
        )
    return text


def _tail() -> str:
    return (
        "The calibration split is balanced, like the test images and unlike the training images; where only "
        "long-tailed data are at hand no calibrator could be fitted so. α marks arms whose classes are "
        "weighted by the inverse of their frequency. The rare classes are the last ones of the set and "
        "happen to be among its easiest, so frequent and rare classes differ in more than frequency: compare "
        "arms within a class, not classes within an arm."
    )


def _unfinished(setting: Setting, numbers: Sequence[ArmNumbers], wanted: int) -> str:
    short = [each.arm.title for each in numbers if len(each.runs) < wanted]
    known = {each.arm.key for each in numbers}
    absent = [arm.title for arm in setting.arms if arm.key not in known]
    lines: list[str] = []
    if short:
        lines.append(f"**Unfinished.** {wanted} seeds are wanted; fewer have: {'; '.join(short)}.")
    if absent:
        lines.append(f"Without a finished run: {'; '.join(absent)}.")
    return " ".join(lines)
