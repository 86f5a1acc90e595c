"""Hold the numbers in ``results/*.json`` against their bars; ``make bench-check`` runs this.

Every benchmark writes its bar beside what it measured. Nothing is timed here. A file that is not there is
said and does not fail: it means that the benchmark was not run. Exit code 1 if a bar is missed
for no reason in ``KNOWN``.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from environment import RESULTS

OURS = "calibrant"
CHECKS = "half of it checks the data and the result; its log loss is the lowest"
PAGES = "large tables leave the cache, and get new pages of memory at each call"
KNOWN = {
    "histogram, equal width, 5000 x 10": CHECKS,
    "histogram, equal mass, 5000 x 10": CHECKS,
    "histogram, equal width, 5000 x 100": CHECKS,
    "histogram, equal mass, 5000 x 100": CHECKS,
    "beta, 5000 x 100": "it goes on to a gradient below 1e-8",
    "losses, growth with classes, steepest exponent": PAGES,
    "calibrators, growth with classes, steepest exponent": "beyond 256 classes vector scaling takes 27 "
    "products with the Hessian, not one Hessian; the others' tables leave the cache",
    "tokens, growth with vocabulary, steepest exponent": PAGES,
}
"""Works that miss their bar, and why: said, and no failure."""


@dataclass(frozen=True)
class Held:
    """One number against its bar."""

    benchmark: str
    work: str
    measured: str
    bar: str
    met: bool

    @property
    def why(self) -> str:
        """The known reason for a miss, after a colon."""
        return f": {KNOWN[self.work]}" if not self.met and self.work in KNOWN else ""


def metrics(content: dict[str, Any]) -> Iterator[Held]:
    """Times against the peers', at one thread and at two; memory and values."""
    for task, found in content["tasks"].items():
        work = f"{task}, N = {found['num_samples']:,}, C = {found['num_classes']}"
        bar = found["bar"]
        for threads, entries in found["threads"].items():
            where = f"{work}, {threads} thread{'s' if threads != '1' else ''}"
            for peer, factor in bar.get("times_faster_than", {}).items():
                if peer in entries:
                    times = entries[peer]["times_ours"]
                    said = f"{entries[OURS]['milliseconds']:.1f} ms, {times:.1f} × faster than {peer}"
                    yield Held("metrics", where, said, f"≥ {factor} ×", times >= factor)
            if "milliseconds" in bar:
                took = entries[OURS]["milliseconds"]
                yield Held(
                    "metrics",
                    where,
                    f"{took:.1f} ms",
                    f"≤ {bar['milliseconds']} ms",
                    took <= bar["milliseconds"],
                )
        if "bytes_per_sample" in bar:
            used = found["peak_megabytes"][OURS] * 2**20 / found["num_samples"]
            yield Held(
                "metrics",
                f"{work}, extra memory",
                f"{used:.0f} bytes per sample",
                f"≤ {bar['bytes_per_sample']}",
                used <= bar["bytes_per_sample"],
            )
        if "value_within" in bar and found.get("reference") is not None:
            miss = abs(found["threads"]["1"][OURS]["value"] - found["reference"])
            yield Held(
                "metrics",
                f"{work}, value",
                f"{miss:.1g} off",
                f"≤ {bar['value_within']:g}",
                miss <= bar["value_within"],
            )


def losses(content: dict[str, Any]) -> Iterator[Held]:
    """Focal loss in multiples of torch's cross-entropy."""
    ours = content["measures"]
    for size, found in content["tables"]["focal"].items():
        bar = found["bar"]
        for threads, entries in found["threads"].items():
            if "times_cross_entropy" in bar:
                times = entries[ours]["times_cross_entropy"]
                yield Held(
                    "losses",
                    f"focal loss forward + backward, {size}, {threads} thread{'s' if threads != '1' else ''}",
                    f"{times:.2f} × cross-entropy",
                    f"≤ {bar['times_cross_entropy']} ×",
                    times <= bar["times_cross_entropy"],
                )
        if "peak_memory" in bar:
            peak = found["peak_memory"][ours]
            yield Held(
                "losses",
                f"focal loss, {size}, peak memory",
                f"{peak:.2f} × logits",
                f"≤ {bar['peak_memory']} ×",
                peak <= bar["peak_memory"],
            )


def calibrators(content: dict[str, Any]) -> Iterator[Held]:
    """Times of fits against the peers', and how good the fits are."""
    for task, found in content["tasks"].items():
        bar, entries = found["bar"], found["fits"]
        ours = entries[OURS]
        for peer, factor in bar.get("times_faster_than", {}).items():
            times = entries[peer]["times_ours"]
            said = f"{ours['milliseconds']:.1f} ms, {times:.1f} × faster than {peer}"
            yield Held("calibrators", task, said, f"≥ {factor} ×", times >= factor)
        for peer, factor in bar.get("grid_times_faster_than", {}).items():
            same = entries[f"{OURS}, the same grid"]
            times = entries[peer]["milliseconds"] / same["milliseconds"]
            said = f"{same['milliseconds']:.1f} ms for the same grid, {times:.1f} × faster than {peer}"
            yield Held("calibrators", task, said, f"≥ {factor} ×", times >= factor)
        if "milliseconds" in bar:
            took = ours["milliseconds"]
            said = f"{took:.1f} ms"
            yield Held("calibrators", task, said, f"≤ {bar['milliseconds']} ms", took <= bar["milliseconds"])
        if "no_worse_by" in bar:
            best = min(entry["objective"] for entry in entries.values())
            behind = ours["objective"] - best
            said = f"{behind:.1g} above the lowest"
            yield Held(
                "calibrators",
                f"{task}, objective",
                said,
                f"≤ {bar['no_worse_by']:g}",
                behind <= bar["no_worse_by"],
            )


def bootstrap(content: dict[str, Any]) -> Iterator[Held]:
    """All default metrics in 1000 resamples."""
    bar = content["bar"]
    for row in content["rows"]:
        if all(row[name] == bar[name] for name in ("num_samples", "num_classes", "threads")):
            took = row["bootstrap"]["seconds"]
            yield Held(
                "bootstrap",
                f"{row['num_resamples']} resamples, N = {row['num_samples']:,}, C = {row['num_classes']}, "
                f"{row['threads']} threads",
                f"{took:.1f} s",
                f"≤ {bar['seconds']:g} s",
                took <= bar["seconds"],
            )


def import_time(content: dict[str, Any]) -> Iterator[Held]:
    """Seconds on top of importing torch."""
    for statement, most in content["bar_seconds_on_top_of_torch"].items():
        took = content["seconds_on_top_of_torch"][statement]
        yield Held("import time", f"`{statement}`", f"{took:.3f} s", f"≤ {most} s", took <= most)


def growth(content: dict[str, Any]) -> Iterator[Held]:
    """Fitted slopes of time against the known order of growth; a slope clearly above it is a fault."""
    for group, panels in content["groups"].items():
        for axis, panel in panels.items():
            above = {name: row["slope"] - row["known"] for name, row in panel["works"].items()}
            names = [name for name, by in above.items() if by > 0.2] or [max(above, key=lambda n: above[n])]
            rows = {name: panel["works"][name] for name in names}
            said = ", ".join(f"{n} {row['slope']:.2f} (known: {row['known']:.3g})" for n, row in rows.items())
            work = f"{group}, growth with {axis}, steepest exponent"
            yield Held("growth", work, said, "≤ known + 0.2", max(above.values()) <= 0.2)


def calibrator_peers(content: dict[str, Any]) -> Iterator[Held]:
    """Every family of calibrators beside its peers: CPU time of a fit, and log loss on other rows."""
    for size, families in content["tables"].items():
        for family, fits in families.items():
            ran = {name: fit for name, fit in fits.items() if "log_loss" in fit}
            told = [f"{n} {f['cpu_milliseconds']:,.1f} ms, {f['log_loss']:.3f}" for n, f in ran.items()]
            told += [f"{name} does not run" for name in fits.keys() - ran.keys()]
            if OURS in ran:
                fastest = min(ran.values(), key=lambda fit: fit["cpu_milliseconds"])
                yield Held(
                    "calibrator peers",
                    f"{family}, {size}",
                    "; ".join(told).removeprefix(f"{OURS} "),
                    "the fastest",
                    fastest is ran[OURS],
                )


def scale(content: dict[str, Any]) -> Iterator[Held]:
    """Tables read part by part: time against decoding and one pass, and memory that does not grow."""
    for rows, whose in ((content["tables"], ""), (content["real"]["tables"], "real ")):
        tables = sorted(rows.values(), key=lambda row: (row["num_classes"], row["rows"]))
        for row in tables:
            work = (
                f"{row['rows']:,} {whose}rows of {row['num_classes']} classes, time of decoding and one pass"
            )
            said = f"{row['of_the_limit']:.2f} (code of {(row['commit'] or '?')[:7]})"
            yield Held("scale", work, said, "≤ 1.5", row["of_the_limit"] <= 1.5)
        for num_classes in sorted({row["num_classes"] for row in tables}):
            first, *_, last = [row for row in tables if row["num_classes"] == num_classes] * 2
            grown = last["megabytes_peak"] / first["megabytes_peak"]
            compared = f"{last['rows']:,} {whose}rows against {first['rows']:,}"
            work = f"peak memory of {compared}, {num_classes} classes"
            yield Held("scale", work, f"{grown:.2f}", "≤ 1.5", grown <= 1.5)


def dense_peers(content: dict[str, Any]) -> Iterator[Held]:
    """Errors of segmentation: as exact as float64, and no slower than the peers."""
    for task in ("top label", "each class of each image"):
        found = content[task]
        yield Held(
            "dense",
            f"ECE of positions, {task}",
            f"{found['off']['calibrant']:.0e} off",
            "≤ 1e-12",
            found["off"]["calibrant"] <= 1e-12,
        )
        ours, *theirs = found["cpu_milliseconds"].values()
        if theirs:
            times, peer = min(theirs) / ours, list(found["cpu_milliseconds"])[1]
            work = f"ECE of positions, {task}, beside {peer}"
            yield Held("dense", work, f"{ours:.0f} ms, {times:.2f} × faster", "≥ 1 ×", times >= 1)


def dense(content: dict[str, Any]) -> Iterator[Held]:
    """Memory of whole evaluations of segmentation outputs."""
    for work, found in content["evaluations"].items():
        memory = found["peak_megabytes"]
        said = f"{memory:,.0f} MB, imports included"
        yield Held("dense", f"evaluation of {work}, peak memory", said, "≤ 1,500 MB", memory <= 1500)


def detection_peers(content: dict[str, Any]) -> Iterator[Held]:
    """Error and calibrators of detections against netcal's."""
    for features in ("confidence", "and centre", "and size"):
        found = content[features]
        work, off = f"detections by {features.replace('and', 'confidence and')}", found["d_ece_off"]
        yield Held("detection", f"{work}, D-ECE", f"{off:.0e} from netcal's", "≤ 1e-12", off <= 1e-12)
        for method, fit in found["methods"].items():
            apart, gained = fit["largest_difference"], fit["netcal_nll"] - fit["nll"]
            said = f"probabilities within {apart:.0e} of netcal's, log-loss {gained:.0e} below"
            met = apart <= 1e-3 and gained >= -1e-9
            yield Held("detection", f"{work}, {method}", said, "≤ 1e-03, and no log-loss above", met)


def wide(content: dict[str, Any]) -> Iterator[Held]:
    """Memory of evaluations and fits of very many classes, above that of the process with its imports.

    And how many passes over the scores a fit takes, where that was counted.
    """
    parts = {
        "evaluate": "evaluation and its calibrators",
        "evaluate without calibrators": "evaluation as it came",
        "temperature": "fit of a temperature",
        "focal-temperature": "fit of a focal temperature",
    }
    for size, found in content["sizes"].items():
        for name, work in parts.items():
            memory, file = found[name]["peak_megabytes"], found["file_megabytes"]
            said = f"{memory:,.0f} MB above what the imports take (file: {file:,.0f} MB)"
            bar = "none: a piece of the rows, and some numbers for each class"
            yield Held("wide", f"{size}, {work}, peak memory", said, bar, met=True)
            if "passes" in found[name]:
                passes = found[name]["passes"]
                yield Held(
                    "wide", f"{size}, {work}", f"{passes} passes over the scores", "≤ 14", passes <= 14
                )


def curvature(content: dict[str, Any]) -> Iterator[Held]:
    """Errors of eigenvalue and trace, and the CPU time, against what the peers reach."""
    for task, found in content["tasks"].items():
        bar, ours = found["bar"], found["ours"]
        took, miss = ours["cpu_milliseconds"], ours["error"]
        if "error" in bar:
            yield Held("curvature", task, f"{miss:.1g} off", f"≤ {bar['error']:g}", miss <= bar["error"])
        peer = bar.get("no_slower_than")
        if peer in found["methods"]:
            most = found["methods"][peer][0]
            said = f"{most['cpu_milliseconds']:.0f} ms of {peer}, {most['error']:.1g} off"
            met = took <= most["cpu_milliseconds"]
            yield Held("curvature", f"{task}, CPU time", f"{took:.0f} ms", f"≤ {said}", met)
        if bar.get("no_less_exact_than_peers"):
            reached = found["error_at_our_time"].items()
            errors = [error for name, error in reached if not name.startswith(OURS) and error is not None]
            if errors:
                said = f"≤ {min(errors):.2%}, the best peer's in that time"
                yield Held(
                    "curvature", f"{task}, {took:.0f} ms", f"{miss:.2%} off", said, miss <= min(errors)
                )


def sweep(content: dict[str, Any]) -> Iterator[Held]:
    """What a sweep costs beside its runs."""
    bar, index, short = content["bar"], content["index"], content["short_runs"]
    took, most = content["overhead"]["cpu_milliseconds_per_run"], bar["cpu_milliseconds_per_run"]
    yield Held("sweep", "a run of nothing, CPU time", f"{took:.1f} ms", f"≤ {most} ms", took <= most)
    count = f"{index['results']:,} results"
    for key, work in (
        ("index_cpu_seconds", "read by the index, CPU time"),
        ("rebuild_cpu_seconds", "read one by one, CPU time"),
    ):
        yield Held(
            "sweep", f"{count}, {work}", f"{index[key]:.1f} s", f"≤ {bar[key]} s", index[key] <= bar[key]
        )
    memory, most = short["driver_megabytes"], bar["driver_megabytes"]
    work = f"memory of a sweep of {short['runs']:,} runs, beside its workers"
    yield Held("sweep", work, f"{memory:.0f} MB", f"≤ {most} MB", memory <= most)


def training(content: dict[str, Any]) -> Iterator[Held]:
    """An epoch against one of a plain loop, in CPU time, and peak memory."""
    most = content["bar"]["times_plain"]
    for name, found in content["recipes"].items():
        times, (low, high) = found["times_plain"], found["times_plain_interval"]
        rate, memory = found["epochs_per_cpu_hour"]["ours"], found["peak_megabytes"]
        said = (
            f"{rate:,.0f} epochs per CPU hour, {times:.2f} × a plain loop's time ({low:.2f} to {high:.2f}), "
            f"peak {memory['ours']:.0f} MB (plain: {memory['plain']:.0f})"
        )
        if found["held"]:
            yield Held("training", name, said, f"≤ {most} ×", times <= most)
        else:
            yield Held("training", name, said, "none: costs of a millisecond a batch show", met=True)


def linear_loss(content: dict[str, Any]) -> Iterator[Held]:
    """The loss of a last layer in chunks, in multiples of that of all its logits."""
    bar, entries = content["bar"], content["entries"]
    ours, plain = entries[content["measures"]], entries[content["relative_to"]]
    for key, work in (
        ("times_plain", "forward + backward"),
        ("peak_times_plain", "peak memory above the gradients"),
    ):
        said, met = f"{ours[key]:.2f} × all logits at once", ours[key] <= bar[key]
        yield Held("linear loss", f"V = {content['classes']:,}, {work}", said, f"≤ {bar[key]} ×", met)
    miss = abs(ours["value"] - plain["value"]) / plain["value"]
    most = bar["value_within"]
    yield Held(
        "linear loss", f"V = {content['classes']:,}, value", f"{miss:.1g} off", f"≤ {most:g}", miss <= most
    )


def serve(content: dict[str, Any]) -> Iterator[Held]:
    """What the page's server bears."""
    bar, load, harm = content["bar"], content["load"], content["harm"]
    work = f"{load['visitors']} visitors, {load['requests']:,} requests"
    yield Held("serve", work, f"{load['lost']} lost", f"{bar['lost']}", load["lost"] <= bar["lost"])
    share = load["per_second"] / content["bare_per_second"]
    said = (
        f"{load['per_second']:.0f} a second, {share:.2f} of the bare network (both beside other work, "
        f"load average {content['load_before']:.0f}); {load['all_cpu_ms']:.1f} ms of CPU each"
    )
    yield Held("serve", work, said, f"≥ {bar['share_of_bare']}", share >= bar["share_of_bare"])
    grown, most = content["grown_megabytes"], bar["grown_megabytes"]
    yield Held("serve", "memory", f"{grown:.0f} MB more", f"≤ {most} MB", grown <= most)
    wrong, work = len(harm["not_refused"]), f"{harm['sent']} hostile files"
    met = wrong <= bar["hostile_not_refused"] and harm["healthy"]
    yield Held("serve", work, f"{wrong} not refused", f"{bar['hostile_not_refused']}", met)
    page = content["maps"].get("page")
    if page is not None:
        slowest = content["maps"]["slowest_page"]
        said, met = f"{page:.2f} s (median; slowest {slowest:.2f} s)", page < bar["page_seconds"]
        yield Held("serve", "page in a browser", said, f"< {bar['page_seconds']} s", met)
    disk = content["bytes_written"]
    yield Held(
        "serve", work, f"{disk} bytes written", f"{bar['bytes_written']}", disk <= bar["bytes_written"]
    )


READERS: dict[str, Callable[[dict[str, Any]], Iterator[Held]]] = {
    "metrics": metrics,
    "losses": losses,
    "linear_loss": linear_loss,
    "calibrators": calibrators,
    "bootstrap": bootstrap,
    "import_time": import_time,
    "calibrator_peers": calibrator_peers,
    "growth": growth,
    "curvature": curvature,
    "sweep": sweep,
    "training": training,
    "serve": serve,
    "scale": scale,
    "dense": dense,
    "dense_peers": dense_peers,
    "detection_peers": detection_peers,
    "wide": wide,
}


def held(folder: Path = RESULTS) -> tuple[list[Held], list[str]]:
    """Every number that has a bar, and the benchmarks that were not run."""
    rows: list[Held] = []
    missing: list[str] = []
    for name, read in READERS.items():
        path = folder / f"{name}.json"
        if path.exists():
            rows += read(json.loads(path.read_text(encoding="utf-8")))
        else:
            missing.append(name)
    return rows, missing


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, default=RESULTS)
    rows, missing = held(parser.parse_args().results)
    for row in rows:
        verdict = "ok    " if row.met else "MISSED"
        print(f"{verdict} {row.benchmark}: {row.work}: {row.measured} (bar {row.bar}){row.why}")
    for name in missing:
        print(f"not run: benchmarks/{name}.py")
    missed = sum(not row.met for row in rows)
    print(f"{len(rows) - missed} of {len(rows)} bars are met.")
    sys.exit(any(not row.met and not row.why for row in rows))


if __name__ == "__main__":
    main()
