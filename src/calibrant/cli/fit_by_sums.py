"""A calibrator fitted to all rows of a table in parts, or of images, by sums that workers may share out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from calibrant._math.errors import InputError
from calibrant.cli.choosing import chosen
from calibrant.cli.parts import shared_out
from calibrant.cli.terminal import errors

if TYPE_CHECKING:
    from calibrant.calibrators import Calibrator
    from calibrant.evaluation.parts.dealing import Deal
    from calibrant.evaluation.parts.temperature import ToFit
    from calibrant.evaluation.spread import Spread
    from calibrant.predictions import DensePredictions, Predictions
    from calibrant.predictions.partitioned import PartitionedPredictions


@dataclass(frozen=True)
class FittedBySums:
    """A calibrator, what its classes are called, and what to say of it."""

    calibrator: Calibrator
    class_names: tuple[str, ...] | None
    notes: list[str]


def fit_by_sums(
    given: PartitionedPredictions | DensePredictions | None,
    method: str | None,
    engine: str | None,
    jobs: int | None,
    *,
    every_row: bool,
    tell: Callable[[str, float], None],
) -> FittedBySums | None:
    """A calibrator fitted on a table in parts, or on images that are shared out; None for anything else."""
    from calibrant.predictions import DensePredictions
    from calibrant.predictions.two_classes import RIGHT_OR_WRONG

    if given is None or (isinstance(given, DensePredictions) and engine is None):
        return None
    with shared_out(engine, jobs) as spread:
        if isinstance(given, DensePredictions):
            tell(f"fitting on {given.num_images:,} images", 0.1)
            found = fit_images(given, method, spread)
            return None if found is None else FittedBySums(found[0], given.class_names, found[1])
        tell(f"fitting on {given.num_samples:,} rows", 0.1)
        found, said = fit_in_parts(given, method, every_row=every_row, spread=spread)
    names = RIGHT_OR_WRONG if given.kind == "top_label" else given.class_names
    return FittedBySums(found, names, [*given.notes, *said])


def fit_in_parts(
    table: PartitionedPredictions, method: str | None, *, every_row: bool, spread: Spread
) -> tuple[Calibrator, list[str]]:
    """A fitted calibrator, and what to say of it: temperatures from all rows, others from a sample.

    Without a method it is chosen by the sample.
    """
    from calibrant.calibrators import build, fit_top_k_temperature
    from calibrant.evaluation.fitting.templates import Labelled, fit_quietly
    from calibrant.evaluation.parts.dealing import Deal
    from calibrant.evaluation.parts.tasks import rows_to_fit
    from calibrant.evaluation.parts.temperature import fits_in_passes
    from calibrant.predictions.to_event import to_repair
    from calibrant.predictions.top_k import has_row_temperature

    if not every_row and not table.num_fit:
        raise InputError(
            f"{table.address} has no calibration split; add `split` (0 = calibration, 1 = test), "
            "or fit on every row with --all."
        )
    deal = Deal.of(table, 15, fits=False)
    deal = replace(deal, rule="all") if every_row else deal
    some = rows_to_fit(table, deal, seed=0, spread=spread)
    form = to_repair(some)
    calibrator = chosen(form) if method is None else build(method)
    if table.kind == "top_label" and "binary" not in calibrator.kinds:
        suited = " and ".join(calibrator.kinds)
        raise InputError(
            f"{calibrator.name} is for {suited} predictions; {table.address} holds confidences: take platt."
        )
    held = table.num_samples if every_row else table.num_fit
    among = f"fitted on {some.num_samples:,} random rows of {held:,}"
    if method is None:
        among = f"chosen and {among}"
    if some.top_k is not None and has_row_temperature(calibrator.text, some):
        return fit_top_k_temperature(some.top_k, weights=some.weights), [among]
    if fits_in_passes(calibrator, table.kind, table.num_classes):
        return _fitted_in_passes(calibrator, table, some, deal, "table", spread)
    if method is None:
        return calibrator, [among]
    fit_quietly(calibrator, Labelled.of(form if "binary" in calibrator.kinds else some))
    return calibrator, [among]


def fit_images(
    dense: DensePredictions, method: str | None, spread: Spread
) -> tuple[Calibrator, list[str]] | None:
    """Temperatures of all positions of all images; None for another method, which takes a sample.

    Without a method it is chosen by that sample.
    """
    from calibrant.calibrators import build
    from calibrant.cli.dense import positions_to_fit
    from calibrant.evaluation.parts.dealing import Deal
    from calibrant.evaluation.parts.temperature import Positions, fits_in_passes
    from calibrant.predictions.to_event import to_repair

    some = positions_to_fit(dense)
    calibrator = chosen(to_repair(some)) if method is None else build(method)
    if not fits_in_passes(calibrator, "multiclass", dense.num_classes):
        if method is None:
            return calibrator, [f"chosen and fitted on {some.num_samples:,} random positions"]
        errors().print(
            f"note: {method} is fitted on a sample of positions, which this process draws; --engine does "
            "nothing.",
        )
        return None
    every_position = Deal(1, 0, "all")
    return _fitted_in_passes(calibrator, Positions(dense), some, every_position, "images", spread)


def _fitted_in_passes(
    calibrator: Calibrator, table: ToFit[Any], some: Predictions, deal: Deal, word: str, spread: Spread
) -> tuple[Calibrator, list[str]]:
    """Such a calibrator fitted to all rows, and what it took."""
    from calibrant.calibrators import build
    from calibrant.evaluation.parts.temperature import fit_in_passes

    fitted = fit_in_passes(build(calibrator.text), table, some, deal, spread=spread)
    passes = fitted.fit_result_.steps
    took = f"{passes} pass{'es' * (passes > 1)} over the {word}"
    return fitted, [f"{took}, after {some.num_samples:,} random rows to begin with"]
