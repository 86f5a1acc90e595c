"""Open a file from the command line: samples in memory, a table in parts, or images."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from calibrant._math.errors import InputError
from calibrant.cli.reading import FREQUENCY, Reading, is_pipe
from calibrant.cli.streams import errors

if TYPE_CHECKING:
    from calibrant.evaluation.spread import Spread
    from calibrant.predictions import DensePredictions, Predictions
    from calibrant.predictions.partitioned import PartitionedPredictions

_NEED_WHOLE = ("annotations", "percent", "scale", "kind")
"""Options that reading in parts does not take."""
_OTHERWISE = "samples in memory beside it"


def opened_parts(
    path: Path, reading: Reading, engine: str | None, *, whole: str = ""
) -> PartitionedPredictions | None:
    """Open a table in parts: many files, an address, a large file, or one for an engine.

    It is read whole if an option (named by ``whole``) or its kind, such as several labels, needs that.
    Without an engine, a small table with groups is also read whole.
    """
    if is_pipe(path):
        return None
    from calibrant.predictions.dense import is_dense
    from calibrant.predictions.formats.parquet_files import is_partitioned
    from calibrant.predictions.partitioned import NeedsWholeError, PartitionedPredictions
    from calibrant.repair import opening

    many = is_partitioned(path)
    if engine is not None and not many and is_dense(path):
        return None
    parquet = many or (reading.format or path.suffix).lower().removeprefix(".") == "parquet"
    if engine is not None and not parquet:
        raise InputError(
            "--engine is for Parquet (a file, a folder of them, or an address) and folders of images; "
            f"{path} is none; `calibrant.load_predictions({str(path)!r}).save('FILE.parquet')` makes one."
        )
    if not parquet or not (engine is not None or many or opening.is_large(path)):
        return None
    if not (reason := whole or _needs_whole(path, reading)):
        try:
            found = PartitionedPredictions(
                path, columns=reading.columns, clusters_are_groups=reading.clusters_are_groups
            )
        except NeedsWholeError as error:
            reason = error.what
        else:
            if reading.clusters_are_groups and not found.has_groups:
                raise InputError(f"--cluster {reading.cluster} needs groups in {path}, and there are none.")
            small = found.has_groups and found.num_samples <= opening.MOST_HELD
            return None if engine is None and small else found
    if engine is not None:
        _say_read_whole(path, reason)
    return None


def _needs_whole(path: Path, reading: Reading) -> str:
    if reading.format is not None and reading.format.lower().removeprefix(".") != "parquet":
        raise InputError(f"{path} holds Parquet; leave out --format {reading.format}.")
    if reading.lm_score != Reading.lm_score:
        raise InputError(f"--lm-score is for logs of language models; {path} isn't one.")
    if reading.sheet is not None:
        raise InputError(f"--sheet is for workbooks; {path} isn't one.")
    if reading.iou != Reading.iou and reading.annotations is None:
        raise InputError("--iou is for COCO detections; leave it out, or name their --annotations.")
    if FREQUENCY in reading.bands:
        return f"--bands {FREQUENCY}"
    return next((f"--{name}" for name in _NEED_WHOLE if getattr(reading, name)), "")


def _say_read_whole(path: Path, reason: str) -> None:
    """Warn that an engine cannot split a table in memory; refuse a large one."""
    from calibrant.predictions.formats.parquet_files import Files, restored
    from calibrant.repair import opening

    rows = Files(restored(str(path))).num_rows
    if rows > opening.MOST_HELD:
        raise InputError(
            f"with {reason}, all {rows:,} rows of {path} must be in memory; leave out --engine, and this "
            "process reads them."
        )
    errors().print(
        f"note: with {reason}, all samples must be in memory: this process reads {path} whole, and --engine "
        "does nothing."
    )


def _refuse_images_options(place: Path | str, ignore_index: int | None, images: Path | None) -> None:
    if ignore_index is not None or images is not None:
        raise InputError(
            "--ignore-index and --images need segmentation logits of shape (N, C, H, W); "
            f"{place} has none; remove rows without labels from the file."
        )


def opened_to_fit(
    path: Path | None, reading: Reading, engine: str | None
) -> Predictions | PartitionedPredictions | None:
    """Open the samples to fit on, if any; engines do not split those read whole."""
    if path is None:
        return None
    from calibrant.predictions.formats.parquet_files import is_partitioned

    parquet = is_partitioned(path) or path.suffix.lower() == ".parquet"
    return opened_parts(path, reading, engine if parquet else None) or reading.open(path)


def opened_large(
    path: Path,
    reading: Reading,
    *,
    engine: str | None = None,
    labels: Path | None = None,
    ignore_index: int | None = None,
    images: Path | None = None,
    others: bool = False,
    whole: str = "",
) -> DensePredictions | PartitionedPredictions | None:
    """Open a table in parts, or images; return None if all samples are in memory.

    A table of the images is written to ``images``; ``others`` allows options for images with other files, and
    ``whole`` names the option that needs all samples in memory.
    """
    from calibrant.predictions import load_dense
    from calibrant.predictions.dense import is_dense

    table = opened_parts(path, reading, engine, whole=whole)
    if table is None and is_dense(path):
        typed = reading.words() if labels is None else f"--label-file {labels} {reading.words()}".rstrip()
        if typed:
            raise InputError(
                f"{path} holds images of scores with labels of their own, and each image is a cluster; "
                f"leave out {typed}."
            )
        found = load_dense(path, ignore_index=ignore_index)
        if engine is not None and not found.in_any_order:
            raise InputError(
                f"--engine shares out images of which any can be read; those in {path} are packed, and read "
                "in order; leave out --engine, or write them with `numpy.savez`."
            )
        return found
    if not others:
        _refuse_images_options(path, ignore_index, images)
    return table


def opened_alike(
    paths: Sequence[Path],
    reading: Reading,
    *,
    engine: str | None = None,
    ignore_index: int | None,
    whole: str = "",
) -> list[DensePredictions | PartitionedPredictions | None]:
    """Open several predictions to compare: all in parts and with clusters, or none."""
    from calibrant.predictions import DensePredictions
    from calibrant.predictions.partitioned import PartitionedPredictions

    found = [
        opened_large(path, reading, engine=engine, ignore_index=ignore_index, others=True, whole=whole)
        for path in paths
    ]
    ways = {isinstance(each, PartitionedPredictions) and ("parts", each.has_clusters) for each in found}
    if ignore_index is not None and not any(isinstance(each, DensePredictions) for each in found):
        _refuse_images_options(", ".join(map(str, paths)), ignore_index, None)
    if whole or len(ways) == 1 or (engine is not None and None not in found):
        return found
    return opened_alike(paths, reading, engine=engine, ignore_index=ignore_index, whole=_OTHERWISE)


@contextmanager
def shared_out(engine: str | None, jobs: int | None) -> Generator[Spread]:
    from calibrant.evaluation.spread import spreading

    if jobs is not None and engine is None:
        raise InputError("--jobs needs an engine; add --engine pool.")
    with spreading(engine, jobs=jobs) as spread:
        yield spread
