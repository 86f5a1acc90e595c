"""Test sets judged batch by batch: every batch adds some sets to every cell."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from calibrant._math.errors import InputError
from calibrant._math.means import rounded
from calibrant.evaluation.judging.measure import change, measure
from calibrant.evaluation.judging.noise import Noise, draw_noise
from calibrant.evaluation.judging.reduce import Reduced, reduce_predictions
from calibrant.evaluation.judging.replicates import replicate
from calibrant.evaluation.procedure import Procedure
from calibrant.evaluation.quantities import QUANTITIES
from calibrant.evaluation.quantity import Kind, Quantity
from calibrant.evaluation.resampling.events import width_bins
from calibrant.evaluation.resampling.intervals import centred_interval
from calibrant.evaluation.resampling.resamples import Resamples
from calibrant.predictions import Predictions
from papers.coverage import truth
from papers.coverage.fingerprint import fingerprint
from papers.coverage.populations import Normal, Stated, coarser, redrawn, stated
from papers.coverage.settings import ASKED_FOR, DEFAULT, RARE, SLOW, Method, Setting
from papers.coverage.verdicts import judged_parts, word
from papers.records import Record, Records

FORMS = {each.key: each for each in QUANTITIES}
RECORDS = "coverage-runs.jsonl"
Found = dict[str, dict[str, float]]
"""By the quantity's key: value, low, high, without_chance, p."""
Lists = dict[str, dict[str, list[float | None]]]
"""The same of several sets."""


@dataclass(frozen=True, kw_only=True)
class Cell:
    """Where sets come from, and how large they are."""

    classes: int
    samples: int
    scale: float | None = None
    file: str | None = None
    stated: Stated | None = None
    after: float | None = None
    """For differences, the scale after; `scale` is the one before."""
    model: Literal["another"] | None = None
    """For differences, whose scale is the one after, if not the same model's."""

    @property
    def title(self) -> str:
        """By which its records are known."""
        return ", ".join(f"{name} {value}" for name, value in vars(self).items() if value is not None)

    @property
    def stream(self) -> tuple[int, ...]:
        """Where its random numbers come from."""
        return tuple(self.title.encode())


def cells_of(setting: Setting, folder: Path | None) -> Iterator[Cell]:
    """All cells but those of differences."""
    for classes in setting.classes:
        for samples in setting.samples:
            for scale in setting.scales:
                yield Cell(classes=classes, samples=samples, scale=scale)
    if folder is None:
        return
    for file in setting.files:
        for what in ("as in the file", "the truth"):
            classes = redrawn(folder / file, setting.method.bandwidth, what).stated.shape[1]
            yield Cell(classes=classes, samples=setting.file_samples, file=file, stated=what)


def changes_of(setting: Setting) -> Iterator[Cell]:
    """The cells of differences."""
    for classes in setting.changed_classes:
        for samples in setting.samples:
            for before, after in setting.changes:
                yield Cell(classes=classes, samples=samples, scale=before, after=after)
            for one, other in setting.compared if classes > 2 else ():
                yield Cell(classes=classes, samples=samples, scale=one, after=other, model="another")


def arms_of(cell: Cell) -> tuple[Cell, Cell]:
    """The cells between which a difference is."""
    return replace(cell, after=None, model=None), replace(cell, scale=cell.after, after=None)


def run_coverage(
    store: Path,
    *,
    folder: Path | None,
    seeds: Sequence[int],
    setting: Setting = DEFAULT,
    tell: Callable[[str], None] = print,
) -> list[Record]:
    """A batch of each seed in every cell, unless the store has it; all records."""
    records, method = Records(store / RECORDS), setting.method
    cells, changes = list(cells_of(setting, folder)), list(changes_of(setting))
    true = {cell: _truth(records, cell, folder, method) for cell in cells}
    gaps = {cell: _gaps(records, cell, folder, method) for cell in cells}
    for cell in changes:
        true |= {one: _truth(records, one, folder, method) for one in arms_of(cell)}
    add_batches(
        records,
        "sets",
        cells,
        seeds,
        lambda cell, seed: {"truth": true[cell], **_batch(cell, folder, method, seed, gaps[cell])},
        how=f"{method}",
        tell=tell,
        added=f"{method.sets} more sets",
    )
    add_batches(  # they come last: they are the least that is asked for
        records,
        "changes",
        changes,
        seeds,
        lambda cell, seed: {"truth": _difference(true, cell), "changes": _changes(cell, method, seed)},
        how=f"{method}",
        tell=tell,
        added=f"{method.changed_sets} more differences",
    )
    return finished(store, setting)


def add_batches(
    records: Records,
    kind: str,
    cells: Collection[Cell],
    seeds: Sequence[int],
    compute: Callable[[Cell, int], Mapping[str, Any]],
    *,
    how: str,
    tell: Callable[[str], None],
    added: str,
) -> None:
    """A batch of each seed in every cell, unless there is one that was made the same way."""

    def batch(seed: int, cell: Cell) -> dict[str, Any]:
        return {"seed": seed, "cell": vars(cell), "code": fingerprint(), **compute(cell, seed)}

    for seed in seeds:
        for cell in cells:
            records.get(f"{kind}, seed {seed}, {cell.title}, {how}", partial(batch, seed, cell))
        tell(f"coverage: batch {seed}, {added} in each of {len(cells)} cells")


def finished(store: Path, setting: Setting = DEFAULT) -> list[Record]:
    """The batches that the store has, of this method."""
    end = f", {setting.method}"
    return [
        record
        for record in Records(store / RECORDS).all()
        if record["key"].endswith(end) and not record["key"].startswith("truth")
    ]


def _truth(records: Records, cell: Cell, folder: Path | None, method: Method) -> Mapping[str, float]:
    """The errors of the population of a cell."""
    source = replace(cell, samples=0)
    how = [method.spread, method.num_bins, method.truth_samples, method.bandwidth]

    def compute() -> dict[str, Any]:
        if cell.scale is not None:
            another = cell.model is not None
            return {"truth": truth.normal_truth(cell.classes, cell.scale, method, another=another)}
        population = _redrawn(cell, folder, method)
        return {"truth": truth.redrawn_truth(population, method.num_bins)}

    return records.get(f"truth, {source.title}, {how}", compute)["truth"]


def _gaps(records: Records, cell: Cell, folder: Path | None, method: Method) -> Sequence[float]:
    """The gaps of the top label of the population of a cell, bin by bin."""
    source = replace(cell, samples=0)
    how = [method.spread, method.num_bins, method.truth_samples, method.bandwidth]

    def compute() -> dict[str, Any]:
        if cell.scale is not None:
            return {"gaps": truth.normal_gaps(cell.classes, cell.scale, method).tolist()}
        return {"gaps": truth.redrawn_gaps(_redrawn(cell, folder, method), method.num_bins).tolist()}

    return records.get(f"truth by bin, {source.title}, {how}", compute)["gaps"]


def _difference(true: Mapping[Cell, Mapping[str, float]], cell: Cell) -> dict[str, float]:
    """The true errors after less those before."""
    before, after = (true[one] for one in arms_of(cell))
    return {key: after[key] - before[key] for key in before}


def _redrawn(cell: Cell, folder: Path | None, method: Method) -> Any:
    if folder is None or cell.file is None or cell.stated is None:
        raise InputError(f"{cell.title} needs the folder of the data.")
    return redrawn(folder / cell.file, method.bandwidth, cell.stated)


def _batch(
    cell: Cell, folder: Path | None, method: Method, seed: int, gaps: Sequence[float]
) -> dict[str, Any]:
    """Some sets of a cell; of each quantity the results, set by set."""
    rng = np.random.default_rng((seed, *cell.stream))
    errors: Lists = {}
    centred: Lists = {}
    parts: dict[str, list[float | None]] = {}
    words: list[str] = []
    for number, (predictions, procedure) in enumerate(sets_of(cell, folder, method, method.sets, rng)):
        found, noise = judged(predictions, procedure, _left_out(method, seed, number))
        found["mce"]["truth"] = largest_in(noise.reduced, gaps)
        add(errors, found)
        if number == 0:
            add(centred, resampled(predictions, procedure))
        verdict = judged_parts(noise)
        for part in verdict:
            parts.setdefault(part.name, []).append(rounded(part.adjusted_p, 6))
        if cell.scale == 1 or cell.stated == "the truth":
            words.append(word(noise, verdict))
    return {"errors": errors, "centred": centred, "parts": parts, "words": words}


def largest_in(reduced: Reduced, gaps: Sequence[float]) -> float:
    """The largest gap of those bins that hold samples of a set."""
    (top,) = reduced.events[""]
    bins = width_bins(top.confidences, len(gaps))
    return float(np.abs(gaps)[bins].max())


def _left_out(method: Method, seed: int, number: int) -> set[str]:
    """What is not measured on a set of a batch."""
    left_out = set[str](RARE if number else ())
    if (seed + 1) % method.rarely:
        left_out.add(SLOW)
    return left_out


def sets_of(
    cell: Cell, folder: Path | None, method: Method, number: int, rng: np.random.Generator
) -> Iterator[tuple[Predictions, Procedure]]:
    """So many test sets of a cell, and how each is judged."""
    for _ in range(number):
        predictions = _predictions(cell, folder, method, rng)
        yield predictions, procedure_of(predictions.kind, method, int(rng.integers(1 << 30)))


def _predictions(cell: Cell, folder: Path | None, method: Method, rng: np.random.Generator) -> Predictions:
    """A test set."""
    if cell.scale is None:
        return _redrawn(cell, folder, method).draw(cell.samples, rng)
    logits, labels = Normal(cell.classes, method.spread).draw(cell.samples, rng)
    return stated(logits, labels, cell.scale)


def procedure_of(kind: Kind, method: Method, seed: int) -> Procedure:
    """How a set is judged."""
    return Procedure(
        kind=kind,
        num_bins=method.num_bins,
        num_resamples=method.resamples,
        num_draws=method.num_draws,
        level=method.level,
        seed=seed,
    )


def judged(
    predictions: Predictions, procedure: Procedure, left_out: Collection[str] = ()
) -> tuple[Found, Noise]:
    """Errors with their intervals and p-values, and the draws that they come from."""
    asked = [key for key in ASKED_FOR if key not in left_out]
    reduced = reduce_predictions(predictions, procedure.num_bins, metrics=asked)
    noise = draw_noise(reduced, procedure)
    found: Found = {}
    for key, form in forms_of(reduced, procedure.kind).items():
        if key in left_out:
            continue
        inverted, null = noise.inverted(form), noise.null(form)
        if inverted is None or null is None:
            raise RuntimeError(f"{key} has no interval")
        estimate = inverted.estimate(reduced.values[form.key], form.bounds)
        numbers = {"value": estimate.value, "low": estimate.low, "high": estimate.high}
        numbers |= {"without_chance": estimate.without_chance, "p": null.p_value}
        found[key] = {name: value for name, value in numbers.items() if value is not None}
    return found, noise


def resampled(predictions: Predictions, procedure: Procedure) -> dict[str, dict[str, float]]:
    """The centred bootstrap's intervals."""
    reduced = reduce_predictions(predictions, procedure.num_bins)
    resamples = Resamples(reduced.num_samples, procedure.num_resamples, (procedure.seed,))
    replicates = replicate(reduced, procedure.num_bins, resamples)
    found: dict[str, dict[str, float]] = {}
    for key, form in forms_of(reduced, procedure.kind).items():
        value = reduced.values[form.key]
        interval = centred_interval(value, replicates[form.key], procedure.level, form.bounds)
        if interval is not None:
            found[key] = {"low": interval[0], "high": interval[1]}
    return found


def _changes(cell: Cell, method: Method, seed: int) -> Lists:
    """Differences on some sets: value, ends, and without chance."""
    rng = np.random.default_rng((seed, *cell.stream))
    changes: Lists = {}
    for _ in range(method.changed_sets):
        logits, labels = Normal(cell.classes, method.spread).draw(cell.samples, rng)
        known = logits if cell.model is None else coarser(logits, rng)
        both = [
            stated(each, labels, scale)
            for each, scale in ((logits, cell.scale), (known, cell.after))
            if scale is not None
        ]
        procedure = procedure_of(both[0].kind, method, int(rng.integers(1 << 30)))
        reduced = [reduce_predictions(each, procedure.num_bins) for each in both]
        before, after = (measure(each, procedure) for each in reduced)
        found = change(after, before, procedure.level)
        forms = forms_of(reduced[0], procedure.kind)
        picked: dict[str, dict[str, float]] = {}
        for key, form in forms.items():
            each = found[form.key]
            numbers = {"value": each.value, "low": each.low, "high": each.high}
            picked[key] = {name: value for name, value in numbers.items() if value is not None}
        add(changes, picked)
    return changes


def forms_of(reduced: Reduced, kind: Kind) -> dict[str, Quantity]:
    """The form in which each error is shown first: of two classes that of the positive one, if it has one."""
    classes = 2 if kind == "binary" else 3
    forms = {key: FORMS[key].forms(kind)[0] for key in truth.keys_of(classes)}
    return {key: form for key, form in forms.items() if form.key in reduced.values}


def add(lists: Lists, found: Mapping[str, Mapping[str, float]]) -> None:
    """Append what was found of a set."""
    for key, numbers in found.items():
        kept = lists.setdefault(key, {})
        for name, value in numbers.items():
            kept.setdefault(name, []).append(rounded(value, 6))
