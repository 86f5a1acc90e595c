"""``calibrant apply``."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from calibrant._math.errors import InputError
from calibrant.cli.terminal import check_output, progress


def apply(
    calibrator: Annotated[Path, typer.Argument(help="A calibrator that `calibrant fit` saved.")],
    file: Annotated[Path, typer.Argument(help="Predictions; labels are not needed.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Where the calibrated predictions go.")],
) -> None:
    """Repair the probabilities in FILE with a saved calibrator."""
    check_output(out, option="--out", inputs=[calibrator, file])

    from calibrant.calibrators import load_calibrator
    from calibrant.predictions import load_predictions

    with progress(f"reading {file.name}") as tell:
        try:
            fitted = load_calibrator(calibrator)
        except InputError as error:
            _refuse_wrong_order(calibrator, file, error)
            raise
        predictions = load_predictions(file, kind=fitted.kind_)
        if predictions.kind == "top_label":
            msg = f"{file} holds top-label confidences only; a calibrator needs the scores of all classes."
            raise InputError(msg)
        tell(f"applying {fitted.name}", 0.5)
        calibrated = predictions.replace_probs(fitted.predict_proba(predictions.scores))
        tell(f"writing {out.name}", 0.8)
        calibrated.save(out)
    for note in predictions.notes:
        typer.echo(f"note: {note}")
    typer.echo(f"calibrated probabilities of {calibrated.num_samples:,} samples: {out}")


def _refuse_wrong_order(calibrator: Path, file: Path, error: InputError) -> None:
    """Where the second file is a calibrator and the first is not, say how they go."""
    from calibrant.calibrators import load_calibrator

    try:
        load_calibrator(file)
    except (InputError, OSError):
        return
    command = shlex.join(["calibrant", "apply", str(file), str(calibrator)])
    raise InputError(
        f"the calibrator comes first, and {calibrator} is none: {command} --out FILE."
    ) from error
