"""Tables of any size on the command line, read part by part, by this process or by workers."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from calibrant._math.errors import InputError
from calibrant.cli.dense import opened_dense, refuse_images_options
from calibrant.cli.reading import FREQUENCY, Reading, is_pipe
from calibrant.cli.terminal import errors

if TYPE_CHECKING:
    from calibrant.evaluation.samples import Judgeable
    from calibrant.evaluation.spread import Spread
    from calibrant.predictions import DensePredictions, Predictions
    from calibrant.predictions.partitioned import PartitionedPredictions

EngineOption = Annotated[
    str | None,
    typer.Option(
        "--engine",
        metavar="ENGINE",
        help='Backend for parallel reading: serial, pool, ray or ray(address="auto").',
    ),
]
JobsOption = Annotated[
    int | None,
    typer.Option("--jobs", min=1, metavar="N", help="Parallel jobs, with --engine."),
]
MOST_HELD = 1 << 22
"""Rows of a Parquet file of which some numbers each are kept; larger ones are judged by sums."""
_HEEDED = frozenset(
    {
        *("format", "label_column", "prob_columns", "logit_columns", "weight_column", "group_column"),
        *("cluster", "bands", "positive_class", "score_columns"),
    }
)
"""What parts heed of how files are read; with any other option samples are read whole, or it is refused."""
_OTHERWISE = "samples in memory beside it"


def opened_parts(
    path: Path, reading: Reading, engine: str | None, *, whole: str = ""
) -> PartitionedPredictions | None:
    """The table to be read part by part: many files, an address, a large file, or what an engine reads.

    It is read whole where an option needs that (``whole`` names it), or where sums do not know what it holds,
    such as several labels; without an engine also where it has groups and is not large.
    """
    if is_pipe(path):
        return None
    from calibrant.predictions.dense import is_dense
    from calibrant.predictions.formats.parquet_files import is_partitioned
    from calibrant.predictions.partitioned import NeedsWholeError, PartitionedPredictions

    many = is_partitioned(path)
    if engine is not None and not many and is_dense(path):
        return None
    parquet = many or (reading.format or path.suffix).lower().removeprefix(".") == "parquet"
    if engine is not None and not parquet:
        raise InputError(
            "--engine is for Parquet (a file, a folder of them, or an address) and folders of images; "
            f"{path} is none; `calibrant.load_predictions({str(path)!r}).save('FILE.parquet')` makes one."
        )
    if not parquet or not (engine is not None or many or _is_large(path)):
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
            small = found.has_groups and found.num_samples <= MOST_HELD
            return None if engine is None and small else found
    if engine is not None:
        _say_read_whole(path, reason)
    return None


def _needs_whole(path: Path, reading: Reading) -> str:
    """The option that only samples in memory can be read by, if there is one: any that parts do not heed.

    Raises:
        InputError: If an option is for files of another format.
    """
    if reading.format is not None and reading.format.lower().removeprefix(".") != "parquet":
        raise InputError(f"{path} holds Parquet; leave out --format {reading.format}.")
    if reading.lm_score != Reading.lm_score:
        raise InputError(f"--lm-score is for samples of lm-evaluation-harness (.jsonl); {path} is none.")
    if reading.iou != Reading.iou and reading.annotations is None:
        raise InputError("--iou is for COCO detections; leave it out, or name their --annotations.")
    if FREQUENCY in reading.bands:
        return f"--bands {FREQUENCY}"
    given = (each.name for each in fields(reading) if getattr(reading, each.name) != each.default)
    return next((f"--{name.replace('_', '-')}" for name in given if name not in _HEEDED), "")


def _say_read_whole(path: Path, reason: str) -> None:
    """Say that no engine shares out a table that must be in memory; refuse one that is large.

    Raises:
        InputError: If it has more rows than are read whole where an engine was asked for.
    """
    from calibrant.predictions.formats.parquet_files import Files, restored

    rows = Files(restored(str(path))).metadata.num_rows
    if rows > MOST_HELD:
        raise InputError(
            f"with {reason}, all {rows:,} rows of {path} must be in memory; leave out --engine, and this "
            "process reads them."
        )
    errors().print(
        f"note: with {reason}, all samples must be in memory: this process reads {path} whole, and --engine "
        "does nothing.",
    )


def opened_to_fit(
    path: Path | None, reading: Reading, engine: str | None
) -> Predictions | PartitionedPredictions | None:
    """Samples to fit on, if there is such a file; one that is read whole is shared out by no engine."""
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
    """A table to be read part by part, or images; None where all is held."""
    table = opened_parts(path, reading, engine, whole=whole)
    if table is not None:
        if not others:
            refuse_images_options(path, ignore_index, images)
        return table
    typed = reading.words() if labels is None else f"--label-file {labels} {reading.words()}".rstrip()
    found = opened_dense(path, ignore_index=ignore_index, images=images, tabular=typed, others=others)
    if engine is not None and found is not None and not found.in_any_order:
        raise InputError(
            f"--engine shares out images of which any can be read; those in {path} are packed, and read in "
            "order; leave out --engine, or write them by `numpy.savez`."
        )
    return found


def opened_alike(
    paths: Sequence[Path],
    reading: Reading,
    *,
    engine: str | None = None,
    ignore_index: int | None,
    whole: str = "",
) -> list[DensePredictions | PartitionedPredictions | None]:
    """Several to be compared: all in parts and with clusters, or none."""
    from calibrant.predictions import DensePredictions
    from calibrant.predictions.partitioned import PartitionedPredictions

    found = [
        opened_large(path, reading, engine=engine, ignore_index=ignore_index, others=True, whole=whole)
        for path in paths
    ]
    ways = {isinstance(each, PartitionedPredictions) and ("parts", each.has_clusters) for each in found}
    if ignore_index is not None and not any(isinstance(each, DensePredictions) for each in found):
        refuse_images_options(", ".join(map(str, paths)), ignore_index, None)
    if whole or len(ways) == 1 or (engine is not None and None not in found):
        return found
    return opened_alike(paths, reading, engine=engine, ignore_index=ignore_index, whole=_OTHERWISE)


def refuse_no_groups(predictions: Judgeable, file: Path) -> None:
    """Refuse what no group can be repaired of.

    Raises:
        InputError: If there are no groups.
    """
    from calibrant.predictions import PartitionedPredictions, Predictions

    named = predictions.has_groups if isinstance(predictions, PartitionedPredictions) else False
    if not (named or (isinstance(predictions, Predictions) and predictions.groups is not None)):
        raise InputError(
            f"--by-group needs `groups` in {file}, one name per sample; --group-column says which column "
            "holds them."
        )


def in_groups(
    predictions: Predictions | PartitionedPredictions, seed: int, spread: Spread
) -> tuple[Predictions, tuple[str, ...]]:
    """Samples to repair group by group, and what to say of them: all, or random rows of a table in parts."""
    from calibrant.evaluation.parts.source import sampled_by_group
    from calibrant.predictions import Predictions

    if isinstance(predictions, Predictions):
        return predictions, ()
    return sampled_by_group(predictions, seed, spread=spread)


def refuse_jobs(engine: str | None, jobs: int | None) -> None:
    """Refuse a number of jobs that nobody is there to do."""
    if jobs is not None and engine is None:
        raise InputError("--jobs needs an engine; add --engine pool.")


@contextmanager
def shared_out(engine: str | None, jobs: int | None) -> Generator[Spread]:
    """What shares out the parts."""
    from calibrant.evaluation.spread import spreading

    refuse_jobs(engine, jobs)
    with spreading(engine, jobs=jobs) as spread:
        yield spread


def _is_large(path: Path) -> bool:
    """Whether a file has more rows than are kept one by one; of one that is damaged, reading it says so."""
    from calibrant.predictions.formats.parquet import opened

    try:
        with opened(path) as file:
            return file.metadata.num_rows > MOST_HELD
    except InputError:
        return False
