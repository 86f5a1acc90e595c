"""Chest X-rays: fourteen labels, and patients who are never in two splits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from calibrant._math.errors import InputError
from calibrant_lab import data

SAID = {
    "00000001_000.png": ("Cardiomegaly", "1"),
    "00000001_001.png": ("Cardiomegaly|Emphysema", "1"),
    "00000002_000.png": ("No Finding", "2"),
    "00000002_001.png": ("No Finding", "2"),
    "00000003_000.png": ("Hernia|Atelectasis", "3"),
    "00000003_001.png": ("Pneumothorax", "3"),
    "00000004_000.png": ("Pleural_Thickening", "4"),
    "00000004_001.png": ("Edema", "4"),
}


def chest(folder: Path, *, train: str = "123", test: str = "4") -> Path:
    """A folder in the form of ChestX-ray14 with images of 12 × 12 pixels."""
    lines = ["Image Index,Finding Labels,Follow-up #,Patient ID,Patient Age"]
    for number, (file, (findings, patient)) in enumerate(SAID.items()):
        lines.append(f"{file},{findings},0,{patient},60")
        place = folder / f"images_00{1 + number % 2}" / "images"
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((12, 12), 10 * number, np.uint8)).save(place / file)
    (folder / "Data_Entry_2017.csv").write_text("\n".join(lines) + "\n")
    for file, patients in (("train_val_list.txt", train), ("test_list.txt", test)):
        listed = [name for name, (_, patient) in SAID.items() if patient in patients]
        if patients:
            (folder / file).write_text("\n".join(listed) + "\n")
    return folder


def test_chestxray14(tmp_path) -> None:
    """Official lists are the splits; label j is finding j by name; images have the size that is wished."""
    chest(tmp_path / "chestxray14")
    raw = data.load("chestxray14", folder=tmp_path, geometry=data.Geometry(size=6))
    assert len(raw.class_names) == 14
    assert list(raw.class_names) == sorted(raw.class_names)
    assert raw.test is not None
    found = [[raw.class_names[j] for j in row.nonzero()[:, 0]] for row in raw.train.labels]
    assert found == [
        ["Cardiomegaly"], ["Cardiomegaly", "Emphysema"], [], [], ["Atelectasis", "Hernia"], ["Pneumothorax"],
    ]  # fmt: skip
    assert raw.test.rows(torch.tensor([0])).inputs.shape == (1, 1, 6, 6)
    assert int(raw.train.rows(torch.tensor([5])).inputs.max()) == 50


def test_patients_are_in_one_split(tmp_path) -> None:
    """Without lists splits are cut by patients, for every seed."""
    raw = data.load(str(chest(tmp_path, train="", test="")))
    assert raw.test is None
    for seed in range(8):
        parts = data.split(raw, test=2, calibration=2, seed=seed).parts.values()
        patients = [set(part.groups.tolist()) for part in parts]
        assert sum(map(len, patients)) == len(set().union(*patients)) == 4
        assert sum(len(part) for part in parts) == 8


def test_folders_that_do_not_fit_are_named(tmp_path) -> None:
    """A patient in both lists, a missing list, image or finding."""
    with pytest.raises(InputError, match=r"1 patients are in both"):
        data.load(str(chest(tmp_path / "a", train="123", test="34")))
    with pytest.raises(InputError, match=r"has no test_list.txt, so a split is missing"):
        data.load(str(chest(tmp_path / "b", test="")))
    next(chest(tmp_path / "c").rglob("00000002_000.png")).unlink()
    with pytest.raises(InputError, match=r"1 of the 6 images of train_val_list.txt are not in the folders"):
        data.load(str(tmp_path / "c"))
    table = chest(tmp_path / "d") / "Data_Entry_2017.csv"
    table.write_text(table.read_text().replace("Hernia", "Fracture"))
    with pytest.raises(InputError, match=r"line 6 must name .* got '00000003_000.png'"):
        data.load(str(tmp_path / "d"))


@pytest.mark.real_data
def test_the_three_classes_at_hand(data_folder) -> None:
    """1124 images of 806 patients (each COVID-19 image counts as one), none of whom is in two splits."""
    found = data.split(data.load("chest_xray_covid", folder=data_folder))
    patients = [set(part.groups.tolist()) for part in found.parts.values()]
    assert sum(len(part) for part in found.parts.values()) == 1124
    assert sum(map(len, patients)) == len(set().union(*patients)) == 806
