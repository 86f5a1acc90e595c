"""Bands of numbers as groups."""

import numpy as np
import pytest

from calibrant import InputError
from calibrant.predictions import ColumnNames, Predictions, bands_of, load_predictions
from calibrant.predictions.formats.aliases import canonical
from calibrant.predictions.top_k import by_frequency
from command_line import call

PROBS = np.tile([[0.7, 0.2, 0.1], [0.2, 0.7, 0.1], [0.3, 0.3, 0.4]], (20, 1))
LABELS = np.arange(60) % 3


def test_bands_hold_neighbours_and_about_as_many() -> None:
    """Equal numbers stay together; eight bands of a thousand different numbers hold 125 each."""
    numbers = np.random.default_rng(0).permutation(1000)
    found = bands_of(numbers)
    assert sorted({found.count(each) for each in set(found)}) == [125]
    assert {found[k] for k in np.flatnonzero(numbers < 125)} == {"0–124"}
    assert len(set(bands_of([1, 1, 1, 5]))) == 2
    assert bands_of([0.5, 0.5], most=3) == ["0.5", "0.5"]
    assert bands_of([-1, 0.25, 9], starts=(0, 0.5)) == ["<0", "0–<0.5", "0.5+"]


def test_names_have_the_digits_that_tell_them_apart() -> None:
    """Bands of numbers that agree in four digits stay eight, and those that begin where one says."""
    assert len(set(bands_of(np.linspace(1000.1, 1000.9, 80)))) == 8
    assert bands_of([1000.15, 1000.25], starts=(1000.1, 1000.2)) == ["1000.1–<1000.2", "1000.2+"]


def test_bands_begin_at_rising_numbers() -> None:
    with pytest.raises(InputError, match="must begin at rising numbers"):
        canonical(["label", "prob", "place"], ColumnNames(bands=("place:5:1",)))


def test_frequency_is_that_of_predictions() -> None:
    """Not of labels, which would sort right and wrong apart; groups that are there are kept."""
    probs = np.eye(3)[[0, 0, 0, 1, 1, 2]] * 0.7 + 0.1
    for labels in ([0] * 6, [2] * 6):
        found = by_frequency(Predictions(probs=probs, labels=labels, groups=[*"aabbcc"]))
        assert [each.split("=")[1] for each in found.groups] == [*"333221"]
        assert found.groups[0] == "a; frequency=3"


def test_command_line(tmp_path) -> None:
    """``--bands`` makes groups of a column, of several, and of frequencies; they come in order."""
    lines = ["label,prob_0,prob_1,prob_2,position"]
    lines += [f"{LABELS[i]},{','.join(map(str, PROBS[i]))},{i}" for i in range(60)] * 12  # enough of each
    (tmp_path / "t.csv").write_text("\n".join(lines))
    found = load_predictions(tmp_path / "t.csv", columns=ColumnNames(bands=("position:0:9:30",)))
    assert sorted(set(found.groups or ())) == ["position=0–8", "position=30+", "position=9–29"]
    options = ("--bands", "position:0:9:30,predicted-frequency", "--bootstrap", "20", "--json", "out.json")
    done = call("evaluate", "t.csv", *options, "--method", "temperature", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "out.json").read_text()
    places = [text.index(f'"position={each}; frequency=') for each in ("0–8", "9–29", "30+")]
    assert places == sorted(places)
    vague = call(
        "fit", "t.csv", "--all", "--by-group", "--method", "temperature", "--bands", "position", "-o",
        "c.safetensors", folder=tmp_path,
    )  # fmt: skip
    assert vague.returncode == 2
    assert "must give the starts of bands" in vague.stderr
