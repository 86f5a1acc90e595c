"""Options on a table that is read part by part: heeded, refused, or all samples are held in memory."""

import numpy as np
import pyarrow
import pytest
import typer
from pyarrow import parquet

from calibrant import InputError
from calibrant.cli.main import app
from calibrant.cli.opening import opened_alike, opened_large
from calibrant.cli.reading import Reading
from calibrant.evaluation.quantities import with_gate
from command_line import call

OF_NUMBERS = {
    *("positive_class", "bins", "bootstrap", "level", "seed", "metric", "method", "confidence", "strict"),
    *("calibration", "ood", "ood_score", "baseline", "baseline_metric", "every_row", "tolerance"),
    "thresholds",
}
"""What is asked of predictions, however they were read."""
OF_OUTPUT = {
    *("report", "title", "json", "junit", "markdown", "out", "names", "force", "quiet", "verbose", "engine"),
    *("jobs", "help", "version_wanted"),
}
OF_COLUMNS = {
    *("label_column", "prob_columns", "logit_columns", "weight_column", "group_column", "cluster", "bands")
}
READ_WHOLE = {"percent": True, "scale": "1:5", "kind": "binary", "annotations": "a.json"}
REFUSED = {"format": "csv", "lm_score": "acc_norm", "iou": 0.7, "score_columns": ("a",), "sheet": "a"}
OF_COMMANDS = {"labels", "images", "ignore_index", "by_group", "groups", "file", "files"}
"""Refused or heeded by the commands themselves, see below."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("options")
    rng = np.random.default_rng(0)
    prob = rng.random(120)
    given = {"prob": prob, "label": (rng.random(120) < prob).astype(int), "split": np.arange(120) % 2}
    given |= {"site": np.array(["a", "b", "c"])[np.arange(120) // 4 % 3]}
    (path / "t").mkdir()
    for name in "ab":
        parquet.write_table(pyarrow.table(given), path / "t" / f"{name}.parquet")
    return path


def test_every_option_is_known_to_be_heeded_or_not() -> None:
    """A new option of these commands must be added here: parts heed it, it is refused, or all is held."""
    known = OF_NUMBERS | OF_OUTPUT | OF_COLUMNS | {*READ_WHOLE} | {*REFUSED} | OF_COMMANDS
    commands = typer.main.get_command(app).commands
    for name in ("evaluate", "check", "compare", "fit"):
        limits = {*with_gate()} if name == "check" else set()
        assert {option.name for option in commands[name].params} <= known | limits


def test_no_option_of_reading_is_passed_over(folder, capsys) -> None:
    """What says how files are read is heeded by parts, refused, or all samples are held."""
    path = folder / "t"
    assert {*vars(Reading())} - OF_NUMBERS == OF_COLUMNS | {*READ_WHOLE} | {*REFUSED}
    for name, value in READ_WHOLE.items():
        assert opened_large(path, Reading(**{name: value}), engine="serial") is None
        assert f"note: with --{name}, all samples must be in memory" in " ".join(
            capsys.readouterr().err.split()
        )
    for name, value in REFUSED.items():
        with pytest.raises(InputError, match=f"--{name.replace('_', '-')}"):
            opened_large(path, Reading(**{name: value}), engine="serial")
    assert opened_large(path, Reading(format=".Parquet", cluster="site"), engine="serial").has_clusters
    for engine in ("serial", None):
        for given in ({"ignore_index": 1}, {"images": folder / "x.csv"}):
            with pytest.raises(InputError, match="--ignore-index and --images need segmentation logits"):
                opened_large(path, Reading(), engine=engine, **given)
        with pytest.raises(InputError, match="--ignore-index and --images need segmentation logits"):
            opened_alike([path, path], Reading(), engine=engine, ignore_index=1)


def test_groups_that_are_clusters_stay_groups(folder) -> None:
    """The column that holds both is one of groups, too, in parts as in memory."""
    reading = Reading(group_column=("site",), cluster="site")
    found = opened_large(folder / "t", reading, engine="serial")
    piece = next(found.pieces(found.parts[0]))
    held = reading.open(folder / "t" / "a.parquet")
    assert (found.has_groups, found.has_clusters) == (True, True)
    assert piece.groups == piece.clusters == held.groups == held.clusters
    with pytest.raises(InputError, match="--cluster group needs groups in"):
        opened_large(folder / "t", Reading(cluster="group"), engine="serial")


def test_groups_of_parts_are_checked(folder) -> None:
    for engine in ((), ("--engine", "serial")):
        done = call("check", "t", "--max-ece", "0.5", "--group-column", "site", *engine, folder=folder)
        assert [f"Group {name}: " in done.stdout for name in "abc"] == [True] * 3, done.stderr


def test_fit_chooses_its_method_by_the_sample(folder) -> None:
    """Without --method the same table is printed as in memory, and temperatures are fitted to all rows."""
    rng = np.random.default_rng(1)
    odds = 2 * rng.normal(size=600)
    given = {"logit": 3 * odds, "label": (odds + rng.logistic(size=600) > 0).astype(int)}
    parquet.write_table(pyarrow.table(given), folder / "c.parquet")
    mine, theirs = (
        call("fit", "c.parquet", "--all", "-o", "o.safetensors", "--force", *engine, folder=folder).stdout
        for engine in (("--engine", "serial"), ())
    )
    assert "cross-validated log loss" in theirs
    assert mine.partition("Choice:")[0] == theirs.partition("Choice:")[0]
    assert "temperature, fitted on 600 samples" in mine
    assert "pass over the table" in mine
