"""``python -m papers``: repeat a study's runs, or write its page from its results."""

import argparse
import sys
from pathlib import Path

from calibrant._math.errors import EXPECTED, sentence_of
from papers import studies
from papers.analysis import HERE, content, strange_numbers


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m papers",
        description="Repeat a study. What its store holds is not done again, so it can be interrupted.",
        epilog="Without a name, the studies are listed.",
    )
    parser.add_argument("name", nargs="?", help="a study, or all (with --page or --claims)")
    parser.add_argument("--out", type=Path, help="folder of runs and results (default: study/NAME)")
    parser.add_argument("--seeds", type=int, help="number of seeds of a grid (default: the grid's)")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="an option of the study"
    )
    parser.add_argument("--keep", action="store_true", help="add the runs to papers/NAME, and write its page")
    parser.add_argument("--page", action="store_true", help="run nothing: write papers/NAME/page.md again")
    parser.add_argument(
        "--claims",
        nargs="?",
        const=Path(),
        type=Path,
        metavar="FILE",
        help="write papers/claims.md again, or every test of every claim into a file (.csv, .parquet)",
    )
    return parser


def main(words: list[str] | None = None) -> None:
    given = arguments().parse_args(words)
    if given.claims is not None:
        from papers import every_claim

        print(every_claim.write(given.claims if given.claims.name else None))
    elif given.name is None:
        for name in studies.names():
            question, *_ = (studies.study(name).__doc__ or "").splitlines()
            print(f"{name:22}{question}")
    elif given.page:
        for name in studies.names() if given.name == "all" else [given.name]:
            for path in studies.write(name.replace("-", "_"), HERE / name.replace("-", "_")):
                print(path)
    else:
        _run(given)


def _run(given: argparse.Namespace) -> None:
    name = given.name.replace("-", "_")
    module, out = studies.study(name), given.out or Path("study") / name
    if studies.has_grid(name):
        old = content(name) if given.keep and (HERE / name / "results.json").is_file() else None
        results = studies.results_of_grid(name, out, seeds=given.seeds, old=old)
    else:
        results = module.measure(out, **dict(each.split("=", 1) for each in given.set))
    for path in studies.write(name, HERE / name if given.keep else out, results):
        print(path)
    page = (HERE / name / "page.md").read_text(encoding="utf-8")
    frames = module.frames(results)
    for number in strange_numbers(page, module.tables(frames), studies.rows_among_all(name, frames)):
        print(f"note: the page says {number}, which no table has now", file=sys.stderr)


if __name__ == "__main__":
    try:
        main()
    except EXPECTED as error:
        sys.exit(f"papers: {sentence_of(error)}")
