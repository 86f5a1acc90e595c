"""What commands refuse, and the sentence in which they do: what is wrong, and below it what to do."""

import shlex
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import calibrant
from calibrant.calibrators import BiasCorrectedTemperatureScaling, PlattScaling, TemperatureScaling
from command_line import call, one_line

LOGITS = np.log([[0.7, 0.2, 0.1], [0.2, 0.5, 0.3], [0.1, 0.3, 0.6], [0.4, 0.3, 0.3]])
SHARES = np.exp(LOGITS)
LONG = "x" * 300
# Arrays of four rows; the labels are 0, 1, 2, 0 unless they say others.
ARRAYS: dict[str, dict[str, object]] = {
    "complex": {"probs": SHARES.astype(complex)},
    "nan": {"probs": np.where(SHARES == 0.5, np.nan, SHARES)},
    "stacked": {"probs": np.stack([SHARES, SHARES], 1)},
    "minus": {"logits": LOGITS[:, 0], "labels": [-1, 1, 1, -1]},
    "unlabelled-row": {"logits": LOGITS, "labels": [0, 1, -100, 2]},
    "heavy": {"logits": LOGITS, "weights": np.full(4, 1e200)},
    "light": {"logits": LOGITS, "weights": np.full(4, 1e-200)},
    "three": {"logits": LOGITS},
    "four": {"logits": np.eye(4)},
    "no-logit": {"logits": np.where(SHARES == 0.5, np.nan, LOGITS)},
    "minus-infinity": {"logits": np.where(SHARES == 0.5, -np.inf, LOGITS)},
    "infinity": {"logits": np.where(SHARES == 0.5, np.inf, LOGITS)},
}
TABLES = {
    "empty.csv": "",
    "words.csv": "label,prob\nill,0.5\nwell,0.25\n",
    "codes.csv": "label,prob\n1,0.5\n2,0.25\n",
    "emptied.csv": "died,prob\n,0.5\n,0.25\n",
    "header.csv": "prob\n",
    "judge.csv": "score,correct\n" + "1,0\n5,1\n" * 20,
    "other-judge.csv": "score,correct\n" + "1,0\n5,1\n" * 20,
    "diagnosis.csv": "diagnosis,prob\n" + "0,0.25\n1,0.75\n" * 20,
    "columns.csv": "seed,bins,age\n1,2,3\n",
    "odd-time.csv": "when,label,prob\n1,1,.5\n2,0,.4\nsoon,1,.4\n",
    "yesterday.csv": "when,label,prob\nyesterday,1,0.5\n",
    "no-time.csv": "when,label,prob\n2026-01-01,1,0.5\n,1,0.5\n",
    "no-label.csv": "when,label,prob\n" + 2 * "2026-01-01,,0.5\n",
    "no-row.csv": "when,label,prob\n",
    "empty.toml": "",
    "note.html": "a note",
    "p.parquet": "PAR1",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of every kind, good and bad, and calibrators."""
    path, rng = tmp_path_factory.mktemp("refused"), np.random.default_rng(0)
    for name, text in TABLES.items():
        (path / name).write_text(text, encoding="utf-8")
    for name, arrays in ARRAYS.items():
        np.savez(path / f"{name}.npz", **{"labels": [0, 1, 2, 0]} | arrays)
    np.save(path / "logits.npy", LOGITS)
    sparse, meta = torch.tensor(LOGITS).to_sparse(), torch.empty(4, 3, device="meta")
    for name, logits in (("sparse.pt", sparse), ("meta.pt", meta)):
        torch.save({"logits": logits, "labels": torch.tensor([0, 1, 2, 0])}, path / name)
    logits = rng.normal(size=(60, 4))
    labels, event = (logits + rng.gumbel(size=(60, 4))).argmax(axis=1), np.arange(60) // 2 % 2
    fitted = {
        "c": TemperatureScaling().fit(logits, labels),
        "named": TemperatureScaling().fit(logits, labels),
        "platt": PlattScaling().fit(event + rng.normal(size=60), event),
    }
    with pytest.warns(calibrant.CalibrantWarning, match="5 parameters are many for 60 samples"):
        fitted["b"] = BiasCorrectedTemperatureScaling().fit(logits, labels)
    fitted["named"].class_names_ = tuple("abcd")
    for name, calibrator in fitted.items():
        calibrator.save(path / f"{name}.safetensors")
    over = {"logits": logits, "labels": labels, "split": np.arange(60) % 2}
    names = {"class_names": ["a", "b", "c", "d"]}
    for name, arrays in {
        "over": over,
        "other": over | {"logits": 2 * logits},
        "nosplit": {"logits": logits, "labels": labels},
        "unlabelled": {"logits": logits},
        "five": {"logits": rng.normal(size=(60, 5)), "labels": labels},
        "binary": {"logits": event + rng.normal(size=60), "labels": event},
        "onehot": {"logits": logits, "labels": np.eye(4, dtype=int)[labels]},
        "several": {"logits": logits, "labels": rng.integers(0, 2, (60, 4)), **names},
        "top": {"confidence": rng.uniform(0.5, 1, 60), "correct": event},
        "images": {"logits": np.zeros((3, 2, 4, 4)), "labels": np.zeros((3, 4, 4), dtype=int)},
        "grouped": {"logits": event + rng.normal(size=60), "labels": event, "groups": ["a", "b"] * 30},
    }.items():
        np.savez(path / f"{name}.npz", **arrays)
    calibrant.fit(path / "grouped.npz", method="temperature", every_row=True, by_group=True).save(
        path / "by.safetensors"
    )
    np.savez(path / "east.npz", logits=logits[:2, 0], groups=["a", "east"])
    np.savez(path / "turned.npz", logits=logits, class_names=list("badc"))
    calibrant.load_predictions(path / "over.npz").save(path / "kept.safetensors")
    (path / "truncated.npz").write_bytes((path / "over.npz").read_bytes()[:500])
    rows = [f"{y},0.{k + 10},{'ab'[k % 2]},2026-01-{1 + k // 20:02d},{k // 4}" for k, y in enumerate(event)]
    (path / "t.csv").write_text("label,prob,site,day,patient\n" + "\n".join(rows))
    calibrant.load_predictions(path / "binary.npz").save(path / "t.parquet")
    (path / "mine").mkdir()
    (path / "mine" / "thesis.tex").touch()
    return path


TABLE = r"""
# Files that are not there, or not what they should be.
evaluate absent.npz | absent.npz: no such file.\n
compare absent.npz absent.npz | absent.npz: no such file.\n
evaluate *.tsv | *.tsv: no such file
evaluate my dir/my preds.csv | my, dir/my, preds.csv: no such files; put quotes around a path
fit my preds.csv -o c | ; put quotes
check over.npz --baseline absent.npz | absent.npz: no such file
evaluate truncated.npz | truncated.npz
evaluate p.parquet | p.parquet: it cannot be read as a .parquet file; perhaps
evaluate empty.csv | empty
evaluate words.csv | Pass the word for class 1
evaluate codes.csv | If they start at 1, subtract one, or give the code of class 1 as --positive-class.
evaluate emptied.csv --label-column died | `died` is empty in every row.
evaluate complex.npz | `probs` must hold numbers; got dtype complex128.
evaluate nan.npz | row 1 holds nan; leave that row out
evaluate stacked.npz | for samples that are not images, `probs` must have shape (N, C).
evaluate minus.npz | If -1 means 0, write 0.
evaluate unlabelled-row.npz | If that means no label, drop such rows.
evaluate heavy.npz | divide all of them by the same number.
evaluate light.npz | divide all of them by the same number.
evaluate minus-infinity.npz | row 1 holds -inf
evaluate minus-infinity.npz | pass `probs`, which can be 0
evaluate infinity.npz | float64
evaluate no-logit.npz | row 1 holds nan; leave that row out
evaluate sparse.pt | got a sparse one: call `.to_dense()` first.
evaluate meta.pt | got a tensor on the device meta, which has none.
evaluate logits.npy | logits.npy has no labels; save them as labels.npy in the same folder.
evaluate columns.csv | found no predictions in `seed`, `bins`, `age`; name columns
evaluate columns.csv | Use --label-column and --prob-columns for other names.
check diagnosis.csv --max-ece 0.1 | or name the column with --label-column. Not used: `diagnosis`.
fit nosplit.npz -o o.safetensors | no calibration split
fit unlabelled.npz -o o.safetensors | no labels
apply platt.safetensors header.csv -o o.csv | must hold at least one sample; got 0
apply over.npz over.npz -o o.npz | not a safetensors file
apply c.safetensors five.npz -o o.npz | 5
apply c.safetensors onehot.npz -o o.npz | multilabel
apply c.safetensors images.npz -o o | images.npz must be a folder
apply named.safetensors turned.npz -o o.npz | b, a, d, c
apply over.npz c.safetensors -o o.npz | the calibrator comes first, and over.npz is not one
apply by.safetensors binary.npz -o o.npz | binary.npz must have `groups`
apply by.safetensors east.npz -o o.npz | row 1 is of group 'east'
fit binary.npz --all --by-group -o o.safetensors | --by-group needs `groups` in binary.npz
fit t.csv --all --method multicalibration -o o.safetensors | multicalibration needs `groups` in t.csv
compare over.npz | two files or more
compare over.npz binary.npz | binary
compare over.npz over.npz | a file is given twice; name each model once.
check three.npz --baseline four.npz | must have the same number of classes; got 4 and 3; `calibrant
train empty.toml | empty.toml sets nothing; a recipe must at least say what to train on, such as
predict mlp digits -o o.npz | mlp would predict with random weights; pass trained ones
sweep digits-losses --store mine | mine is not a store of runs: it holds other files, such as thesis.tex
# Outputs.
evaluate over.npz --report r.pdf | must end in .html
evaluate over.npz --report nowhere/r.html | does not exist
evaluate over.npz --report note.html | exists and isn't a report of over.npz.\nUse --force
fit over.npz -o c.bin | must end in .safetensors
fit over.npz -o kept.safetensors | is not a calibrator
fit over.npz | --out is missing.\nSee `calibrant fit --help`.\n
apply c.safetensors over.npz -o o.xyz | .xyz
apply c.safetensors over.npz -o over.npz | would be overwritten
apply c.safetensors over.npz -o ./../{folder}/over.npz | would be overwritten
apply c.safetensors over.npz -o words.txt | words.txt must end in one of .npz
check over.npz --max-ece 0.1 --junit found.txt | must end in .xml
monitor t.csv --time day --prometheus x.txt | must end in .prom
# Values of options.
evalute over.npz | there is no command 'evalute'.\nDid you mean evaluate?\n
help inptu | Did you mean 'input'?
evaluate over.npz --reprot x.html | there is no option --reprot.\nDid you mean --report?\n
evaluate over.npz --report --quiet | --report must have a value; got --quiet, which is an option.\n
evaluate over.npz --prob-columns cat dog | dog: no such file; separate columns with commas, as in --prob-
evaluate over.npz --bins 0 | --bins must be at least 1; got 0.\n
evaluate over.npz --bins x | --bins must be a whole number; got 'x'.\n
evaluate over.npz --level 5 | --level must be between 0.5 and 0.9999
evaluate over.npz --kind foo | --kind must be binary, multiclass, multilabel or top_label; got 'foo'.\n
evaluate over.npz --method temprature | 'temprature'.\nDid you mean 'temperature'?
fit over.npz --method focal-temprature -o o.safetensors | focal-temperature
evaluate over.npz --positive-class cat | --positive-class needs two classes, and there are 4 classes.\nLea
evaluate binary.npz --positive-class 7 | the positive class must be 0 or 1; got '7'.
evaluate over.npz --metric smoothece | got 'smoothece'; there are smooth_ece, debiased_ece, debiased_l2
evaluate over.npz --metric ece | --metric must name quantities that can be added; got 'ece'; ece is alwa
compare over.npz other.npz --metric ece | got 'ece'; ece is always shown; there are
check over.npz | give a limit (--max-ece 0.03) or a baseline
check over.npz --max-ece 2 | --max-ece must be between 0 and 1; got 2.\nUse 0.02 for 2%.\n
check over.npz --max-ece -1 | must be 0 or more
check over.npz --max-ece 5% | --max-ece must be a number such as 0.03; got '5%'; write 0.05.
check over.npz --min-accuracy 0,9 | --min-accuracy must be a number such as 0.03; got '0,9'; write 0.9.
check over.npz --max-nll low | --max-nll must be a number such as 0.03; got 'low'.
check top.npz --max-classwise-ece 1 | classwise_ece cannot be checked: needs the probabilities of all
check over.npz --max-ece 0.1 --baseline-metric ece | give a --baseline with --baseline-metric
check no-label.csv --label-column label --max-ece 0.1 | no-label.csv has no labels; fill the `labels` array
check over.npz --baseline other.npz --baseline-metric f1 | there is no metric 'f1'
check over.npz --baseline other.npz --baseline-metric accurcy | did you mean 'accuracy'?
apply b.safetensors over.npz -o o.npz --label-shift bbse | --label-shift must be em; got 'bbse'
apply b.safetensors over.npz -o o.npz --label-shift em --prior 1,0,0,0 | --label-shift em to estimate
apply b.safetensors over.npz -o o.npz --prior 0.9,0.1 | --prior must have 4 entries
apply b.safetensors over.npz -o o.npz --prior 0.9,0.2,0.1,0.1 | must sum to one
apply b.safetensors over.npz -o o.npz --prior most | must be numbers separated by commas
apply c.safetensors over.npz -o o.npz --label-shift em | fit with --method bias-corrected-temperature
evaluate t.csv --cluster subject | no column `subject`
evaluate t.csv --cluster groups | --cluster groups needs groups in t.csv
monitor t.csv --time then | it holds no column `then` (--time); it holds `label`, `prob`
monitor t.csv --time prob | found no predictions
monitor t.csv --time day --window 1 | must be a span such as '1d'
monitor t.csv --time day --alarm-on baseline | needs a
monitor over.npz --time when | must be a table, such as .csv or .parquet
monitor odd-time.csv --time when | line 4 holds 'soon'
monitor yesterday.csv --time when | `when` must hold a date
monitor yesterday.csv --time when | line 2 holds 'yesterday'
monitor no-time.csv --time when | line 3 is empty
monitor no-label.csv --time when | no sample has a label yet
monitor no-label.csv --time when | give a --baseline
monitor no-label.csv --time when --label-column label | no sample has a label yet
monitor no-row.csv --time when | it holds no rows
# Options that a command would not heed.
evaluate over.npz --group-column site | --group-column works only with tables (CSV, Parquet), and
compare t.csv judge.csv --group-column site | --group-column is not used here:
monitor t.csv --time day --group-column site | --group-column is not used here:
fit t.csv --all --method platt -o o.safetensors --group-column site | --group-column is not used here:
apply platt.safetensors t.csv -o o.csv --group-column site | --group-column is not used here:
figure reliability t.csv -o o.svg --group-column site | --group-column is not used here:
fit t.csv --all --method platt -o o.safetensors --cluster patient | --cluster is not used here:
apply platt.safetensors t.csv -o o.csv --cluster patient | --cluster is not used here:
monitor t.csv --time day --kind binary | --kind is not used here:
monitor t.csv --time day --iou 0.7 | --iou is not used here:
fit t.parquet -o o.safetensors --jobs 2 | add --engine pool
check t.parquet --max-ece 0.9 --iou 0.7 | --iou is for COCO detections
check t.parquet --max-ece 0.9 --ignore-index 1 | need segmentation logits
evaluate images.npz --cluster patient | each image is a cluster; leave out --cluster patient.
evaluate images.npz --label-file over.npz | each image is a cluster; leave out --label-file over.npz.
evaluate images.npz --percent | each image is a cluster; leave out --percent.
fit images.npz -o o.safetensors --label-column y | leave out --label-column y.
evaluate judge.csv --score-columns score --label-column correct | aren't probabilities until
check judge.csv --max-ece 0.1 --score-columns score --label-column correct | aren't probabilities until
compare judge.csv other-judge.csv --score-columns score --label-column correct | aren't probabilities until
figure reliability judge.csv -o o.svg --score-columns score --label-column correct | aren't probabilities
fit judge.csv --score-columns score --prob-columns score -o o.safetensors | excludes --prob-columns
evaluate judge.csv --prob-columns score --label-column correct | --scale 1:5 if all are on a scale from 1 to 5
# Figures.
figure | NAME is missing
figure nosuch | there is no figure 'nosuch'.\nChoose 'reliability', 'confidence', 'roc',
figure focal-arrows -o x.gif | --out must end in .svg, .png or .pdf; got 'x.gif'
figure reliability -o o.svg | the figure reliability needs a file: `calibrant figure reliability FILE`
figure classes over.npz other.npz -o o.svg | the figure classes takes one file; got 2
figure reliability over.npz top.npz -o o.svg | be of one kind; over is multiclass and top is top_label
figure reliability over.npz --label b -o o.svg | --label is for multilabel files; over is multiclass
figure reliability several.npz --label x -o o.svg | several has no label 'x'
figure roc over.npz -o o.svg | the figure roc needs an event (of two classes, or several labels) that occurs
figure roc binary.npz --bins 5 -o o.svg | does not take --bins; of such options it takes --positive-cl
figure classes top.npz -o o.svg | the figure classes needs the scores of all classes
figure reliability unlabelled.npz -o o.svg | labels
figure focal-arrows over.npz -o o.svg | the figure focal-arrows shows theory and takes no file; got
figure focal-arrows --label b --all -o o.svg | does not take --label, --all; of such options it takes none
figure focal-arrows --label-column ill | leave out --label-column ill
figure focal-arrows --names a | shows theory and takes no --names
figure confidence over.npz over.npz -o o.svg | once each
figure confidence over.npz other.npz --names before -o o.svg | 2 different names, separated by commas
figure confidence over.npz other.npz --names a,a -o o.svg | 2 different names, separated by commas
"""
"""What is typed, and what is said; the backslash of a next line is written out."""
SENTENCES = [line.replace("\\n", "\n").split(" | ") for line in TABLE.strip().splitlines() if line[0] != "#"]
if sys.platform != "win32":  # which says it in other words
    SENTENCES += [
        [f"evaluate {LONG}.npz", "xxx… cannot be opened: File name too long."],
        [f"evaluate over.npz --report {LONG}.html", "xxx: File name too long."],
        [f"fit over.npz -o {LONG}.safetensors", "xxx: File name too long."],
    ]


@pytest.mark.parametrize(("typed", "said"), SENTENCES, ids=[typed[:60] for typed, _ in SENTENCES])
def test_a_refusal_is_one_sentence(folder, typed, said) -> None:
    """Exit code 2, no traceback, never more than a few alternatives; and nothing is written or replaced."""
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    done = call(*shlex.split(typed.format(folder=folder.name)), folder=folder, code=2)
    assert done.stderr.startswith("calibrant: ")
    assert said in done.stderr or said in one_line(done.stderr), done.stderr
    assert "\n" not in one_line(done.stderr).strip()
    assert "Traceback" not in done.stderr
    assert "Usage" not in done.stderr
    assert done.stderr.count("'") <= 12
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == before
