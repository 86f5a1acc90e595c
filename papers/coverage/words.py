"""The tables of the coverage page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from calibrant.evaluation.thresholds import beyond_chance
from papers.claims import Verdict
from papers.coverage.claims import (
    TITLES,
    Cell,
    Share,
    calibrated,
    coverage,
    covered,
    gate_alarms,
    mean_coverage,
    over_cells,
    pooled,
    verdict_alarms,
)
from papers.coverage.settings import (
    AIMED_AT,
    ERRORS,
    LEAST_COVERAGE,
    MOST_PROBABILITIES,
)
from papers.pages import table

NOTHING = "–"
LOWEST = 3  # cells that are shown of each error
FEWEST = 100  # sets of a cell that is shown by itself
ANSWERS: dict[Verdict, str] = {"holds": "yes", "undecided": "undecided", "does not hold": "no"}
IN_FULL = ("ece", "classwise_ece", "smce", "adaptive_ece", "l2_ece", "mce")
CHANGED = ("ece", "classwise_ece", "smce", "adaptive_ece", "l2_ece", "mce")


def words(numbers: Mapping[str, Any]) -> dict[str, Any]:
    """Everything that the template shows as a table."""
    simulated = [cell for cell in numbers["cells"] if cell["file"] is None]
    real = [cell for cell in numbers["cells"] if cell["file"] is not None]
    keys = [key for key in ERRORS if any(key in cell["errors"] for cell in numbers["cells"])]
    return {
        "simulated": len(simulated),
        "true_rows": _range([_true_rows(numbers, cell) for cell in simulated]),
        "sets": _range([cell["sets"] for cell in numbers["cells"]]),
        "further": _range([_alike(cell) for cell in numbers["cells"] if "further" in cell]),
        "mce_sets": _range([c["errors"]["mce"]["sets"] for c in numbers["cells"] if "mce" in c["errors"]]),
        "added": _added(calibrated(numbers)),
        "again": _again(numbers.get("again", {})),
        "again_by": numbers.get("again_by"),
        "by_design": _by_design(numbers["setting"]),
        "changed_sets": _range([row["errors"]["ece"]["sets"] for row in numbers["changes"]]),
        "lowest_by_chance": _lowest_by_chance(numbers["cells"]),
        "summary": _summary(numbers, keys),
        "lowest": _lowest(numbers["cells"]),
        "spread": _spread(calibrated(numbers)),
        "scales": _by_scale(simulated, keys),
        "in_full": [
            (
                TITLES[key],
                _grid(simulated, key, lambda cell, key=key: str(covered(cell, key))),
                _grid(simulated, key, lambda cell, key=key: _sizes(cell["errors"][key])),
            )
            for key in IN_FULL
            if any(key in cell["errors"] for cell in simulated)
        ],
        "parts": _parts(calibrated(numbers)),
        "said": _said(calibrated(numbers)),
        "alarms": [
            ("the verdict", _alarms(simulated, lambda cell: verdict_alarms([cell]))),
            *(
                (f"the gate on the {TITLES[key]}", _alarms(simulated, _gate(key)))
                for key in AIMED_AT
                if key in keys
            ),
        ],
        "real": _real(real) if real else None,
        "changes": _changes(numbers["changes"]),
        "changes_of_all": _changes_of_all(numbers["changes"]),
    }


def _range(counts: Sequence[int]) -> str:
    """``20``, or ``20 to 40``."""
    low, high = min(counts, default=0), max(counts, default=0)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _alike(cell: Cell) -> int:
    """The further sets of a cell, but for those that were added to it alone."""
    return cell["further"]["sets"] - cell.get("added", {"sets": 0})["sets"]


def _added(cells: Sequence[Cell]) -> str:
    """Sets that were added to one cell alone, and what they show by themselves."""
    found: list[str] = []
    for cell in cells:
        if added := cell.get("added"):
            where = f"K = {cell['classes']}, n = {cell['samples']:,}, {_source(cell)}"
            shares = [
                f"{TITLES[key]} {Share(value=count / added['sets'], sets=added['sets'])}"
                for key, count in added["real"].items()
            ]
            found.append(
                f"{where} has {added['sets']:,} more; on these alone the gate raises an alarm in: "
                + ", ".join(shares)
            )
    return "; ".join(found)


def _again(found: Mapping[str, Mapping[str, float]]) -> str:
    """What became of the intervals of sets that were judged twice."""
    return "; ".join(
        f"{TITLES[key]} {Share(value=each['covered'], sets=int(each['sets']))} where it was "
        f"{each['before']:.3f}, {each['moved']} of {each['sets']:,} on the other side, "
        f"{each['width']:.3f} times as wide"
        for key, each in found.items()
    )


def _by_design(method: Mapping[str, Any]) -> float:
    """The chance of an alarm where the truth is stated: the share of ranks among the draws that raise one."""
    of = 1 + method["num_draws"]
    return sum(beyond_chance((1 + k) / of, method["level"]) for k in range(of)) / of


def _true_rows(numbers: Mapping[str, Any], cell: Cell) -> int:
    """On how many samples a true error was found."""
    return min(numbers["setting"]["truth_samples"], MOST_PROBABILITIES // cell["classes"])


def _lowest_by_chance(cells: Sequence[Cell]) -> float:
    """The coverage below which one cell in as many as there are falls if every one covers at exactly 95 %."""
    from scipy.stats import binom

    sets = min(cell["sets"] for cell in cells)
    return float(binom.ppf(1 / (1 + len(cells)), sets, 0.95)) / sets


def _summary(numbers: Mapping[str, Any], keys: Sequence[str]) -> str:
    heads = ["error", "cells", "sets", "coverage", "lowest cell", "interval above", "below"]
    heads += ["false alarms", "highest cell", "width / centred", "centred covers"]
    return table(heads, [list(_summary_row(numbers, key)) for key in keys])


def _summary_row(numbers: Mapping[str, Any], key: str) -> Iterator[str]:
    found = [cell["errors"][key] for cell in numbers["cells"] if key in cell["errors"]]
    shares, alarms = coverage(numbers, key), gate_alarms(calibrated(numbers), key)
    sets = sum(each["sets"] for each in found)
    yield from (TITLES[key], str(len(found)), f"{sets:,}", str(mean_coverage(numbers, key)))
    enough = min(each.sets for each in shares) >= FEWEST
    yield str(min(shares, key=lambda each: each.value)) if enough else NOTHING
    yield from (
        f"{over_cells([Share(value=each[side], sets=each['sets']) for each in found]).value:.3f}"
        for side in ("above", "below")
    )
    yield str(pooled(alarms))
    yield str(max(alarms, key=lambda each: each.value)) if enough else NOTHING
    centred = [each["centred"] for each in found if each["centred"]]
    if not centred:
        yield from (NOTHING, NOTHING)
        return
    ratios = [each["inverted_width"] / each["width"] for each in centred if each["width"]]
    yield f"{sum(ratios) / len(ratios):.2f}"
    yield str(_centred(found))


def _lowest(cells: Sequence[Cell]) -> str:
    """The cells in which the intervals held against the aims cover least, and on which side they miss."""
    rows: list[list[str]] = []
    for key in AIMED_AT:
        found = [(cell, cell["errors"][key]) for cell in cells if key in cell["errors"]]
        found.sort(key=lambda pair: covered(pair[0], key).value)
        for cell, error in found[:LOWEST]:
            share = covered(cell, key)
            below = error["below"]
            where = f"{cell['classes']}, {cell['samples']:,}, {_source(cell)}"
            verdict = ANSWERS[share.at_least(LEAST_COVERAGE, len(found))]
            above = f"{1 - share.value - below:.3f}"
            rows.append([TITLES[key], where, f"{share.sets:,}", str(share), above, f"{below:.3f}", verdict])
    heads = ["error", "K, n, from", "sets", "coverage", "interval above", "below", "keeps the aim"]
    return table(heads, rows)


def _spread(cells: Sequence[Cell]) -> str:
    """Whether the alarms of calibrated cells differ by more than counts of one rate do."""
    from scipy.stats import chi2

    found: list[str] = []
    for key in AIMED_AT:
        alarms = gate_alarms(cells, key)
        rate = pooled(alarms).value if alarms else 0.0
        if len(alarms) < 2 or not 0 < rate < 1:
            continue
        spread = sum(each.sets * (each.value - rate) ** 2 for each in alarms) / (rate * (1 - rate))
        freedom = len(alarms) - 1
        found.append(f"{TITLES[key]} {spread:.1f} of {freedom} (p = {chi2.sf(spread, freedom):.2f})")
    return ", ".join(found)


def _source(cell: Cell) -> str:
    """``s = 1.3``, or the file and what is stated."""
    return f"s = {cell['scale']:g}" if cell["file"] is None else f"`{cell['file']}`, {cell['stated']}"


def _centred(found: Sequence[Mapping[str, Any]]) -> Share | None:
    centred = [each["centred"] for each in found if each["centred"]]
    shares = [Share(value=each["covered"], sets=each["sets"]) for each in centred]
    return pooled(shares) if shares else None


def _scales(cells: Sequence[Cell]) -> list[float]:
    return sorted({cell["scale"] for cell in cells})


def _by_scale(cells: Sequence[Cell], keys: Sequence[str]) -> str:
    """Coverage over all sizes, of the inverted test and of the centred bootstrap."""
    rows: list[list[str]] = []
    for key in keys:
        row, other = [TITLES[key]], [f"{TITLES[key]}, centred"]
        for scale in _scales(cells):
            here = [cell for cell in cells if cell["scale"] == scale and key in cell["errors"]]
            row.append(str(pooled([covered(cell, key) for cell in here])))
            share = _centred([cell["errors"][key] for cell in here])
            other.append(NOTHING if share is None else str(share))
        rows.append(row)
        if any(cell != NOTHING for cell in other[1:]):
            rows.append(other)
    return table(["interval", *(f"s = {scale:g}" for scale in _scales(cells))], rows)


def _grid(cells: Sequence[Cell], key: str, show: Callable[[Cell], str]) -> str:
    """Rows are classes and samples, columns are scales."""
    return _rows([cell for cell in cells if key in cell["errors"]], show)


def _rows(cells: Sequence[Cell], show: Callable[[Cell], str]) -> str:
    scales = _scales(cells)
    sizes = dict.fromkeys((cell["classes"], cell["samples"]) for cell in cells)
    by_place = {(cell["classes"], cell["samples"], cell["scale"]): cell for cell in cells}
    rows: list[list[str]] = []
    for classes, samples in sizes:
        places = [by_place.get((classes, samples, scale)) for scale in scales]
        shown = [NOTHING if cell is None else show(cell) for cell in places]
        rows.append([f"{classes}, {samples:,}", *shown])
    return table(["K, n", *(f"s = {scale:g}" for scale in scales)], rows)


def _covered(error: Mapping[str, Any]) -> str:
    return str(Share(value=error["covered"], sets=error["sets"]))


def _sizes(error: Mapping[str, Any]) -> str:
    numbers = (error[name] for name in ("width", "value", "without_chance", "truth"))
    return " / ".join(f"{value:.4f}" for value in numbers)


def _gate(key: str) -> Callable[[Cell], list[Share]]:
    return lambda cell: gate_alarms([cell], key)


def _alarms(cells: Sequence[Cell], shares: Callable[[Cell], list[Share]]) -> str:
    return _rows([cell for cell in cells if shares(cell)], lambda cell: str(shares(cell)[0]))


def _parts(cells: Sequence[Cell]) -> str:
    """How often each part of the verdict fails where the truth is stated."""
    names = dict.fromkeys(name for cell in cells for name in cell["verdict"]["parts"])
    rows: list[list[str]] = []
    for name in names:
        found = [cell for cell in cells if name in cell["verdict"]["parts"]]
        shares = [Share(value=cell["verdict"]["parts"][name], sets=cell["sets"]) for cell in found]
        highest = max(shares, key=lambda each: each.value)
        rows.append([name, str(len(found)), str(pooled(shares)), str(highest)])
    shares = verdict_alarms(cells)
    highest = max(shares, key=lambda each: each.value)
    rows.append(["any of them", str(len(cells)), str(pooled(shares)), str(highest)])
    return table(["part", "cells", "fails", "highest cell"], rows)


def _said(cells: Sequence[Cell]) -> str:
    """What the verdict says where the truth is stated, by the number of samples and the source."""
    groups: dict[str, list[Cell]] = {}
    for cell in cells:
        name = f"n = {cell['samples']:,}" if cell["file"] is None else "real confidences"
        groups.setdefault(name, []).append(cell)
    words = sorted({word for cell in cells for word in cell["verdict"]["words"]})
    rows: list[list[str]] = []
    for word in words:
        row = [word]
        for found in groups.values():
            shares = [Share(value=c["verdict"]["words"].get(word, 0.0), sets=c["sets"]) for c in found]
            row.append(str(pooled(shares)))
        rows.append(row)
    return table(["verdict", *groups], rows)


def _real(cells: Sequence[Cell]) -> str:
    heads = ["file", "K", "n", "stated", "sets"]
    for key in AIMED_AT:
        heads += [f"{TITLES[key]} covers", "width / plain / without chance / true"]
    heads += ["gate, ECE", "verdict"]
    rows: list[list[str]] = []
    for cell in cells:
        row = [f"`{cell['file']}`", str(cell["classes"]), f"{cell['samples']:,}", cell["stated"]]
        row.append(str(cell["sets"]))
        for key in AIMED_AT:
            error = cell["errors"].get(key)
            row += [NOTHING, NOTHING] if error is None else [str(covered(cell, key)), _sizes(error)]
        row += [str(gate_alarms([cell], "ece")[0]), str(verdict_alarms([cell])[0])]
        rows.append(row)
    return table(heads, rows)


def _changes(cells: Sequence[Cell]) -> str:
    """Differences, of the errors whose intervals are held against the aims."""
    keys = [key for key in AIMED_AT if any(key in cell["errors"] for cell in cells)]
    heads = ["K, n", "s", "sets"]
    for key in keys:
        heads += [f"{TITLES[key]} covers", "width / found / true", "clear"]
    rows: list[list[str]] = []
    for cell in cells:
        row = [f"{cell['classes']}, {cell['samples']:,}", _pair(cell)]
        row.append(str(cell["errors"]["ece"]["sets"]))
        for key in keys:
            error = cell["errors"].get(key)
            row += [NOTHING] * 3 if error is None else [*_change(error)]
        rows.append(row)
    return table(heads, rows)


def _change(error: Mapping[str, Any]) -> Iterator[str]:
    yield _covered(error)
    yield f"{error['width']:.4f} / {error['value']:+.4f} / {error['truth']:+.4f}"
    yield f"{error['clear']:.2f}"


def _changes_of_all(cells: Sequence[Cell]) -> str:
    """Differences of each error, as means over cells, by the scales."""
    pairs = dict.fromkeys(_pair(cell) for cell in cells)
    rows: list[list[str]] = []
    for key in CHANGED:
        row = [TITLES[key]]
        every: list[Share] = []
        for pair in pairs:
            found = [cell["errors"] for cell in cells if _pair(cell) == pair and key in cell["errors"]]
            shares = [Share(value=each[key]["covered"], sets=each[key]["sets"]) for each in found]
            every += shares
            row.append(str(over_cells(shares)) if shares else NOTHING)
        if every:
            rows.append([*row, str(over_cells(every))])
    return table(["error", *pairs, "mean over cells"], rows)


def _pair(cell: Cell) -> str:
    """``1.3 → 1``, and whether that is another model."""
    return f"{cell['before']:g} → {cell['after']:g}" + (", another" if cell.get("model") else "")
