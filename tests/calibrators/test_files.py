"""Calibrators as files: what is refused, in one sentence, and that nothing is half-written."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import calibrant
from calibrant import InputError, NotFittedError, load_calibrator
from calibrant.calibrators import FocalTemperatureScaling, PlattScaling, TemperatureScaling
from calibrant.calibrators.file_format import FORMAT_VERSION, file_bytes

KEY = "calibrant.calibrator"


@pytest.fixture
def saved(calibrated: Callable[..., Any], tmp_path: Path) -> Path:
    path = tmp_path / "fitted.safetensors"
    FocalTemperatureScaling().fit(*calibrated("multiclass", 200)).save(path)
    return path


def rewrite(path: Path, change: Callable[[dict[str, Any], dict[str, torch.Tensor]], None]) -> None:
    """Change the header or the parameters of a file."""
    with safe_open(path, framework="pt") as file:
        header = json.loads(file.metadata()[KEY])
    header.pop("calibrant.sha256")
    tensors = load_file(path)
    change(header, tensors)
    path.write_bytes(file_bytes(KEY, header, tensors))


def test_header_tells_what_is_needed(saved: Path) -> None:
    """The header is JSON with the format, the settings, the classes, the fit and the data's hash."""
    with safe_open(saved, framework="pt") as file:
        header = json.loads(file.metadata()[KEY])
    assert header["format_version"] == FORMAT_VERSION
    assert header["calibrant_version"] == calibrant.__version__
    assert header["name"] == "focal-temperature"
    assert header["settings"] == {"objective": "nll", "search": "full", "selection": "none"}
    assert (header["kind"], header["num_classes"], header["class_names"]) == ("multiclass", 4, None)
    assert len(header["fit"]["data_sha256"]) == 64
    assert header["fit"]["num_samples"] == 200


def test_hash_is_of_the_data(calibrated: Callable[..., Any]) -> None:
    scores, labels = calibrated("binary", 50)
    changed = scores.clone()
    changed[3] += 1e-12
    flipped = labels.clone()
    flipped[0] = 1 - flipped[0]
    fits = [
        PlattScaling().fit(scores, labels),
        PlattScaling().fit(changed, labels),
        PlattScaling().fit(scores, flipped),
        PlattScaling().fit(scores, labels, weights=torch.ones(50)),
        PlattScaling().fit(scores.float(), labels),
    ]
    assert len({fit.fit_result_.data_sha256 for fit in fits}) == len(fits)
    again = TemperatureScaling().fit(scores.numpy(), labels.to(torch.int8)).fit_result_
    assert again.data_sha256 == fits[0].fit_result_.data_sha256


def test_what_cannot_be_saved_or_loaded_is_said(saved: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"must end in \.safetensors; got .*calibrator\.pt"):
        load_calibrator(saved).save(tmp_path / "calibrator.pt")
    with pytest.raises(NotFittedError, match="call fit"):
        TemperatureScaling().save(tmp_path / "unfitted.safetensors")
    assert list(tmp_path.iterdir()) == [saved]
    with pytest.raises(FileNotFoundError, match=r"none\.safetensors: no such file"):
        load_calibrator(tmp_path / "none.safetensors")


def test_failed_write_leaves_the_old_file(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, calibrator = saved.read_bytes(), load_calibrator(saved)

    def fail(*_: Any, **__: Any) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("safetensors.torch.save", fail)
    with pytest.raises(OSError, match="disk full"):
        calibrator.save(saved)
    assert saved.read_bytes() == before
    assert list(saved.parent.iterdir()) == [saved]


def test_foreign_and_cut_files_are_refused(saved: Path) -> None:
    """A model's weights, and what is no whole safetensors file, are named as such."""
    whole = saved.read_bytes()
    for content in (b"PK\x03\x04 not what it says", *(whole[:keep] for keep in (0, 5, 100, -1))):
        saved.write_bytes(content)
        with pytest.raises(InputError, match="not a safetensors file, or is damaged"):
            load_calibrator(saved)
    save_file({"weight": torch.zeros(2)}, saved)
    with pytest.raises(InputError, match="not a calibrator that calibrant saved"):
        load_calibrator(saved)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda header, _: header.clear() or header.update(format_version=99, calibrant_version="7.1"),
            r"written by calibrant 7\.1; upgrade calibrant",
        ),
        (lambda header, _: header.update(name="oracle"), "a calibrator 'oracle', which this calibrant does"),
        (lambda header, _: header.pop("kind"), "does not have the form"),
        (lambda header, _: header.update(num_classes="many"), "does not have the form"),
        (lambda header, _: header.update(num_classes="4"), "does not have the form"),
        (lambda header, _: header.update(class_names=["a"]), "1 names for 4 classes"),
        (lambda header, _: header.update(format_version="1"), "its format has the version '1'"),
        (lambda header, _: header.update(format_version=-1), "its format has the version -1"),
        (lambda header, _: header.update(format_version=True), "its format has the version True"),
        (lambda header, _: header.update(settings={"objective": "guess"}), "no settings"),
        (lambda header, _: header.update(settings={"colour": "red"}), "no settings"),
        (lambda header, _: header.update(name="platt", settings={}), "`slope` is missing"),
        (lambda header, _: header.update(kind="multilabel"), "another shape"),
        (lambda _, tensors: tensors.pop("gamma"), "`gamma` is missing"),
        (lambda _, tensors: tensors.update(gamma=torch.tensor(-2.0).double()), "`gamma` lies outside"),
        (lambda _, tensors: tensors.update(temperature=torch.tensor(torch.nan).double()), "lies outside"),
        (lambda _, tensors: tensors.update(temperature=torch.tensor(1.0)), "is missing"),
    ],
)
def test_damaged_files_are_refused(saved: Path, change: Callable[..., None], message: str) -> None:
    rewrite(saved, change)
    with pytest.raises(InputError, match=message):
        load_calibrator(saved)


def test_no_flipped_bit_goes_unnoticed(saved: Path) -> None:
    whole, before = saved.read_bytes(), load_calibrator(saved)
    for place in range(8, len(whole), 7):
        saved.write_bytes(whole[:place] + bytes([whole[place] ^ (1 << place % 8)]) + whole[place + 1 :])
        try:
            after = load_calibrator(saved)
        except InputError:
            continue
        assert after.header() == before.header(), place
        assert all(map(torch.equal, after.buffers(), before.buffers())), place


def test_header_that_is_no_object_is_refused(saved: Path) -> None:
    for text in ("[1, 2]", "null", "{", '"text"'):
        save_file(load_file(saved), saved, metadata={KEY: text})
        with pytest.raises(InputError, match="does not have the form"):
            load_calibrator(saved)


def test_platt_file_for_classes_is_refused(calibrated: Callable[..., Any], tmp_path: Path) -> None:
    path = tmp_path / "platt.safetensors"
    PlattScaling().fit(*calibrated("binary", 100)).save(path)
    rewrite(path, lambda header, _: header.update(kind="multiclass"))
    with pytest.raises(InputError, match="platt is not for multiclass predictions"):
        load_calibrator(path)
