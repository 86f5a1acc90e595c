"""Chest X-rays by patient: ChestX-ray14 (NIH), and a set of three classes."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import torch

from calibrant._math.errors import InputError
from calibrant._math.files import reason
from calibrant_lab.data.files import read_arrays, table_rows, whole_numbers
from calibrant_lab.data.images.encoded import ImageFiles
from calibrant_lab.data.table import Part, RawData

__all__ = ["FINDINGS", "read_chest_xray_covid", "read_chestxray14"]

_FINDINGS = """
Atelectasis Cardiomegaly Consolidation Edema Effusion Emphysema Fibrosis Hernia Infiltration Mass Nodule
Pleural_Thickening Pneumonia Pneumothorax
"""
FINDINGS = tuple(_FINDINGS.split())
"""The fourteen findings; label j of an image is 1 where finding j was reported."""

_LISTS = ("train_val_list.txt", "test_list.txt")


def read_chestxray14(path: Path, *, name: str = "chestxray14") -> RawData:
    """Read a folder with ``Data_Entry_2017*.csv``, images (``images/``, ``images_001/images/`` …) and lists.

    The official ``train_val_list.txt`` and ``test_list.txt`` define the splits; without them, all images are
    for training, and splits are by patients. Images are grey, and decoded when selected.
    """
    findings, patients = _table(path)
    files = {file.name: file for pattern in ("images*/*.png", "images*/images/*.png", "*.png")
             for file in sorted(path.glob(pattern))}  # fmt: skip
    lists = {file: path / file for file in _LISTS if (path / file).is_file()}
    if len(lists) == 1:
        missing = next(file for file in _LISTS if file not in lists)
        raise InputError(
            f"{path} has no {missing}, so a split is missing; with neither list, splits are cut."
        )
    listed = {file: _listed(place) for file, place in lists.items()} or {_LISTS[0]: list(findings)}
    numbers = {patient: number for number, patient in enumerate(sorted(set(patients.values())))}
    parts: list[Part] = []
    for file, names in listed.items():
        for what, known in (("in the table", findings), ("in the folders of images", files)):
            unknown = [each for each in names if each not in known]
            if unknown:
                raise InputError(
                    f"{path}: {len(unknown)} of the {len(names)} images of {file} are not {what}, "
                    f"such as {unknown[0]}."
                )
        parts.append(
            Part(
                inputs=ImageFiles([files[each] for each in names], mode="L"),
                labels=torch.tensor([[int(each in findings[file]) for each in FINDINGS] for file in names]),
                groups=torch.tensor([numbers[patients[each]] for each in names]),
            )
        )
    seen = [{patients[each] for each in names} for names in listed.values()]
    if len(seen) == 2 and (common := seen[0] & seen[1]):
        raise InputError(
            f"{path}: {len(common)} patients are in both {_LISTS[0]} and {_LISTS[1]}; "
            "the lists must be patient-wise."
        )
    return RawData(
        name=name, train=parts[0], test=parts[1] if len(parts) == 2 else None, class_names=FINDINGS
    )


def _listed(place: Path) -> list[str]:
    try:
        names = place.read_text(encoding="utf-8").split()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{place} is not a list of images ({reason(error)}); get it again.") from error
    if not names:
        raise InputError(f"{place} is empty; get it again.")
    return names


def _table(path: Path) -> tuple[dict[str, frozenset[str]], dict[str, str]]:
    tables = sorted(path.glob("Data_Entry_2017*.csv"))
    if not tables:
        raise InputError(f"{path} has no Data_Entry_2017.csv, so the labels are missing.")
    findings: dict[str, frozenset[str]] = {}
    patients: dict[str, str] = {}
    columns = ("Image Index", "Finding Labels", "Patient ID")
    for row in table_rows(tables[0], columns):
        file, said, patient = (row[column] for column in columns)
        found = frozenset((said or "").split("|")) - {"No Finding"}
        if not file or not patient or not found <= set(FINDINGS):
            raise InputError(
                f"{tables[0]}: line {2 + len(findings)} must name an image, a patient and findings such "
                f"as {FINDINGS[0]}|{FINDINGS[1]}; got {file!r}, {patient!r}, {said!r}."
            )
        if file in findings:
            raise InputError(f"{tables[0]} must name each image once; {file} is in it again.")
        findings[file], patients[file] = found, patient
    if not findings:
        raise InputError(f"{tables[0]} holds no images; get it again.")
    return findings, patients


def read_chest_xray_covid(path: Path, *, name: str = "chest_xray_covid") -> RawData:
    """Read ``chest_xray_224.npz``: images ``x``, labels ``y``, ``classes``, and ``name`` (of the files).

    All images are for training, and splits are by patients, since the file's own ``split`` puts some patients
    in two parts. The patients of the COVID-19 images are unknown; each image counts as one.
    """
    arrays = read_arrays(path)
    missing = [key for key in ("x", "y", "classes", "name") if key not in arrays]
    if missing:
        raise InputError(f"{path.name} has no {missing[0]!r}; it holds {', '.join(arrays)}.")
    if arrays["x"].dtype != np.uint8 or arrays["x"].ndim != 3:
        raise InputError(
            f"{path.name}: 'x' must hold grey images of bytes (N, H, W); "
            f"got shape {arrays['x'].shape} of {arrays['x'].dtype}."
        )
    # The patient of 00001280_004.png, or the file if its name has none.
    patients = [
        re.sub(r"^(\d{8})_\d{3}\.png.*", r"\1", str(each), flags=re.DOTALL)
        for each in arrays["name"].tolist()
    ]
    part = Part(
        inputs=torch.from_numpy(arrays["x"])[:, None],
        labels=torch.from_numpy(whole_numbers(arrays["y"], what=f"{path.name}: 'y'")),
        groups=torch.from_numpy(np.unique(patients, return_inverse=True)[1].astype(np.int64)),
    )
    return RawData(
        name=name,
        train=part,
        class_names=tuple(str(each) for each in np.atleast_1d(arrays["classes"]).tolist()),
    )
