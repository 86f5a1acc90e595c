"""Readers of texts and trees, their words, and vectors of these."""

from pathlib import Path

import numpy as np
import pytest
import torch

from calibrant_lab import data
from calibrant_lab.data.fetch import published
from calibrant_lab.data.text import sets
from calibrant_lab.training.data import named_file, read_data
from calibrant_lab.training.recipe import DataSection
from refusals import not_loaded, refused
from set_files import write_lines

TREES = {
    "train": ["(3 (2 (2 Not) (1 bad)) (2 .))", "(2 (2 So) (2 so))", "(0 (2 bad) (0 (2 so) (1 bad)))"],
    "val": ["(1 (2 Dire) (2 .))", "(4 (3 good) (2 .))"],
    "test": ["(4 (4 Good) (2 .))", "(0 (0 bad) (2 .))"],
}


@pytest.fixture
def treebank(tmp_path) -> Path:
    for split, trees in TREES.items():
        write_lines(tmp_path / "sst_trees" / f"{split}.jsonl.gz", [{"tree": tree} for tree in trees])
    return tmp_path


def test_words_are_cut_as_the_keras_tokenizer_does() -> None:
    """Its filters become spaces, apostrophes and no-break spaces stay, and only spaces and filters cut."""
    text = "From_The [A] re-post:\tIT'S\n~50%\xa0off; 'quoted'\r\n"
    assert sets.words_of(text) == ["from", "the", "a", "re", "post", "it's", "50", "\xa0off", "'quoted'\r"]


def test_the_vocabulary_goes_by_frequency_then_by_first_use() -> None:
    texts = [["c", "b", "a"], ["a", "b", "d"]]
    assert sets.by_frequency(texts, 4) == ("b", "a", "c")
    assert sets.numbered(texts, ("b", "a", "c"), length=2).tolist() == [[1, 2], [2, 1]]
    assert sets.numbered([["d"], []], ("b",), length=2).tolist() == [[0, 0], [0, 0]]
    refused("1 or more words", sets.numbered, texts, (), length=0)


def test_newsgroups_are_cut_by_the_authors_shuffle(tmp_path, monkeypatch) -> None:
    """By group and file name, numpy's seed 1; lines of JSON give the same, whatever split they came in."""
    monkeypatch.setattr(sets, "_VALIDATION", 3)
    groups = published()["newsgroups20"]["classes"]
    posts = [(number % 20, str(9000 + 7 * number), f"word{number} ends") for number in range(40)]
    for label, name, text in posts:
        place = tmp_path / "posts" / groups[label] / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(f"From: me\nSubject: it\n\n{text}\n", encoding="latin-1")
        (place.parent / "README").write_text("no post")
    lines = [{"id": name, "label": label, "text": text} for label, name, text in reversed(posts)]
    write_lines(tmp_path / "lines" / "train.jsonl.gz", lines[:25])
    write_lines(tmp_path / "lines" / "test.jsonl", lines[25:])
    read = [
        sets.read_newsgroups(tmp_path / name, name=name, words=100, length=4, class_names=groups)
        for name in ("posts", "lines")
    ]
    order = np.arange(40)
    np.random.RandomState(1).shuffle(order)
    ordered = [text for _, _, text in sorted(posts)]
    wanted = [ordered[row].split()[0] for row in order]
    for raw in read:
        found = torch.cat([raw.train.inputs[:], raw.calibration.inputs[:], raw.test.inputs[:]])
        assert [raw.vocabulary[row[-2] - 1] for row in found.tolist()] == wanted
        assert [len(part.labels) for part in (raw.train, raw.calibration, raw.test)] == [29, 3, 8]
        assert [raw.vocabulary[row[-1] - 1] for row in found.tolist()] == ["ends"] * 40
    assert torch.equal(read[0].train.labels, read[1].train.labels)


def test_a_tree_becomes_rows_with_children_levels_and_labels(treebank) -> None:
    """The root comes first, a node's children follow it, and levels count from the leaves."""
    raw = data.load("sst_trees", folder=treebank)
    table = raw.train.inputs[torch.tensor([0])][0]
    numbers = {word: number for number, word in enumerate(("", *raw.vocabulary))}
    assert table.dtype == torch.int32
    assert table.tolist() == [
        [1, 4, 0, 2, 2],
        [2, 3, 0, 1, 1],
        [-1, -1, numbers["Not"], 1, 0],
        [-1, -1, numbers["bad"], 0, 0],
        [-1, -1, numbers["."], 1, 0],
    ]


def test_the_binary_task_drops_neutral_roots_and_the_fine_one_none(treebank) -> None:
    raw, fine = data.load("sst_trees", folder=treebank), data.load("sst_trees(fine=True)", folder=treebank)
    assert raw.train.labels.tolist() == [1, 0]
    assert fine.train.labels.tolist() == [3, 2, 0]
    assert raw.class_names == ("negative", "positive")
    assert len(fine.class_names) == 5
    assert {"So", "so", "Good", "good"} <= set(raw.vocabulary)
    padded = raw.calibration.inputs[torch.tensor([0])] if raw.calibration else torch.zeros(1, 1, 5)
    assert padded[0, :, 4].tolist() == [1, 0, 0, -1, -1]


@pytest.mark.parametrize(
    ("tree", "words"),
    [
        ("(3 (2 Not)", "ends early"),
        ("", "ends early"),
        ("(3 (2 a) (2 b)) (2 c)", "has two roots"),
        ("(3 (2 a))", "neither one word nor two children"),
        ("(3 (2 a) (2 b) (2 c))", "neither one word nor two children"),
        ("(3 a b)", "misplaced 'b'"),
        ("(9 a)", r"misplaced '\('"),
        ("(3 (2 a) (2 b)))", r"misplaced '\)'"),
    ],
)
def test_broken_trees_are_refused(tree, words) -> None:
    """The sentence says what is wrong and what a tree looks like; a no-break space is part of a word."""
    assert [node.word for node in sets.parse_tree("(2 (2 3\xa01\\/2) (2 stars))")] == [
        "",
        "3\xa01\\/2",
        "stars",
    ]
    refused(f"{words}; it must look like", sets.parse_tree, tree)


def test_vectors_of_unknown_words_are_nan_and_lower_case_stands_in(tmp_path) -> None:
    words, vectors = ["good", "Bad", "other"], np.array([[1, 2], [3, 4], [5, 6]], dtype=np.float16)
    np.savez(tmp_path / "v.npz", words=words, vectors=vectors)
    (tmp_path / "v.txt").write_text("good 1 2\n. . 9 9\nBad 3 4\nother 5 6\n", encoding="utf-8")
    for name in ("v.npz", "v.txt"):
        found = sets.read_vectors(tmp_path / name, ["Good", "Bad", "bad", "none"])
        assert found.nan_to_num(-1).tolist() == [[0, 0], [1, 2], [3, 4], [-1, -1], [-1, -1]]
    assert sets.no_vectors(["a"], 2).nan_to_num(-1).tolist() == [[0, 0], [-1, -1]]


def test_vectors_are_found_by_path_or_in_the_folder_of_data(tmp_path, monkeypatch) -> None:
    (tmp_path / "v.txt").write_text("good 1 2\n")
    monkeypatch.setenv("CALIBRANT_DATA", str(tmp_path))
    for name in ("v.txt", str(tmp_path / "v.txt")):
        assert named_file("data.vectors", name, "word vectors") == tmp_path / "v.txt"
    refused(r"there is no w\.txt", named_file, "data.vectors", "w.txt", "word vectors")


def test_a_folder_of_lines_is_a_set_of_texts(tmp_path) -> None:
    lines = [{"text": f"It is {word}!", "label": word} for word in ("good", "bad") * 20]
    write_lines(tmp_path / "mine" / "train.jsonl", lines)
    found = read_data(DataSection(name=str(tmp_path / "mine"), test=10, calibration=4))
    assert found.class_names == ("bad", "good")
    assert found.vocabulary[:2] == ("it", "is")
    assert found.input_shape == (1000,)
    assert found.vectors.shape == (5, 100)
    assert found.train.inputs.dtype == torch.int32
    (tmp_path / "mine").rename(tmp_path / "trec_questions")
    cut = data.load("trec_questions(words=3, length=5)", folder=tmp_path)
    assert cut.vocabulary == ("it", "is")
    assert cut.train.inputs[torch.tensor([0])].tolist() == [[0, 0, 0, 1, 2]]


def test_finsen_is_read_from_its_table(tmp_path) -> None:
    rows = "".join(
        f'"Rise {n}",{tag},01/02/2020,"GDP, up\nby {n}"\n' for n in range(9) for tag in ("GDP", "Jobs")
    )
    path = tmp_path / "finsen" / "FinSen_US_Categorized_Timestamp.csv"
    path.parent.mkdir()
    path.write_text(f"Title,Tag,Time,Content\n{rows}", encoding="utf-8")
    raw = data.load("finsen(length=6)", folder=tmp_path)
    assert raw.class_names == ("GDP", "Jobs")
    assert torch.bincount(raw.train.labels).tolist() == [9, 9]
    first = raw.train.inputs[torch.tensor([0])][0].tolist()
    said = [raw.vocabulary[word - 1] for word in first if word]
    assert said[0] == "rise"
    assert said[2:5] == ["gdp", "up", "by"]
    path.write_text("Title,Label\na,b\n", encoding="utf-8")
    not_loaded("no column 'Tag'", "finsen", tmp_path)
    path.write_text("Title,Tag,Content\na,,c\n", encoding="utf-8")
    not_loaded("line 2 has no tag", "finsen", tmp_path)


def test_sets_that_are_not_whole_say_what_is_missing(treebank, tmp_path, monkeypatch) -> None:
    """With and without a folder of data; half a gzip file is damage; an empty split is refused."""
    path = treebank / "sst_trees" / "train.jsonl.gz"
    path.write_bytes(path.read_bytes()[:-12])
    not_loaded(r"cannot be read .* fetch the file again", "sst_trees", treebank)
    not_loaded(r"trec_questions should be at .*trec_questions", "trec_questions", tmp_path)
    monkeypatch.delenv("CALIBRANT_DATA", raising=False)
    not_loaded("set CALIBRANT_DATA", "trec_questions")
    (tmp_path / "newsgroups20" / "alt.atheism").mkdir(parents=True)
    not_loaded(r"has no folder comp\.graphics", "newsgroups20", tmp_path)
    refused(r"must hold train\.jsonl", sets.read_trees, tmp_path, name="mine")
    write_lines(tmp_path / "train.jsonl", [{"tree": "(2 (2 So) (2 so))"}])
    refused("no tree with a sentiment at its root", sets.read_trees, tmp_path, name="mine")


def test_the_treebank_has_its_official_sizes(data_folder, tmp_path) -> None:
    """872 of the 1101 sentences for development have a sentiment, and 41 447 nodes have a label."""
    (tmp_path / "train.jsonl.gz").symlink_to(data_folder / "sst_trees" / "val.jsonl.gz")
    binary, fine = sets.read_trees(tmp_path, name="dev"), sets.read_trees(tmp_path, name="dev", fine=True)
    assert len(binary.train.labels) == 872
    assert len(fine.train.labels) == 1101
    assert int((fine.train.inputs[:][:, :, sets.LEVEL] >= 0).sum()) == 41_447
