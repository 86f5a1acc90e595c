"""Mutation testing: change one place of the source at a time and see whether a test notices.

    make mutants

cosmic-ray supplies the changes; what runs them is written here, because a mutant has to cost seconds, not a
run of the suite. The steps:

``cover``   records which test runs which line, and for how long.
``run``     draws mutants at random, from each room in proportion to its lines, and tries each on some of the
            tests that run the changed line: the quickest, then others drawn at random.
``widen``   gives the survivors more time.
``report``  writes the share detected, with its 95 % interval, and the survivors.

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
SECONDS, WIDER = 8.0, 60.0  # of tests for a mutant, and for a survivor


def key_of(mutant: Mutant) -> tuple[Any, ...]:
    """What tells mutants apart."""
    return mutant["file"], mutant["line"], mutant["column"], mutant["operator"], mutant["occurrence"]


def outcomes() -> dict[tuple[Any, ...], Mutant]:
    """The last outcome of each mutant so far."""
    text = OUTCOMES.read_text(encoding="utf-8") if OUTCOMES.exists() else ""
    return {key_of(mutant): mutant for mutant in map(json.loads, text.splitlines())}


def run(mutants: Iterable[Mutant], budget: float, workers: int) -> None:
    """Try mutants and write each outcome down as it comes."""
    tests = Tests.read()
    with warnings.catch_warnings(action="ignore"):
        for name in tests.libraries:  # a fork need not load them again
            with suppress(Exception):
                importlib.import_module(name)

    def one(mutant: Mutant) -> None:
        done = mutant | trial.outcome(mutant, tests, budget) | {"budget": budget}
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
    """The 95 % interval of a share."""
    z, share = 1.959964, hits / n
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z * math.sqrt(share * (1 - share) / n + (z / (2 * n)) ** 2) / (1 + z * z / n)
    return round(middle - half, 3), round(middle + half, 3)


def report(target: Path, seed: int) -> None:
    """Write the shares of each room and the list of survivors."""
    done = list(outcomes().values())
    rooms: dict[str, Any] = {}
    for room in (*ROOMS, "all"):
        counts = Counter(mutant["outcome"] for mutant in done if room in {mutant["room"], "all"})
        if n := counts.total():
            share = (n - counts["survived"]) / n
            interval = wilson(n - counts["survived"], n)
            rooms[room] = {"mutants": n, **counts, "share detected": round(share, 3), "interval": interval}
    shown = ("file", "line", "operator", "before", "after", "tests")
    survivors = [{name: mutant[name] for name in shown} for mutant in done if mutant["outcome"] == "survived"]
    survivors.sort(key=lambda mutant: (mutant["file"], mutant["line"]))
    page = {
        "tool": f"cosmic-ray {version('cosmic-ray')}",
        "seed": seed,
        "rooms": rooms,
        "survivors": survivors,
    }
    target.write_text(json.dumps(page, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(json.dumps(rooms, indent=1))


def main() -> None:
    """Read the command line."""
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
        report(given.to, given.seed)


if __name__ == "__main__":
    main()
