"""Data that are not what they should be: one sentence each, and nothing is left behind."""

import gzip
import io
import pickle
import zipfile

import numpy as np
import pytest
from PIL import Image

from calibrant_lab import data
from calibrant_lab.data.text.sets import read_vectors
from refusals import not_loaded, refused
from set_files import tar, unpack

IMAGES = np.zeros((6, 4, 4), np.uint8)
LABELS = np.array([0, 1] * 3)


def picture(side: int = 4) -> bytes:
    file = io.BytesIO()
    Image.fromarray(np.zeros((side, side), np.uint8)).save(file, "PNG")
    return file.getvalue()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"x_train": IMAGES[:0], "y_train": LABELS[:0]}, "a label for each sample; got none"),
        ({"x_test": IMAGES[:0], "y_test": LABELS[:0]}, "a label for each sample; got none"),
        ({"x_test": IMAGES[:, :3], "y_test": LABELS}, r"of one shape, .* \(1, 4, 4\); got \(1, 3, 4\)"),
        ({"x_train": IMAGES[:, :0]}, "must hold values"),
        ({"y_train": LABELS + 10**9}, "the highest is 1000000001"),
        ({"class_names": np.array("one")}, "at least two classes; got 1"),
        ({"y_train": np.array([None] * 6)}, r"\(it holds Python objects\)"),
        ({"y_train": None}, "no labels 'y_train'"),
        ({"x_train": None}, "must hold 'x_train'"),
        ({"y_train": LABELS[:5]}, "as many labels as samples; got 5 and 6"),
        ({"y_train": LABELS / 2}, "whole number"),
        ({"x_train": np.zeros(6)}, "must be images"),
        ({"x_train": np.full((6, 2), np.nan)}, "row 0"),
        ({"y_train": 0 * LABELS}, "two classes"),
        ({"y_train": np.arange(6) - 1}, "must be in"),
    ],
)
def test_arrays(tmp_path, change, words) -> None:
    given = {"x_train": IMAGES, "y_train": LABELS} | change
    given = {name: array for name, array in given.items() if array is not None}
    np.savez(tmp_path / "a.npz", **given, allow_pickle=True)
    not_loaded(words, tmp_path / "a.npz")


def test_paths(tmp_path) -> None:
    np.save(tmp_path / "a.npy", LABELS)
    (tmp_path / "a.npy").rename(tmp_path / "a.npz")
    not_loaded("it holds no named arrays", tmp_path / "a.npz")
    not_loaded("b.tar.gz does not exist; give the path", tmp_path / "b.tar.gz")
    not_loaded(
        "not a file of data that can be read: give an .npz file", unpack(tmp_path, {"a.txt": b""}) / "a.txt"
    )
    not_loaded("there is no data set ' '", " ", tmp_path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"jpeg_train": np.zeros(9)}, "'jpeg_train' must hold bytes"),
        ({"offset_train": np.array([0, 9, 400])}, r"must rise from 0 or more to at most the \d+ bytes"),
        ({"offset_train": np.array([0, 9, 5])}, "'offset_train' must rise"),
        ({"y_train": np.array([0, 1, 2])}, "as many labels as samples; got 3 and 2"),
        ({"y_train": np.array([0.5, 1])}, "'y_train' must hold one whole number per sample"),
        ({"y_train": np.array([0, 10])}, "labels must be in 0 … 9; the train split has 0 … 10"),
        ({"jpeg_train": np.zeros(999, np.uint8)}, "image 0 cannot be decoded: its bytes are not an image"),
    ],
)
def test_encoded_images(tmp_path, change, words) -> None:
    """Places that lead out of the bytes, labels that do not go with the images."""
    pixels = np.frombuffer(picture() * 2, np.uint8)
    offsets = np.array([0, len(pixels) // 2, len(pixels)])
    part = {"jpeg_{}": pixels, "offset_{}": offsets, "y_{}": np.array([0, 1])}
    good = {key.format(split): value for split in ("train", "test") for key, value in part.items()}
    (tmp_path / "cifar10_jpeg").mkdir()
    np.savez(tmp_path / "cifar10_jpeg" / "cifar10_jpeg.npz", **(good | change))
    not_loaded(words, "cifar10_jpeg", tmp_path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"x": IMAGES.astype(float)}, "'x' must hold grey images of bytes"),
        ({"y": np.array(list("ababab"))}, "'y' must hold one whole number per sample"),
        ({"y": LABELS[:3]}, "as many labels as samples; got 3 and 6"),
        ({"name": np.array(["a"])}, "a group for each of its 6 samples"),
    ],
)
def test_chest_x_rays(tmp_path, change, words) -> None:
    names = np.array([f"{number:08d}_000.png" for number in range(6)])
    good = {"x": IMAGES, "y": LABELS, "classes": np.array(["a", "b"]), "name": names}
    (tmp_path / "chest_xray_covid").mkdir()
    np.savez(tmp_path / "chest_xray_covid" / "chest_xray_224.npz", **(good | change))
    not_loaded(words, "chest_xray_covid", tmp_path)


def test_a_changed_byte_of_an_archive_is_found(tmp_path, rng) -> None:
    """The checksum at the end of a gzipped archive is looked at, although no file is there."""
    pixels = rng.integers(0, 256, (2, 3072), dtype=np.uint8)
    batch = pickle.dumps({b"data": pixels, b"labels": [0, 1]}, protocol=2)
    batches = dict.fromkeys([*(f"data_batch_{n}" for n in range(1, 6)), "test_batch"], batch)
    meta = pickle.dumps({b"label_names": [b"a", b"b"]}, protocol=2)
    path = tar(tmp_path / "cifar10.tar.gz", batches | {"batches.meta": meta}, compresslevel=0)
    whole = bytearray(path.read_bytes())
    assert data.load(str(path)).class_names == ("a", "b")
    whole[1000] ^= 1
    path.write_bytes(whole)
    not_loaded(r"damaged or cut off \(CRC check failed", path)
    path.write_bytes(b"")
    not_loaded(r"cifar10.tar.gz is empty; delete it", path)


def test_archives_of_another_set_or_kind(tmp_path) -> None:
    """CIFAR-10 under the name of CIFAR-100; links in a zip; a password."""
    batch = pickle.dumps({b"data": np.zeros((1, 3072), np.uint8), b"labels": [0]}, protocol=2)
    files = dict.fromkeys([*(f"data_batch_{n}" for n in range(1, 6)), "test_batch"], batch)
    meta = pickle.dumps({b"label_names": [b"a", b"b"]}, protocol=2)
    unpack(tmp_path / "cifar100", files | {"batches.meta": meta, "train": b""})
    not_loaded("holds cifar10, not cifar100; name that set", "cifar100", tmp_path)
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        link = zipfile.ZipInfo("tiny/wnids.txt")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "/etc/passwd")
    not_loaded("'tiny/wnids.txt' in it is a link or a device", tmp_path / "a.zip")
    with zipfile.ZipFile(tmp_path / "b.zip", "w") as archive:
        archive.writestr("wnids.txt", "n01")
    locked = bytearray((tmp_path / "b.zip").read_bytes())
    locked[6] |= 1
    locked[locked.index(b"PK\x01\x02") + 8] |= 1
    (tmp_path / "b.zip").write_bytes(locked)
    not_loaded("is encrypted", tmp_path / "b.zip")


def test_links_to_corrupted_images(tmp_path) -> None:
    path = tar(tmp_path / "cifar10-c" / "CIFAR-10-C.tar", {"CIFAR-10-C/fog.npy": None})
    name = 'cifar10-c(corruption="fog", severity=1)'
    not_loaded("'CIFAR-10-C/fog.npy' in it is a link", name, tmp_path)
    path.write_bytes(b"")
    not_loaded("is empty", name, tmp_path)
    path.unlink()
    (path.parent / "CIFAR-10-C").mkdir()
    np.save(path.parent / "CIFAR-10-C" / "fog.npy", np.zeros((0, 32, 32, 3), np.uint8))
    not_loaded("fog.npy: an array of shape", name, tmp_path)
    not_loaded(r"must be 1, 2, 3, 4 or 5; got 2\.0", 'cifar10-c(corruption="fog", severity=2.0)', tmp_path)


def test_folders_of_images(tmp_path) -> None:
    folder = unpack(tmp_path / "f", {f"train/{kind}/1.png": picture() for kind in "ab"})
    (folder / "test").mkdir()
    not_loaded("the test split must hold samples; got none", folder)
    (folder / "test").rmdir()
    words = r"2.png cannot be decoded \(it is not an image\); replace or"
    not_loaded(words, unpack(folder, {"train/b/2.png": b"x"}))


def test_chestxray14_tables_and_lists(tmp_path) -> None:
    head = "Image Index,Finding Labels,Patient ID\n"
    folder = unpack(tmp_path / "x", {"images/1.png": picture()})
    table = folder / "Data_Entry_2017.csv"
    for content, words in (
        ("é,Mass,1\n", "cannot be read as CSV"),
        ("1.png,Mass,1\n1.png,Hernia,2\n", "each image once; 1.png is in it again"),
        ("", "holds no images"),
    ):
        table.write_bytes((head + content).encode("latin-1"))
        not_loaded(words, folder)
    table.write_text(f"{head}1.png,Mass,1\n")
    (folder / "train_val_list.txt").write_text("1.png")
    (folder / "test_list.txt").touch()
    not_loaded(r"test_list.txt is empty; get it again", folder)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b'{"text": "a", "label": 1000000000}\n\n', "the highest is 1000000000"),
        (b'{"text": null, "label": 0}\n\n', "`text` must be a text in quotes; got None"),
        (b'{"text": "", "label": 0}\n{"text": ".", "label": 1}\n', "must hold words; they are all empty"),
        (b'{"text": "a", "label": "x"}\n\n', "at least two classes; got 1"),
        (b"[" * 200_000, "line 1 is not JSON"),  # which does not exhaust the stack
    ],
)
def test_texts(tmp_path, content, words) -> None:
    (tmp_path / "train.jsonl.gz").write_bytes(gzip.compress(content))
    not_loaded(words, tmp_path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b'{"text": "a", "label": 0}\n{"text": "b"}\n', "line 2 has no 'label'"),
        (b'{"text": "a", "label": 7}\n', r"the label must be a whole number in 0 … 3"),
        (b'{"text": "a", "label": true}\n', r"got True"),
        (b"text,label\n", "line 1 is not JSON"),
        (b"[1]\n", "line 1 has no 'text'"),
        (b"", "is empty"),
        (b"\xff\n", "cannot be read"),
    ],
)
def test_named_texts(tmp_path, content, words) -> None:
    (tmp_path / "ag_news_subset").mkdir()
    (tmp_path / "ag_news_subset" / "train.jsonl").write_bytes(content)
    not_loaded(words, "ag_news_subset", tmp_path)


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"vectors": np.full((2, 3), np.nan)}, "must hold finite numbers; those of 'a' are not"),
        ({"vectors": np.ones((2, 0))}, r"vectors of shape \(2, 0\)"),
        ({"vectors": np.ones((2, 3)) * 1j}, "vectors of complex128"),
        ({"words": np.array("a")}, r"words of shape \(\)"),
    ],
)
def test_word_vectors(tmp_path, arrays, words) -> None:
    np.savez(tmp_path / "v.npz", **({"words": np.array(["a", "b"]), "vectors": np.ones((2, 3))} | arrays))
    refused(words, read_vectors, tmp_path / "v.npz", ("a", "b"))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"good 1 2\nbad 1\n", "line 2 holds a word and 1 numbers"),
        (b"good x y\n", "cannot be read as word vectors"),
        (b"\xff\xfe", "cannot be read as word vectors"),
        (b"", "knows none of the 1 words"),
        (b"else 1 2\n", "knows none of the 1 words"),
    ],
)
def test_texts_of_word_vectors(tmp_path, content, words) -> None:
    (tmp_path / "v.txt").write_bytes(content)
    refused(words, read_vectors, tmp_path / "v.txt", ["good"])
