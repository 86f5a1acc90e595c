"""The same columns as a file of any format, or as a frame, read."""

import csv
import gzip
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
import torch

from calibrant.predictions import ColumnNames, Predictions, load_predictions, predictions_from_frame
from calibrant.predictions.partitioned import PartitionedPredictions

Rows = list[dict[str, Any]]


def given_as(folder: Path, ending: str, table: Rows | dict[str, Any], **options: Any) -> Predictions:
    """Rows, or columns by name, as a file of a format, or as a frame, read."""
    columns = table if isinstance(table, dict) else {name: [row[name] for row in table] for name in table[0]}
    if ending in {"pandas", "polars"}:
        return predictions_from_frame(pytest.importorskip(ending).DataFrame(columns), **options)
    path = folder / f"p.{'json' if ending.startswith('json of') else ending}"
    _write(path, ending, columns)
    return load_predictions(path, **options)


def as_parts(
    path: Path, columns: dict[str, Any], *, named: ColumnNames | None = None, **how: Any
) -> PartitionedPredictions:
    """Columns as a Parquet file, opened to be read part by part."""
    from pyarrow import parquet

    path.parent.mkdir(exist_ok=True)
    parquet.write_table(pyarrow.table(columns), path, **how)
    return PartitionedPredictions(path, columns=named)


def _write(path: Path, ending: str, columns: dict[str, Any]) -> None:
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    if ending in {"csv", "tsv", "csv.gz"}:
        text = io.StringIO(newline="")
        writer = csv.writer(text, delimiter="\t" if ending == "tsv" else ",")
        writer.writerows([columns, *(row.values() for row in rows)])
        content = text.getvalue().encode()
        path.write_bytes(gzip.compress(content) if ending == "csv.gz" else content)
    elif ending in {"parquet", "feather"}:
        from pyarrow import feather, parquet

        write = parquet.write_table if ending == "parquet" else feather.write_feather
        write(pyarrow.table({name: list(values) for name, values in columns.items()}), path)
    elif ending == "npy":  # a folder of arrays
        path.mkdir()
        for name, values in columns.items():
            np.save(path / f"{name}.npy", np.array(values))
    elif ending == "npz":
        np.savez(path, **{name: np.array(values) for name, values in columns.items()})
    elif ending == "pt":
        torch.save({name: torch.tensor(values) for name, values in columns.items()}, path)
    elif ending == "safetensors":
        from safetensors.torch import save_file

        save_file({name: torch.tensor(values) for name, values in columns.items()}, path)
    elif ending == "jsonl":
        path.write_text("\n".join(map(json.dumps, rows)))
    elif ending == "json of pandas":
        path.write_text(json.dumps({name: dict(enumerate(values)) for name, values in columns.items()}))
    else:
        path.write_text(json.dumps(rows if ending == "json" else columns))
