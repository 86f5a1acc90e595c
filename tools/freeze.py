"""Write down what calibrant does, to check a rebuilding: ``freeze.py before`` and ``after``, ``diff -r``.

    python tools/freeze.py before                 # names, help, outputs of some sixty files, results
    python tools/freeze.py before --only outputs  # one part
    FROZEN_ERRORS=before/errors PYTHONPATH=tools pytest -p freeze_errors tests/cli  # errors' sentences

Each part is a folder of text files with numbers of twelve digits, so that ``diff -r before after`` lists
what changed.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import importlib
import inspect
import io
import json
import math
import os
import pkgutil
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
DIGITS = 12
SIZE = 400


# ---------------------------------------------------------------- names


def public_modules() -> Iterator[Any]:
    for package in ("calibrant", "calibrant_lab"):
        with contextlib.suppress(ModuleNotFoundError):
            top = importlib.import_module(package)
            yield top
            for found in pkgutil.walk_packages(top.__path__, package + "."):
                if not any(part.startswith("_") for part in found.name.split(".")):
                    yield importlib.import_module(found.name)


def freeze_names(out: Path) -> None:
    lines: set[str] = set()
    for module in public_modules():
        for name in getattr(module, "__all__", ()):
            lines.add(f"{module.__name__}.{name}{_signature(getattr(module, name))}")
    (out / "names.txt").write_text("\n".join(sorted(lines)) + "\n", encoding="utf-8")


def _signature(value: Any) -> str:
    if not callable(value):
        return ""
    with contextlib.suppress(ValueError, TypeError):
        return re.sub(r"0x[0-9a-f]+|<object object[^>]*>", "…", str(inspect.signature(value)))
    return "(…)"


# ---------------------------------------------------------------- commands


def run(*arguments: str) -> tuple[int, str]:
    """Run a command in this process; return exit code and output."""
    from typer.testing import CliRunner

    from calibrant.cli.main import app

    result = CliRunner().invoke(app, list(arguments), env={"COLUMNS": "100", "NO_COLOR": "1"})
    text = result.output
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        text += f"\n{type(result.exception).__name__}: {result.exception}"
    return result.exit_code, text


def freeze_help(out: Path) -> None:
    import typer

    from calibrant.cli.main import app

    (out / "main.txt").write_text(run("--help")[1], encoding="utf-8")
    for name in typer.main.get_command(app).commands:  # type: ignore[attr-defined]
        (out / f"{name}.txt").write_text(run(name, "--help")[1], encoding="utf-8")


# ---------------------------------------------------------------- files


def _event(rng: np.random.Generator, base: float = 0.0) -> dict[str, Any]:
    odds = rng.normal(base, 1.5, SIZE)
    return {
        "probs": 1 / (1 + np.exp(-odds)),
        "labels": (rng.random(SIZE) < 1 / (1 + np.exp(-0.6 * odds))) * 1,
    }


def _classes(rng: np.random.Generator, number: int = 4, size: int = SIZE) -> dict[str, Any]:
    logits = rng.normal(size=(size, number))
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    drawn = (rng.random(size)[:, None] > np.cumsum(probs, axis=1)).sum(axis=1).clip(0, number - 1)
    return {"logits": 2 * logits, "labels": drawn}


def _labels(rng: np.random.Generator) -> dict[str, Any]:
    probs = rng.random((SIZE, 3))
    return {"probs": probs, "labels": (rng.random((SIZE, 3)) < probs**1.5) * 1}


def _confidences(rng: np.random.Generator) -> dict[str, Any]:
    confidence = 0.3 + 0.7 * rng.random(SIZE)
    return {"confidence": confidence, "correct": (rng.random(SIZE) < confidence - 0.1) * 1}


KINDS = {
    "event": _event,
    "rare": lambda rng: _event(rng, -3.0),
    "classes": _classes,
    "two": lambda rng: _classes(rng, 2),
    "labels": _labels,
    "confidences": _confidences,
}
BESIDE = {
    "": {},
    "split": {"split": lambda rng: rng.permutation(SIZE) % 2},
    "weights": {"weights": lambda rng: rng.choice([0.5, 1.0, 3.0], SIZE)},
    "clusters": {"clusters": lambda rng: rng.integers(0, 40, SIZE)},
    "groups": {"groups": lambda rng: rng.choice(["north", "south"], SIZE)},
}
FORMATS = ("csv", "jsonl", "parquet")


def made_files(folder: Path) -> Iterator[Path]:
    """Yield one file of each kind, cycling through optional columns and formats."""
    import pandas as pd

    for k, (kind, make) in enumerate(KINDS.items()):
        for b, (name, beside) in enumerate(BESIDE.items()):
            rng = np.random.default_rng([k, b])
            values = {**make(rng), **{key: draw(rng) for key, draw in beside.items()}}
            path = folder / "-".join(filter(None, (kind, name)))
            np.savez(path.with_suffix(".npz"), **values)
            yield path.with_suffix(".npz")
            table = _table(values)
            if table is None:
                continue
            form = FORMATS[(k + b) % 3]
            target = path.with_suffix(f".{form}")
            frame = pd.DataFrame(table)
            if form == "csv":
                frame.to_csv(target, index=False)
            elif form == "jsonl":
                frame.to_json(target, orient="records", lines=True, double_precision=15)
            else:
                frame.to_parquet(target)
            yield target
    parts = folder / "parts"
    parts.mkdir()
    for part in range(3):
        pd.DataFrame(_table(_classes(np.random.default_rng(part), size=300))).to_parquet(
            parts / f"part-{part}.parquet"
        )
    yield parts
    rng = np.random.default_rng(77)
    images = _classes(rng, 3, 6 * 8 * 8)
    np.savez(
        folder / "images.npz",
        logits=images["logits"].reshape(6, 8, 8, 3).transpose(0, 3, 1, 2),
        labels=images["labels"].reshape(6, 8, 8),
    )
    yield folder / "images.npz"


def _table(values: dict[str, Any]) -> dict[str, Any] | None:
    columns: dict[str, Any] = {"day": np.arange(len(next(iter(values.values())))) // 100}
    singular = {"labels": "label", "weights": "weight", "clusters": "cluster", "groups": "group"}
    for key, value in values.items():
        if key in ("logits", "probs") and value.ndim == 2:
            columns |= {f"{key[:-1]}_{c}": value[:, c] for c in range(value.shape[1])}
        elif key == "probs":
            columns["prob"] = value
        elif np.ndim(value) == 2:
            columns |= {f"label_{c}": value[:, c] for c in range(value.shape[1])}
        else:
            columns[singular.get(key, key)] = value
    return columns


def real_files() -> Iterator[Path]:
    """Yield some real predictions, if ``CALIBRANT_DATA`` is set."""
    data = os.environ.get("CALIBRANT_DATA")
    if data:
        for pattern in (
            "logits_eurosat_rgb/*.npz",
            "logits_valtest_noisycal/*.npz",
            "probs_pycalib_small/*.npz",
        ):
            yield from sorted(Path(data).glob(pattern))[:2]


def freeze_outputs(out: Path) -> None:
    """Write the output of evaluate, check, compare, monitor, fit and apply for each file."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for path in [*made_files(folder), *real_files()]:
            name = f"{path.stem}-{path.suffix[1:] or 'folder'}"
            if path.parent != folder:
                name = f"{path.parent.name}-{name}"
            calibrator, applied = folder / f"{name}.safetensors", folder / f"{name}-applied.npz"
            if path.is_dir():
                applied = folder / f"{name}-applied.parquet"
            json_out = ["--json", "-"]
            few = ["--bootstrap", "50", *json_out]
            for command, arguments in {
                "evaluate": ["evaluate", str(path), *few],
                "check": ["check", str(path), "--max-ece", "0.05", *few],
                "compare": ["compare", str(path), str(path), "--names", "a,b", *few],
                "monitor": ["monitor", str(path), "--time", "day", "--window", "1", *few],
                "fit": ["fit", str(path), *([] if "split" in name else ["--all"]), "-o", str(calibrator)],
                "apply": ["apply", str(calibrator), str(path), "-o", str(applied)],
            }.items():
                if command == "monitor" and path.suffix not in {".csv", ".jsonl"}:
                    continue
                beside = [name for name in ("weight", "cluster", "group") if name in path.stem]
                if beside and path.suffix != ".npz" and command not in {"fit", "apply"}:
                    arguments += [f"--{beside[0]}-column", beside[0]]
                code, text = run(*arguments)
                text = _stable(text.replace(temporary, ""))
                if command == "apply" and code == 0:
                    text += _digest(applied)
                (out / f"{name}.{command}.txt").write_text(f"exit {code}\n{text}\n", encoding="utf-8")
            print(name, file=sys.stderr, flush=True)


def _stable(text: str) -> str:
    """Remove versions, times and last digits; put JSON values on lines of their own."""
    begin = text.find("{")
    with contextlib.suppress(ValueError):
        if begin >= 0:
            value, end = json.JSONDecoder().raw_decode(text[begin:])
            lines = "\n".join(f"{key} = {_short(leaf)}" for key, leaf in _leaves(value, ""))
            return text[:begin] + lines + text[begin + end :]
    return re.sub(r"\b\d+\.\d{13,}", lambda number: _short(float(number.group())), text)


def _leaves(value: Any, at: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, under in value.items():
            yield from _leaves(under, f"{at}.{key}")
    elif isinstance(value, list):
        for index, under in enumerate(value):
            yield from _leaves(under, f"{at}[{index}]")
    elif not re.search(r"version|created|seconds|\.time$|command$", at):
        yield at, value


def _short(value: Any) -> str:
    return f"{value:.{DIGITS}g}" if isinstance(value, float) and math.isfinite(value) else str(value)


def _digest(path: Path) -> str:
    lines = []
    if path.suffix == ".npz":
        with np.load(path) as arrays:
            for key in sorted(arrays.files):
                value = arrays[key]
                if value.dtype.kind == "f":
                    finite = np.where(np.isfinite(value), value, 0.0).astype(float).ravel()
                    weight = np.cos(np.arange(finite.size))
                    lines.append(f"{key} {value.shape} {finite.sum():.9g} {finite @ weight:.9g}")
                else:
                    lines.append(f"{key} {value.shape} {value.dtype.kind}")
    return "\n" + "\n".join(lines)


# ---------------------------------------------------------------- results


def freeze_results(out: Path) -> None:
    """Write every cell of the result pages' tables: page, table, row, column, cell."""
    for page in sorted((ROOT / "docs" / "results").glob("*.md")):
        text = io.StringIO()
        write = csv.writer(text, lineterminator="\n")
        number, header = 0, list[str]()
        for line in page.read_text(encoding="utf-8").splitlines():
            if not line.startswith("|"):
                header = []
                continue
            cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
            if not header:
                header, number = cells, number + 1
            elif not re.fullmatch(r"[-: |]+", line):
                for column, cell in zip(header[1:], cells[1:], strict=False):
                    write.writerow([number, cells[0], column, cell])
        (out / f"{page.stem}.csv").write_text(text.getvalue(), encoding="utf-8")


PARTS = {
    "names": freeze_names,
    "help": freeze_help,
    "results": freeze_results,
    "outputs": freeze_outputs,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", choices=PARTS)
    given = parser.parse_args()
    for name, freeze in PARTS.items():
        if given.only in (None, name):
            (given.out / name).mkdir(parents=True, exist_ok=True)
            freeze(given.out / name)


if __name__ == "__main__":
    main()
