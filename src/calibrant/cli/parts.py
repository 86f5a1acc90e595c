"""Tables of any size on the command line, read part by part, by this process or by workers."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from calibrant._math.errors import InputError
from calibrant.cli.dense import opened_dense
from calibrant.cli.reading import Reading, is_pipe

if TYPE_CHECKING:
    from calibrant.calibrators import Calibrator
    from calibrant.evaluation.spread import Spread
    from calibrant.predictions import DensePredictions
    from calibrant.predictions.partitioned import PartitionedPredictions

EngineOption = Annotated[
    str | None,
    typer.Option(
        "--engine",
        metavar="ENGINE",
        help="What reads the parts of Parquet, or a folder of images: serial, pool, ray, or "
        'ray(address="auto") for a cluster.',
    ),
]
JobsOption = Annotated[
    int | None,
    typer.Option("--jobs", min=1, metavar="N", help="With --engine, how many are read at once."),
]
MOST_HELD = 1 << 22
"""Rows of a Parquet file of which some numbers each are kept; larger ones are judged by sums."""


def opened_parts(
    path: Path, reading: Reading, engine: str | None, *, whole: bool = False
) -> PartitionedPredictions | None:
    """The table to be read part by part: many files, an address, a large file, or what an engine reads.

    Without an engine it is read whole where an option asks for that (``whole``), where sums do not know what
    it holds (several labels for each sample, confidences alone), or where it has groups and is not large.
    """
    if is_pipe(path):
        return None
    from calibrant.predictions.dense import is_dense
    from calibrant.predictions.formats.parquet_files import is_partitioned
    from calibrant.predictions.partitioned import NeedsWholeError, PartitionedPredictions

    many = is_partitioned(path)
    if engine is not None and not many and is_dense(path):
        if path.is_dir():
            return None
        raise InputError(
            f"--engine is for images in a folder, any of which can be read; those in {path} are read in "
            "order; leave out --engine, or unpack it."
        )
    parquet = many or (reading.form or path.suffix).lower().removeprefix(".") == "parquet"
    asked = reading.bands or reading.percent or reading.kind is not None or reading.annotations is not None
    if engine is not None:
        if not parquet:
            raise InputError(
                "--engine is for Parquet (a file, a folder of them, or an address) and folders of images; "
                f"{path} is none; `calibrant.load_predictions({str(path)!r}).save('FILE.parquet')` makes one."
            )
        if reading.bands:
            raise InputError(f"--bands are for samples in memory; leave out --engine to read {path} so.")
        return PartitionedPredictions(path, columns=reading.columns_of_parts)
    if whole or asked or not parquet or not (many or _is_large(path)):
        return None
    try:
        found = PartitionedPredictions(path, columns=reading.columns_of_parts)
    except NeedsWholeError:
        return None
    return None if found.has_groups and found.num_samples <= MOST_HELD else found


def opened_large(
    path: Path,
    reading: Reading,
    *,
    engine: str | None = None,
    labels: Path | None = None,
    ignore_index: int | None = None,
    images: Path | None = None,
    others: bool = False,
    whole: bool = False,
) -> DensePredictions | PartitionedPredictions | None:
    """A table to be read part by part, or images; None where all is held."""
    table = opened_parts(path, reading, engine, whole=whole)
    if table is not None:
        return table
    typed = reading.words if labels is None else f"--labels {labels} {reading.words}".rstrip()
    return opened_dense(path, ignore_index=ignore_index, images=images, tabular=typed, others=others)


def opened_alike(
    paths: Sequence[Path],
    reading: Reading,
    *,
    engine: str | None = None,
    ignore_index: int | None,
    whole: bool,
) -> list[DensePredictions | PartitionedPredictions | None]:
    """Several to be compared: all in parts and with clusters, or none."""
    from calibrant.predictions.partitioned import PartitionedPredictions

    found = [
        opened_large(path, reading, engine=engine, ignore_index=ignore_index, others=True, whole=whole)
        for path in paths
    ]
    ways = {isinstance(each, PartitionedPredictions) and ("parts", each.has_clusters) for each in found}
    if whole or len(ways) == 1:
        return found
    return opened_alike(paths, reading, engine=engine, ignore_index=ignore_index, whole=True)


@contextmanager
def shared_out(engine: str | None, jobs: int | None) -> Generator[Spread]:
    """What shares out the parts."""
    from calibrant.evaluation.spread import here

    if engine is None:
        yield here
        return
    from calibrant.experiments.engines.spread import spreading

    with spreading(engine, jobs=jobs) as spread:
        yield spread


def fit_table(
    table: PartitionedPredictions, method: str | None, *, every_row: bool, spread: Spread
) -> tuple[Calibrator, list[str]]:
    """A fitted calibrator, and what to say of it: temperatures from all rows, others from a sample."""
    from dataclasses import replace

    from calibrant.calibrators import build
    from calibrant.evaluation.fitting.templates import Labelled, fit_quietly
    from calibrant.evaluation.parts.dealing import Deal
    from calibrant.evaluation.parts.judge import MOST_FITTED
    from calibrant.evaluation.parts.tasks import sample
    from calibrant.evaluation.parts.temperature import fit_in_parts, fits_in_parts
    from calibrant.predictions.repair_form import to_repair

    if not every_row and not table.num_fit:
        raise InputError(
            f"{table.address} has no calibration split; add `split` (0 = calibration, 1 = test), "
            "or fit on every row with --all."
        )
    deal = Deal.of(table, 15, fits=False)
    deal = replace(deal, rule="all") if every_row else deal
    some = sample(table, deal, "fit", MOST_FITTED // table.num_classes, seed=0, spread=spread)
    if some is None or some.num_samples < 2:
        raise InputError(f"{table.address} has no two samples to fit on.")
    calibrator = build(method or "temperature")
    if fits_in_parts(calibrator, table):
        passes = fit_in_parts(calibrator, table, some, deal, spread=spread).fit_result_.steps
        return calibrator, [f"{passes} pass{'es' * (passes > 1)} over the table"]
    form = to_repair(some) if "binary" in calibrator.kinds else some
    fit_quietly(calibrator, Labelled.of(form))
    among = table.num_samples if every_row else table.num_fit
    return calibrator, [f"fitted on {some.num_samples:,} random rows of {among:,}"]


def _is_large(path: Path) -> bool:
    """Whether a file has more rows than are kept one by one; of one that is damaged, reading it says so."""
    from calibrant.predictions.formats.parquet import opened

    try:
        with opened(path) as file:
            return file.metadata.num_rows > MOST_HELD
    except InputError:
        return False
