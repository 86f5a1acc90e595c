"""Compare reads of damaged and odd files of every format with an independent strict reader.

A file is built from known probabilities and labels. Most files are then damaged: bytes are changed, removed,
repeated or cut off. calibrant must read what the strict reader reads, note what it changed, or refuse in one
sentence. Anything else is printed with the seed that makes the file again.

Run ``python tools/fuzz.py --files 2000``; the exit code is 1 if there was a fault.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

Columns = Mapping[str, Any]
ENDINGS = ("csv", "tsv", "json", "jsonl", "parquet", "feather", "npz", "pt", "safetensors")
LONGEST_MESSAGE = 600


def built(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return probabilities and labels of two or three classes, under documented names."""
    size = int(rng.integers(2, 9))
    if rng.random() < 0.5:
        return {"label": rng.integers(0, 2, size), "prob": rng.random(size).round(3)}
    probs = rng.dirichlet(np.ones(3), size)
    return {"label": rng.integers(0, 3, size), **{f"prob_{k}": probs[:, k] for k in range(3)}}


def arrays_of(columns: Columns) -> dict[str, np.ndarray]:
    scores = [columns[name] for name in columns if name != "label"]
    probs = scores[0] if len(scores) == 1 else np.stack(scores, axis=1)
    return {"labels": columns["label"], "probs": probs}


def written(columns: Columns, ending: str) -> bytes:
    """Write a file with the format's own library."""
    names, rows = list(columns), list(zip(*(each.tolist() for each in columns.values()), strict=True))
    if ending in {"csv", "tsv"}:
        text = io.StringIO()
        writer = csv.writer(text, delimiter="," if ending == "csv" else "\t")
        writer.writerow(names)
        writer.writerows(rows)
        return text.getvalue().encode()
    records = [dict(zip(names, row, strict=True)) for row in rows]
    if ending == "json":
        return json.dumps(records).encode()
    if ending == "jsonl":
        return "\n".join(map(json.dumps, records)).encode()
    raw = io.BytesIO()
    if ending in {"parquet", "feather"}:
        import pyarrow
        from pyarrow import feather, parquet

        table = pyarrow.Table.from_pylist(records)
        (parquet.write_table if ending == "parquet" else feather.write_feather)(table, raw)
    elif ending == "npz":
        arrays = arrays_of(columns)
        np.savez(raw, labels=arrays["labels"], probs=arrays["probs"])
    elif ending == "pt":
        torch.save({name: torch.from_numpy(each) for name, each in arrays_of(columns).items()}, raw)
    else:
        from safetensors.numpy import save

        return save(arrays_of(columns))
    return raw.getvalue()


def strictly_read(path: Path, ending: str) -> dict[str, np.ndarray]:
    """Read labels and probabilities with the format's own library; any exception is a refusal."""
    if ending == "npz":
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in ("labels", "probs")}
    if ending == "pt":
        found = torch.load(path, weights_only=True)
        return {name: found[name].numpy() for name in ("labels", "probs")}
    if ending == "safetensors":
        from safetensors.numpy import load_file

        found = load_file(path)
        return {name: found[name] for name in ("labels", "probs")}
    if ending in {"parquet", "feather"}:
        from pyarrow import feather, parquet

        records = (parquet.read_table if ending == "parquet" else feather.read_table)(path).to_pylist()
    elif ending == "json":
        records = json.loads(path.read_bytes().decode())
    elif ending == "jsonl":
        records = [json.loads(line) for line in path.read_bytes().decode().splitlines() if line.strip()]
    else:
        with path.open(newline="", encoding="utf-8") as file:
            rows = csv.DictReader(file, delimiter="," if ending == "csv" else "\t", strict=True)
            records = [{name: float(cell) for name, cell in row.items()} for row in rows]
    return arrays_of({name: np.array([row[name] for row in records]) for name in records[0]})


def damaged(content: bytes, rng: np.random.Generator) -> bytes:
    for _ in range(int(rng.integers(1, 4))):
        start = int(rng.integers(0, max(1, len(content))))
        stop = min(len(content), start + int(rng.integers(1, 6)))
        noise = rng.integers(0, 256, stop - start, dtype=np.uint8).tobytes()
        typed = bytes(rng.choice(list(b"0123456789.,;-e%\"'_ \nNa{}[]"), stop - start).tolist())
        content = (
            content[:start] + noise + content[stop:],
            content[:start] + typed + content[stop:],
            content[:start] + content[stop:],
            content[:stop] + content[start:],
            content[:start],
        )[int(rng.integers(0, 5))]
    return content


def verdict(path: Path, ending: str) -> tuple[str, str]:
    """Return ``same``, ``refused``, ``said``, ``wrong`` or ``fault``, and details of the last two."""
    from calibrant import InputError, load_predictions

    refused = False
    try:
        expected = strictly_read(path, ending)
    except Exception:  # whatever a library raises: the strict reader refuses
        refused, expected = True, {}
    try:
        found = load_predictions(path)
    except (InputError, OSError) as error:
        said = str(error)
        long = "\n" in said or len(said) > LONGEST_MESSAGE
        return ("fault", f"message of {len(said)} characters: {said[:200]!r}") if long else ("refused", "")
    except Exception as error:  # this is what the tool looks for
        return "fault", f"{type(error).__name__}: {error}"[:300]
    if found.notes:
        return "said", ""
    if refused:
        return (
            ("said", "")
            if ending in {"csv", "tsv", "jsonl", "json"}
            else ("wrong", "read, and it is damaged")
        )
    truth = np.asarray(expected["labels"], dtype=np.float64)
    same = np.array_equal(np.asarray(found.labels, dtype=np.float64), truth)
    near = found.probs.shape == expected["probs"].shape and np.allclose(
        found.probs.numpy(), expected["probs"], atol=2e-3
    )
    return ("same", "") if same and near else ("wrong", f"{found!r} in place of {truth[:5]}")


def fuzz(seeds: range, tell: Callable[[str], None]) -> Counter[str]:
    """Count the verdicts for these seeds, and report every fault."""
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in seeds:
            rng = np.random.default_rng(seed)
            ending = ENDINGS[seed % len(ENDINGS)]
            content = written(built(rng), ending)
            path = Path(folder) / f"{seed}.{ending}"
            path.write_bytes(damaged(content, rng) if rng.random() < 0.8 else content)
            outcome, said = verdict(path, ending)
            counts[outcome] += 1
            if outcome in {"wrong", "fault"}:
                tell(f"{outcome}: seed {seed}, {ending}: {said}")
            path.unlink()
    return counts


def main() -> int:
    """Print the counts; return 1 after a wrong read or an unexpected error."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--files", type=int, default=1000, help="How many files to build.")
    parser.add_argument("--seed", type=int, default=0, help="The first seed.")
    given = parser.parse_args()
    counts = fuzz(range(given.seed, given.seed + given.files), print)
    print(", ".join(f"{number} {name}" for name, number in counts.most_common()))
    return int(bool(counts["wrong"] + counts["fault"]))


if __name__ == "__main__":
    sys.exit(main())
