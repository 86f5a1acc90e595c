"""Arrays in ``.npy`` files of their own."""

import numpy as np
import pytest
import torch

from calibrant import InputError, load_predictions
from calibrant.predictions import open_predictions


def test_a_file_finds_what_stands_beside_it(tmp_path, rng) -> None:
    logits, labels = rng.normal(size=(9, 3)), np.arange(9) % 3
    for name in ("resnet_logits_test", "logits", "Logits-final"):
        word = "Logits" if "Logits" in name else "logits"
        np.save(tmp_path / f"{name}.npy", logits)
        np.save(tmp_path / f"{name.replace(word, 'labels')}.npy", labels)
        found = load_predictions(tmp_path / f"{name}.npy")
        assert found.space == "logits"
        assert found.labels.tolist() == labels.tolist()


def test_the_name_says_logits_or_probabilities(tmp_path, rng) -> None:
    np.save(tmp_path / "probs.npy", rng.dirichlet(np.ones(3), size=9))
    assert load_predictions(tmp_path / "probs.npy").space == "probs"
    np.save(tmp_path / "scores.npy", rng.dirichlet(np.ones(3), size=9))
    np.save(tmp_path / "problems.npy", rng.dirichlet(np.ones(3), size=9))
    for name in ("scores.npy", "problems.npy"):
        with pytest.raises(
            InputError, match=r"its name must say whether it holds logits or probabilities: call it"
        ):
            load_predictions(tmp_path / name)


def test_labels_from_elsewhere(tmp_path, rng) -> None:
    np.save(tmp_path / "logits.npy", rng.normal(size=(9, 3)))
    np.save(tmp_path / "labels.npy", np.zeros(9, int))
    np.save(tmp_path / "truth.npy", np.arange(9) % 3)
    found = open_predictions(tmp_path / "logits.npy", labels=tmp_path / "truth.npy")
    assert found.labels.tolist() == [0, 1, 2] * 3


def test_a_folder_is_an_archive_unpacked(tmp_path, rng, assert_same) -> None:
    arrays = {
        "logits_val": rng.normal(size=(5, 2)),
        "labels_val": np.array(["cat", "dog", "cat", "cat", "dog"]),
        "logits_test": rng.normal(size=(4, 2)),
        "labels_test": np.array(["dog", "dog", "cat", "cat"]),
        "class_names": np.array(["cat", "dog"]),
    }
    np.savez(tmp_path / "p.npz", **arrays)
    folder = tmp_path / "p"
    folder.mkdir()
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    assert_same(load_predictions(folder), load_predictions(tmp_path / "p.npz"))
    with pytest.raises(InputError, match="only the scores of several classes"):
        open_predictions(folder, stream=True)


def test_a_change_of_any_file_changes_the_digest(tmp_path, rng) -> None:
    np.save(tmp_path / "logits.npy", rng.normal(size=(9, 3)))
    np.save(tmp_path / "labels.npy", np.arange(9) % 3)
    before = load_predictions(tmp_path / "logits.npy").source
    np.save(tmp_path / "labels.npy", (np.arange(9) + 1) % 3)
    after = load_predictions(tmp_path / "logits.npy").source
    assert before.sha256 != after.sha256
    assert after.format == "npy"


def test_damage_and_objects_are_refused(tmp_path, rng) -> None:
    """Files that are cut off, are no arrays, or hold Python objects; one sentence with the path."""
    np.save(tmp_path / "labels.npy", np.arange(9) % 3)
    path = tmp_path / "logits.npy"
    np.save(path, rng.normal(size=(9, 3)))
    path.write_bytes(path.read_bytes()[:-50])
    for stream in (None, True):
        with pytest.raises(InputError, match=r"logits.npy: it cannot be read as the array logits.npy"):
            open_predictions(path, stream=stream)
    path.write_bytes(b"nonsense")
    with pytest.raises(InputError, match=r"logits.npy"):
        open_predictions(path)
    np.save(path, np.array([{}, {}], dtype=object), allow_pickle=True)
    with pytest.raises(
        InputError, match=r"holds Python objects, which are not loaded because they could run"
    ):
        open_predictions(path)


def test_half_precision_and_big_endian(tmp_path, rng) -> None:
    """Values are read in their own dtype and the machine's byte order, whole or in pieces."""
    np.save(tmp_path / "labels.npy", np.arange(9) % 3)
    for dtype in ("<f2", ">f4", "<f8"):
        np.save(tmp_path / "logits.npy", rng.normal(size=(9, 3)).astype(dtype))
        one = open_predictions(tmp_path / "logits.npy", stream=True)
        other = load_predictions(tmp_path / "logits.npy")
        assert one.values.dtype == other.values.dtype
        assert torch.equal(one.values, other.values)
