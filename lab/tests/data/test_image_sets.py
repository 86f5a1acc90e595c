"""Sets of images in the forms in which their authors publish them: read as what they are, or refused."""

import gzip
import io
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from PIL import Image
from scipy.io import savemat

from calibrant_lab import data
from calibrant_lab.data.images.cifar import read_pickle
from refusals import not_loaded, refused
from set_files import idx, tar, unpack

Files = dict[str, bytes]
EVERY = torch.arange


@pytest.fixture
def batch(rng) -> Callable[[int], tuple[np.ndarray, np.ndarray]]:
    """Rows of pixels, and labels 0 to 9 (or more) in turn."""
    return lambda count: (rng.integers(0, 256, (count, 3072), dtype=np.uint8), np.arange(count) % 10)


class Python2Pickler(pickle._Pickler):  # pyright: ignore
    """Writes what Python 2 wrote, in which the archives are: text and bytes are one."""

    dispatch: ClassVar[Any] = dict(pickle._Pickler.dispatch)  # pyright: ignore

    def save_text(self, text: str | bytes) -> None:
        content = text if isinstance(text, bytes) else text.encode("latin1")
        self.write(b"T" + len(content).to_bytes(4, "little") + content)
        self.memoize(text)

    dispatch[str] = dispatch[bytes] = save_text


def dumped(content: dict[bytes, Any]) -> bytes:
    """A pickle as in the published archives."""
    file = io.BytesIO()
    Python2Pickler(file, protocol=2).dump(content)
    return file.getvalue().replace(b"numpy._core.multiarray", b"numpy.core.multiarray")


def python_cifar10(batch: Any) -> tuple[Files, dict[str, tuple[np.ndarray, np.ndarray]]]:
    """Five training batches of two images and a test batch of three, as in the published pickles."""
    told = {f"data_batch_{n}": batch(2) for n in range(1, 6)} | {"test_batch": batch(3)}
    files = {
        f"cifar-10-batches-py/{name}": dumped(
            {b"data": pixels, b"labels": labels.tolist(), b"batch_label": b"", b"filenames": []}
        )
        for name, (pixels, labels) in told.items()
    }
    meta = {b"label_names": [f"kind{n}".encode() for n in range(10)]}
    return files | {"cifar-10-batches-py/batches.meta": dumped(meta)}, told


def test_cifar10_is_the_same_in_all_its_forms(tmp_path, batch) -> None:
    """Archived or unpacked, by name or by path: the same pixels, labels and classes."""
    files, told = python_cifar10(batch)
    tar(tmp_path / "a" / "cifar10" / "cifar-10-python.tar.gz", files)
    unpack(tmp_path / "b" / "cifar10", files)
    forms = [
        data.load("cifar10", folder=tmp_path / "a"),
        data.load("cifar10", folder=tmp_path / "b"),
        data.load(str(tar(tmp_path / "x.tar.gz", files))),
        data.load(str(unpack(tmp_path / "c", files) / "cifar-10-batches-py")),
    ]
    pixels = np.concatenate([told[f"data_batch_{n}"][0] for n in range(1, 6)])
    for raw in forms:
        assert raw.name == "cifar10"
        assert raw.class_names == tuple(f"kind{n}" for n in range(10))
        np.testing.assert_array_equal(raw.train.inputs[EVERY(10)].numpy(), pixels.reshape(10, 3, 32, 32))
        assert raw.train.labels.tolist() == [0, 1] * 5
        assert raw.test.labels.tolist() == [0, 1, 2]


def test_cifar100_has_its_fine_labels(tmp_path, batch) -> None:
    (pixels, fine), coarse = batch(4), [7, 7, 8, 8]
    one = dumped({b"data": pixels, b"fine_labels": fine.tolist(), b"coarse_labels": coarse})
    meta = {b"fine_label_names": [b"a", b"b", b"c", b"d"], b"coarse_label_names": [b"x"]}
    files = {"train": one, "test": one, "meta": dumped(meta)}
    raw = data.load("cifar100", folder=unpack(tmp_path / "cifar100", files).parent)
    assert raw.train.labels.tolist() == [0, 1, 2, 3]
    assert raw.class_names == ("a", "b", "c", "d")
    np.testing.assert_array_equal(raw.train.inputs[EVERY(4)].flatten(1).numpy(), pixels)


class Evil:
    """A pickle that would run a command."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (open, ("trace-of-the-pickle", "w"))


def test_pickles_run_nothing(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    words = r"it names \w+\.open, which a batch of images does not need"
    refused(words, read_pickle, pickle.dumps({b"data": Evil()}), source="x")
    full = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(I99999\ntS'b'\ntR."
    refused("does not begin empty", read_pickle, full, source="x")
    refused("it holds a list", read_pickle, pickle.dumps([1]), source="x")
    assert not list(tmp_path.iterdir())


def test_bad_archives_get_one_sentence_and_leave_nothing(tmp_path, batch) -> None:
    """Truncated, with paths that lead out, with links, without a split: refused, and no file is written."""
    files, _ = python_cifar10(batch)
    good = tar(tmp_path / "good.tar.gz", files)
    cut, tricks, link, lacking = (tmp_path / f"{n}.tar.gz" for n in ("cut", "tricks", "link", "lacking"))
    cut.write_bytes(good.read_bytes()[: good.stat().st_size // 2])
    tar(tricks, files | {"../../outside": b"x"})
    tar(link, {"cifar-10-batches-py/data_batch_1": None})
    tar(lacking, {name: content for name, content in files.items() if "test_batch" not in name})
    (tmp_path / "noise.tar.gz").write_bytes(b"noise")
    for path, words in (
        (cut, "damaged or cut off"),
        (tmp_path / "noise.tar.gz", "damaged or cut off"),
        (tricks, "'../../outside' in it leads out"),
        (link, "is a link or a device"),
        (lacking, "has no test_batch"),
    ):
        not_loaded(words, path)
    with zipfile.ZipFile(tmp_path / "z.zip", "w") as archive:
        archive.writestr("/etc/x", "x")
    not_loaded("leads out", tmp_path / "z.zip")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({b"data": np.zeros((2, 7), np.uint8)}, "rows of 3072 bytes"),
        ({b"labels": [0]}, "one whole number per image"),
        ({b"labels": [0, -1]}, "must be in 0 … 9; the train split has -1"),
        ({b"labels": [0, 10]}, "must be in 0 … 9; the train split has 0 … 10"),
    ],
)
def test_batches_that_do_not_fit_are_named(tmp_path, batch, change, words) -> None:
    files, _ = python_cifar10(batch)
    content = read_pickle(files["cifar-10-batches-py/data_batch_2"], source="x")
    files["cifar-10-batches-py/data_batch_2"] = dumped(content | change)
    not_loaded(words, unpack(tmp_path, files))


def test_svhn(tmp_path, rng) -> None:
    """The label 10 is the digit 0; ``extra=True`` adds the third file to the training samples."""
    place = tmp_path / "svhn"
    place.mkdir()
    shown = {}
    for split, count in (("train", 4), ("test", 3), ("extra", 2)):
        shown[split] = rng.integers(0, 256, (32, 32, 3, count), dtype=np.uint8)
        labels = np.array([[10], [1], [9], [10]][:count], dtype=np.uint8)
        savemat(place / f"{split}_32x32.mat", {"X": shown[split], "y": labels})
    raw = data.load("svhn", folder=tmp_path)
    assert raw.train.labels.tolist() == [0, 1, 9, 0]
    np.testing.assert_array_equal(
        raw.train.inputs[EVERY(4)][2].numpy(), shown["train"][..., 2].transpose(2, 0, 1)
    )
    assert len(data.load("svhn(extra=True)", folder=tmp_path).train.labels) == 6
    assert data.load(str(place)).class_names == tuple("0123456789")
    (place / "test_32x32.mat").write_bytes((place / "test_32x32.mat").read_bytes()[:200])
    not_loaded(r"test_32x32.mat is damaged or cut off", "svhn", tmp_path)
    (place / "test_32x32.mat").unlink()
    not_loaded(r"has no test_32x32.mat, so a split of SVHN is missing", "svhn", tmp_path)
    for labels, words in (
        ([[1], [2], [11]], "must be in 1 … 10"),
        ([[1.5], [2], [3]], "y must hold one whole number per sample"),
        ([[np.nan], [2], [3]], "y must hold one whole number per sample"),
        (["a", "b", "c"], "y must hold one whole number per sample"),
    ):
        savemat(place / "test_32x32.mat", {"X": shown["test"], "y": np.array(labels)})
        not_loaded(words, "svhn", tmp_path)


def jpeg(value: int) -> bytes:
    file = io.BytesIO()
    Image.fromarray(np.full((8, 8), value, np.uint8)).save(file, "JPEG")
    return file.getvalue()


def tiny_imagenet() -> Files:
    """Two classes; two training images of each, three validation images."""
    files = {f"train/{wnid}/images/{wnid}_{n}.JPEG": jpeg(50 * n) for wnid in ("n02", "n01") for n in (1, 2)}
    files |= {f"val/images/val_{n}.JPEG": jpeg(200) for n in range(3)}
    labels = "val_0.JPEG\tn02\t0\t0\t9\t9\nval_1.JPEG\tn01\t0\t0\t9\t9\nval_2.JPEG\tn02\t0\t0\t9\t9\n"
    files |= {"val/val_annotations.txt": labels.encode(), "wnids.txt": b"n02\nn01\n"}
    files |= {"words.txt": b"n01\tgoldfish, Carassius auratus\nn02\tbullfrog\nn03\tcrane\n"}
    return {f"tiny-imagenet-200/{name}": content for name, content in files.items()}


def test_tiny_imagenet(tmp_path) -> None:
    """Zipped or unpacked: classes by their first names in the order of wnids, validation as test split."""
    place = unpack(tmp_path / "f" / "tiny_imagenet", tiny_imagenet()).parent
    with zipfile.ZipFile(tmp_path / "tiny-imagenet-200.zip", "w") as archive:
        for name, content in tiny_imagenet().items():
            archive.writestr(name, content)
    for raw in (data.load("tiny_imagenet", folder=place), data.load(str(tmp_path / "tiny-imagenet-200.zip"))):
        assert raw.class_names == ("goldfish", "bullfrog")
        assert raw.test.labels.tolist() == [1, 0, 1]
        found = data.split(raw, calibration=2)
        assert found.input_shape == (3, 8, 8)
        whole = torch.cat([found.train.inputs, found.calibration.inputs])
        assert whole[:, 0, 0, 0].sort().values.tolist() == pytest.approx([50, 50, 100, 100], abs=2)
    lacking = tiny_imagenet()
    del lacking["tiny-imagenet-200/val/val_annotations.txt"]
    words = "has no val_annotations.txt, which should hold the labels of the validation images"
    not_loaded(words, unpack(tmp_path / "g", lacking))


@pytest.mark.parametrize("zipped", [True, False])
def test_idx_files(tmp_path, rng, zipped) -> None:
    """MNIST and its like, gzipped or not; a cut file and a missing one are told."""
    pixels = rng.integers(0, 256, (5, 4, 3), dtype=np.uint8)
    labels = np.array([3, 1, 4, 1, 5], np.uint8)
    place, pack, end = tmp_path / "mnist", gzip.compress if zipped else bytes, ".gz" if zipped else ""
    place.mkdir()
    for word in ("train", "t10k"):
        (place / f"{word}-images-idx3-ubyte{end}").write_bytes(pack(idx(pixels)))
        (place / f"{word}-labels-idx1-ubyte{end}").write_bytes(pack(idx(labels)))
    raw = data.load("mnist", folder=tmp_path)
    np.testing.assert_array_equal(raw.train.inputs[EVERY(5)][:, 0].numpy(), pixels)
    assert raw.train.labels.tolist() == labels.tolist()
    assert data.load(str(place)).name == "mnist"
    (place / f"t10k-images-idx3-ubyte{end}").write_bytes(pack(idx(pixels)[:-1]))
    not_loaded(r"cut off \(it says \[5, 4, 3\] and holds 59 values\)", "mnist", tmp_path)
    (place / f"t10k-images-idx3-ubyte{end}").write_bytes(pack(idx(pixels))[:-9])
    not_loaded("damaged or cut off", "mnist", tmp_path)
    (place / f"t10k-labels-idx1-ubyte{end}").write_bytes(pack(idx(pixels)))
    (place / f"t10k-images-idx3-ubyte{end}").write_bytes(pack(idx(pixels)))
    not_loaded("idx file of bytes with 1 dimensions", "mnist", tmp_path)


def npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def test_corrupted_cifar(tmp_path, rng) -> None:
    """A severity is its fifth of the file, from the archive as from the folder."""
    images = rng.integers(0, 256, (20, 32, 32, 3), dtype=np.uint8)
    files = {"CIFAR-10-C/fog.npy": npy(images), "CIFAR-10-C/labels.npy": npy(np.arange(20) % 4)}
    tar(tmp_path / "t" / "cifar10-c" / "CIFAR-10-C.tar", files)
    unpack(tmp_path / "f" / "cifar10-c", files)
    for folder in ("t", "f"):
        raw = data.load('cifar10-c(corruption="fog", severity=3)', folder=tmp_path / folder)
        np.testing.assert_array_equal(raw.train.inputs[EVERY(4)].numpy(), images[8:12].transpose(0, 3, 1, 2))
        assert raw.train.labels.tolist() == [0, 1, 2, 3]
        assert raw.class_names[0] == "airplane"
        not_loaded(
            r"has no zoom_blur.npy", 'cifar10-c(corruption="zoom-blur", severity=3)', tmp_path / folder
        )
    not_loaded(
        "`severity` must be 1, 2, 3, 4 or 5; got 6", 'cifar10-c(corruption="fog", severity=6)', tmp_path / "f"
    )
    not_loaded("needs a corruption and a severity", "cifar10-c", tmp_path / "f")
    path = tmp_path / "f" / "cifar10-c" / "CIFAR-10-C" / "fog.npy"
    path.write_bytes(path.read_bytes()[:-1])
    not_loaded("damaged or cut off", 'cifar10-c(corruption="fog", severity=5)', tmp_path / "f")


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
    raw = data.load(str(chest(tmp_path, train="", test="")))
    assert raw.test is None
    for seed in range(8):
        parts = data.split(raw, test=2, calibration=2, seed=seed).parts.values()
        patients = [set(part.groups.tolist()) for part in parts]
        assert sum(map(len, patients)) == len(set().union(*patients)) == 4
        assert sum(len(part) for part in parts) == 8


def test_folders_that_do_not_fit_are_named(tmp_path) -> None:
    not_loaded(r"1 patients are in both", chest(tmp_path / "a", train="123", test="34"))
    not_loaded(r"has no test_list.txt, so a split is missing", chest(tmp_path / "b", test=""))
    next(chest(tmp_path / "c").rglob("00000002_000.png")).unlink()
    not_loaded(r"1 of the 6 images of train_val_list.txt are not in the folders", tmp_path / "c")
    table = chest(tmp_path / "d") / "Data_Entry_2017.csv"
    table.write_text(table.read_text().replace("Hernia", "Fracture"))
    not_loaded(r"line 6 must name .* got '00000003_000.png'", tmp_path / "d")


@pytest.mark.real_data
def test_the_three_classes_at_hand(data_folder) -> None:
    """1124 images of 806 patients (each COVID-19 image counts as one), none of whom is in two splits."""
    found = data.split(data.load("chest_xray_covid", folder=data_folder))
    patients = [set(part.groups.tolist()) for part in found.parts.values()]
    assert sum(len(part) for part in found.parts.values()) == 1124
    assert sum(map(len, patients)) == len(set().union(*patients)) == 806
