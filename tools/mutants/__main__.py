"""Mutation testing: change one place of the source at a time and see whether a test notices.

    make mutants

cosmic-ray supplies the changes; what runs them is written here, because a mutant has to cost seconds, not a
run of the suite. The steps:

``cover``   records which test runs which line, and for how long.
``run``     draws mutants at random, from each room in proportion to its lines, and tries each on some of the
            tests that run the changed line: the quickest, then those named after its file, then any.
``widen``   gives the survivors more time.
``report``  writes the share detected, with its 95 % interval, and the survivors with the number of tests each
            was run against. ``note``, and what each survivor's ``read`` says, are written by hand and kept.

Each outcome is written as it comes (``build/mutants``), and ``run`` resumes where it stopped. Empty that
folder after a change to source or tests.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import sys
import warnings
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

import sample
import trial
from sample import ROOMS, ROOT, WORK, Mutant
from tests_of_lines import Tests, record

OUTCOMES = WORK / "outcomes.jsonl"
DETECTED = ("killed", "timed out")
SECONDS, WIDER = 8.0, 60.0  # of tests for a mutant, and for a survivor


def key_of(mutant: Mutant) -> tuple[Any, ...]:
    return mutant["file"], mutant["line"], mutant["column"], mutant["operator"], mutant["occurrence"]


def outcomes() -> dict[tuple[Any, ...], Mutant]:
    text = OUTCOMES.read_text(encoding="utf-8") if OUTCOMES.exists() else ""
    return {key_of(mutant): mutant for mutant in map(json.loads, text.splitlines())}


def run(mutants: Iterable[Mutant], budget: float, workers: int) -> None:
    """Try mutants and record each outcome at once."""
    tests = Tests.read()
    with warnings.catch_warnings(action="ignore"):
        for name in tests.libraries:  # a fork need not load them again
            with suppress(Exception):
                importlib.import_module(name)

    def one(mutant: Mutant) -> None:
        before = {name: value for name, value in mutant.items() if name != "by"}
        done = before | trial.outcome(mutant, tests, budget) | {"budget": budget}
        with OUTCOMES.open("a", encoding="utf-8") as file:
            file.write(json.dumps(done) + "\n")
        place = f"{done['file']}:{done['line']}"
        print(f"{done['outcome']:9} {done.get('seconds', 0):5} s  {place} {done['after'][:70]}", flush=True)

    left = list(mutants)
    while left:
        with ThreadPoolExecutor(workers) as pool:
            list(pool.map(one, left))
        killers = {
            key: done["by"] for key, done in outcomes().items() if done.get("by", "import") != "import"
        }
        unsound = trial.failing(set(killers.values()))
        left = [done for key, done in outcomes().items() if killers.get(key) in unsound]
        tests = tests.without(unsound)


def wilson(hits: int, n: int) -> tuple[float, float]:
    """Return the 95% interval of a share."""
    z, share = 1.959964, hits / n
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z * math.sqrt(share * (1 - share) / n + (z / (2 * n)) ** 2) / (1 + z * z / n)
    return round(middle - half, 3), round(middle + half, 3)


def report(target: Path, seed: int, mutants: int) -> None:
    """Write the shares of each package and the survivors; keep manual notes."""
    page: dict[str, Any] = json.loads(target.read_text(encoding="utf-8")) if target.exists() else {}
    read = {_change(one): one["read"] for one in page.get("survivors", []) if "read" in one}
    done = [one | {"read": read.get(_change(one), "not read yet")} for one in outcomes().values()]
    drawn = sample.kept(mutants, seed)
    page |= {"tool": f"cosmic-ray {version('cosmic-ray')}", "seed": seed, "rooms": {}}
    for room in (*ROOMS, "all"):
        inside = [one for one in done if room in {one["room"], "all"}]
        page["rooms"][room] = {"drawn": sum(room in {one["room"], "all"} for one in drawn)}
        page["rooms"][room] |= _shares(inside) if inside else {}
    shown = ("file", "line", "operator", "before", "after", "outcome", "tests", "budget", "read")
    survivors = [one for one in done if one["outcome"] not in DETECTED]
    page["survivors"] = [
        {name: one[name] for name in shown if name in one}
        for one in sorted(survivors, key=lambda one: (one["file"], one["line"], one["after"]))
    ]
    target.write_text(json.dumps(page, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(json.dumps(page["rooms"], indent=1))


def _shares(done: list[Mutant]) -> dict[str, Any]:
    """Count detected mutants, equivalent ones, and those detected by newer tests."""
    n, counts = len(done), Counter(one["outcome"] for one in done)
    detected = sum(counts[outcome] for outcome in DETECTED)
    missed = [one["read"] for one in done if one["outcome"] not in DETECTED]
    equivalent = sum(words.startswith("equivalent") for words in missed)
    since = sum(words.startswith("killed since") for words in missed)
    return {
        "mutants": n,
        **counts,
        "share detected": round(detected / n, 3),
        "interval": wilson(detected, n),
        "equivalent": equivalent,
        "share of those that are not": round(detected / (n - equivalent), 3),
        "interval of these": wilson(detected, n - equivalent),
        "killed since": since,
        "share now": round((detected + since) / n, 3),
    }


def _change(mutant: Mutant) -> tuple[str, str, str, str]:
    return mutant["file"], mutant["operator"], mutant["before"], mutant["after"]


def main() -> None:
    parser = argparse.ArgumentParser(prog="tools/mutants", description="Mutation testing of the lower rooms.")
    parser.add_argument("step", choices=["cover", "run", "widen", "report"])
    parser.add_argument("--mutants", type=int, default=500)
    parser.add_argument("--seed", type=int, default=13)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--to", type=Path, default=ROOT / "tools" / "mutants.json")
    given = parser.parse_args()
    WORK.mkdir(parents=True, exist_ok=True)
    os.chdir(ROOT)
    sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]
    known = outcomes()
    if given.step == "cover":
        record()
    elif given.step == "run":
        left = (one for one in sample.kept(given.mutants, given.seed) if key_of(one) not in known)
        run(left, SECONDS, given.workers)
    elif given.step == "widen":
        left = (one for one in known.values() if one["outcome"] == "survived" and one["budget"] < WIDER)
        run(left, WIDER, given.workers)
    else:
        report(given.to, given.seed, given.mutants)


if __name__ == "__main__":
    main()
