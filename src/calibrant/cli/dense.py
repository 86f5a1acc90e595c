"""Segmentation outputs on the command line."""

from __future__ import annotations

import csv
import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from calibrant._math.decimals import plural
from calibrant._math.errors import InputError
from calibrant.cli.terminal import refuse_calibrated

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from calibrant.calibrators import Calibrator
    from calibrant.predictions import DensePredictions, Predictions

IgnoreIndex = Annotated[
    int | None,
    typer.Option(metavar="LABEL", help="Segmentation: ignore pixels with this label."),
]


def opened_dense(
    path: Path,
    *,
    ignore_index: int | None,
    images: Path | None = None,
    tabular: str = "",
    others: bool = False,
) -> DensePredictions | None:
    """The images of a folder or archive, if it holds such.

    Args:
        path: What may hold images.
        ignore_index: The label of positions that are left out.
        images: Where a table of the images shall go.
        tabular: Options that say how tables are read, as they were typed; images heed none of them.
        others: Whether the options for images may be for other files.
    """
    from calibrant.predictions import load_dense
    from calibrant.predictions.dense import is_dense

    if is_dense(path):
        if tabular:
            raise InputError(
                f"{path} holds images of scores with labels of their own, and each image is a cluster; "
                f"leave out {tabular}."
            )
        return load_dense(path, ignore_index=ignore_index)
    if not others:
        refuse_images_options(path, ignore_index, images)
    return None


def refuse_images_options(place: Path | str, ignore_index: int | None, images: Path | None) -> None:
    """Refuse what only images heed, where there are none.

    Raises:
        InputError: If such an option is given.
    """
    if ignore_index is not None or images is not None:
        raise InputError(
            "--ignore-index and --images are for segmentation, logits of shape (N, C, H, W), of which "
            f"{place} holds none."
        )


def positions_to_fit(dense: DensePredictions) -> Predictions:
    """Random positions of every image, all marked to be fitted on."""
    from calibrant.evaluation.dense.source import MOST_FITTED

    most = max(1, MOST_FITTED // dense.num_classes // dense.num_images)
    sample = dense.sample(most)
    return sample.with_split([0] * sample.num_samples)


def apply_to_images(fitted: Calibrator | None, folder: Path, out: Path, *, force: bool) -> str:
    """Write the folder of images anew, with repaired probabilities; what to say of it."""
    from calibrant.predictions import Predictions
    from calibrant.predictions.dense import marks_in, repair_images
    from calibrant.predictions.formats.mark import Mark, mark_in
    from calibrant.predictions.to_event import repaired, to_repair

    if fitted is None:
        raise InputError(
            f"{folder} holds images, to which one calibrator for all is applied, without --label-shift and "
            "--prior."
        )
    if fitted.kind_ not in {"multiclass", "binary"}:
        raise InputError(
            f"{folder} holds images of scores of several classes, and the calibrator was fitted on "
            f"{fitted.kind_} predictions; fit one on such images."
        )

    marks = marks_in(folder)
    refuse_calibrated(folder, marks, force=force)
    mark = Mark.of(fitted.name, "", before=mark_in(marks))

    def repair(rows: NDArray[Any], space: str) -> NDArray[Any]:
        given: dict[str, Any] = {space: rows}
        predictions = Predictions(**given)
        form = to_repair(predictions) if fitted.kind_ == "binary" else predictions
        return repaired(predictions, fitted.predict_proba(form.scores)).probs.numpy()

    count = repair_images(folder, out, repair, num_classes=fitted.num_classes_, mark=mark.text)
    return f"calibrated probabilities of {plural(count, 'image')}: {out}"


def write_images(dense: DensePredictions, path: Path, *, num_bins: int) -> None:
    """Write a row for each image."""
    from calibrant._math.files import atomic_write
    from calibrant.evaluation import ImageRow, image_rows

    rows = [dataclasses.asdict(row) for row in image_rows(dense, num_bins=num_bins)]
    with atomic_write(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        names = [each.name for each in dataclasses.fields(ImageRow)]
        writer = csv.DictWriter(file, fieldnames=names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
