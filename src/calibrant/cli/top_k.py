"""Files that hold only the largest logits of each sample, on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from calibrant._math.errors import InputError
from calibrant.cli.terminal import write_unless_other

if TYPE_CHECKING:
    from calibrant.calibrators import Calibrator
    from calibrant.predictions import Predictions


def apply_to_top_k(
    fitted: Calibrator | None, calibrator: Path, given: Predictions, file: Path, out: Path, *, force: bool
) -> str:
    """Write the file anew with its logits over a temperature; what to say of it."""
    from calibrant.predictions.to_event import marked
    from calibrant.predictions.top_k import at_temperature, has_row_temperature

    if fitted is None or given.top_k is None or not has_row_temperature(fitted.text, given):
        raise InputError(
            f"{file} holds only the largest logits of each sample, to which a temperature is applied, or a "
            "calibrator that was fitted on such a file; beside them it must hold `num_classes`."
        )
    if given.top_k.num_classes != fitted.num_classes_:
        raise InputError(
            f"{file} has {given.top_k.num_classes} classes, {calibrator} was fitted on "
            f"{fitted.num_classes_}; name predictions of the same model."
        )
    temperature = float(fitted.get_buffer("temperature"))
    calibrated = marked(at_temperature(given, temperature), fitted.name)
    write_unless_other(out, calibrated.save, option="--out", force=force)
    low, high = given.top_k.confidence_bounds(temperature)
    apart = float((high - low).max())
    return (
        f"logits of {given.num_samples:,} samples over {temperature:.4g}: {out}\n"
        "note: the total probability of the classes that are not listed is approximate then; it changes no "
        f"confidence by more than {apart:.2g}"
    )
