"""Tables as people write them: how columns are called, cells parted and numbers written."""

from typing import Any

import pytest

from calibrant.predictions import ColumnNames, load_predictions

TWO = {"kind": "binary", "labels": [1, 0], "probs": [0.75, 0.5]}
PARTED = {"class_names": ("a", "b"), "labels": [1, 0], "probs": [[0.25, 0.75], [0.5, 0.5]]}
FULL = {
    "values": [[0.5, 0.5], [1.0, 0.0]],
    "labels": [1, 0],
    "split": [0, 1],
    "weights": [2, 1.5],
    "groups": ("a", "b"),
}
SPAM = {"kind": "binary", "class_names": ("ham", "spam")}
PER_CENT = "holds percentages and was divided by 100."
COMMAS = {"scores": [-1.234, 0.5], "labels": [1, 0], "notes": ("`logit` has decimal commas.",)}
CATS = {"class_names": ("cat", "dog"), "labels": [0, 1], "values": [[0.75, 0.25], [0.5, 0.5]]}
TWELVE = sorted(f"logit_{k}" for k in range(12))  # logit_0, logit_1, logit_10, ...
PAIRS = "Read as pairs, in this order: "


def numbered(label: int) -> str:
    return ",".join(f"{name.removeprefix('logit_')}.0" for name in TWELVE) + f",{label},x\n"


TEXTS: dict[str, tuple[str, dict[str, Any]]] = {
    # Names of columns, which notes say.
    "y_true": (
        "y_true,y_prob\n1,0.75\n0,0.5\n",
        TWO | {"notes": ("Read `y_true` as `label`, `y_prob` as `prob`.",)},
    ),
    "y_test": (
        "y_test,y_score\n1,0.75\n0,0.5\n",
        TWO | {"notes": ("Read `y_test` as `label`, `y_score` as `prob`.",)},
    ),
    "target": ("target,p\n1,0.75\n0,0.5\n", TWO | {"notes": ("Read `target` as `label`, `p` as `prob`.",)}),
    "Label": (
        "Label,Probability\n1,0.75\n0,0.5\n",
        TWO | {"notes": ("Read `Label` as `label`, `Probability` as `prob`.",)},
    ),
    "p_spam": ("y_true,p_spam\nspam,0.75\nham,0.5\n", SPAM | {"labels": [1, 0]}),
    "p_spam, all ham": ("y_true,p_spam\nham,0.25\nham,0.5\n", SPAM | {"labels": [0, 0]}),
    "p_yes, all no": ("y_true,p_yes\nno,0.25\nno,0.5\n", {"class_names": ("no", "yes"), "labels": [0, 0]}),
    "p_spam, zeros": (
        "y_true,p_spam\n0,0.25\n0,0.5\n",
        {"class_names": ("not spam", "spam"), "labels": [0, 0]},
    ),
    "prob_ill": ("label,prob_ill\n1,0.75\n0,0.5\n", {"class_names": ("not ill", "ill")}),
    "probs beside classes": (
        "label,prob_a,prob_b,probs\na,0.5,0.5,1\nb,0.5,0.5,1\n",
        {"notes": ("Not used: `probs`.",)},
    ),
    "pandas's index": (",prob\n0,0.5\n1,0.25\n", {"notes": ("Not used: (no name).",)}),
    # Percentages, where numbers can be nothing else or cells say %.
    "per cent": ("label,prob\n1,75\n0,5\n", {"probs": [0.75, 0.05], "notes": (f"`prob` {PER_CENT}",)}),
    "signs": ("label,prob\n1,75%\n0,0.5 %\n", {"probs": [0.75, 0.005], "notes": (f"`prob` {PER_CENT}",)}),
    "rows of 100": (
        "label,prob_a,prob_b\na,75,25\nb,50,50\n",
        {
            "probs": [[0.75, 0.25], [0.5, 0.5]],
            "notes": ("`prob_a`, `prob_b` hold percentages and were divided by 100.",),
        },
    ),
    "confidence": (
        "confidence,correct\n75,1\n50,0\n",
        {"confidence": [0.75, 0.5], "notes": (f"`confidence` {PER_CENT}",)},
    ),
    "small numbers": ("label,prob\n1,0.7\n0,0.5\n", {"probs": [0.7, 0.5]}),
    # One column for each class, by number or by name.
    "numbers, in no order": (
        f"{','.join(TWELVE)},label,id\n{numbered(3)}{numbered(7)}",
        {"values": [[*range(12)]] * 2, "labels": [3, 7], "class_names": None, "notes": ("Not used: `id`.",)},
    ),
    "names": ("label,prob_cat,prob_dog\ncat,0.75,0.25\ndog,0.5,0.5\n", CATS),
    "names and numbers": ("label,prob_cat,prob_dog\n0,0.75,0.25\n1,0.5,0.5\n", CATS),
    "names and floats": ("label,prob_cat,prob_dog\n0.0,0.75,0.25\n1.0,0.5,0.5\n", CATS),
    "from 1": (
        "label,prob_1,prob_2,prob_3\n1,1,0,0\n3,0,0,1\n",
        {"class_names": ("1", "2", "3"), "labels": [0, 2]},
    ),
    # One column of an event.
    "prob": ("prob,label\n0.25,False\n0.5,True\n", {"kind": "binary", "space": "probs", "labels": [0, 1]}),
    "logit": ("logit,label\n0.25,False\n0.5,True\n", {"kind": "binary", "space": "logits", "labels": [0, 1]}),
    "prob of ill": (
        "prob,label,negative_class,positive_class\n0.25,ill,well,ill\n0.5,well,well,ill\n",
        {"class_names": ("well", "ill"), "labels": [1, 0]},
    ),
    "logit of ill": (
        "logit,label,negative_class,positive_class\n0.25,ill,well,ill\n0.5,well,well,ill\n",
        {"class_names": ("well", "ill"), "labels": [1, 0]},
    ),
    # Several labels, a column each; empty ones are no labels.
    "labels by name": (
        "label_b,label_a,prob_a,prob_b,label_text\n1,0,0.75,0.5,x\n0,0,0.5,1,y\n",
        {
            "kind": "multilabel",
            "class_names": ("a", "b"),
            "labels": [[0, 1], [0, 0]],
            "notes": ("Not used: `label_text`.",),
        },
    ),
    "empty labels": (
        "label_0,label_1,prob_0,prob_1\n,,0.75,0.5\n,,0.5,1\n",
        {"kind": "multilabel", "labels": None},
    ),
    "labels by number": (
        "label_1,label_0,label_2,prob_x,prob_y,prob_z\n0,1,1,0.9,0.5,0.25\n1,0,0,0.5,0.5,0.5\n",
        {
            "kind": "multilabel",
            "class_names": ("x", "y", "z"),
            "labels": [[1, 0, 1], [0, 1, 0]],
            "notes": (f"{PAIRS}`label_0`, `label_1`, `label_2` and `prob_x`, `prob_y`, `prob_z`.",),
        },
    ),
    "labels from 1": (
        "prob_b,prob_a,label_1,label_2\n0.9,0.8,1,0\n0,0,1,1\n",
        {"class_names": ("b", "a"), "labels": [[1, 0], [1, 1]]},
    ),
    "no labels": ("prob_0,prob_1\n1,0\n0,1\n", {"labels": None}),
    "no label": ("prob_0,prob_1,label\n1,0,\n0,1,\n", {"labels": None}),
    # Decimal commas, a byte order mark, line ends, blanks, quotes, blank lines and other separators.
    "commas": ("label;logit\n1;-1,234\n0;0,5\n", COMMAS),
    "commas in quotes": ('label,logit\n1,"-1,234"\n0,"0,5"\n', COMMAS),
    "a stated separator": ("sep=;\nlabel;logit\n1;-1,234\n0;0,5\n;\n", COMMAS),
    "a byte order mark": (
        "\ufefflabel,prob_0,prob_1,split,weight,group\n1,0.5,0.5,val,2,a\n0,1,0,test,1.5,b\n",
        FULL,
    ),
    "Windows": ("label,prob_0,prob_1,split,weight,group\r\n1,0.5,0.5,val,2,a\r\n0,1,0,test,1.5,b\r\n", FULL),
    "blanks": (
        "label, prob_0, prob_1, split, weight, group\n1, 0.5, 0.5, val, 2, a\n0, 1, 0, test, 1.5, b\n",
        FULL,
    ),
    "quotes": (
        '"label","prob_0","prob_1","split","weight","group"\n"1","0.5","0.5","val","2","a"\n0,1,0,test,1.5,b\n\n',
        FULL,
    ),
    "semicolons": ("label;prob_a;prob_b\nb;0,25;0,75\na;0,5;0,5\n", PARTED),
    "tabs": ("\n\nlabel\tprob_a\tprob_b\nb\t0.25\t0.75\na\t0.5\t0.5\n", PARTED),
    "bars": ("label|prob_a|prob_b\r\nb|0.25|0.75\r\na|0.5|0.5\r\n", PARTED),
}
STATED: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "one of two labels": (
        "y_true,target,prob\n1,0,0.5\n0,1,0.5\n",
        {"columns": ColumnNames(label="target")},
        {"labels": [0, 1]},
    ),
    "percentages below 1": (
        "label,prob\n1,0.7\n0,0.5\n",
        {"percent": True},
        {"probs": [pytest.approx(0.007), 0.005]},
    ),
    "another order": (
        "label_a,label_b,prob_a,prob_b\n1,0,0.9,0.8\n1,1,0.5,0.5\n",
        {"columns": ColumnNames(probs=("prob_b", "prob_a"))},
        {"class_names": ("b", "a"), "labels": [[0, 1], [1, 1]]},
    ),
}


def read(text: str, path, wanted: dict[str, Any], **options: Any) -> dict[str, Any]:
    path.write_bytes(text.encode())
    predictions = load_predictions(path, **options)
    found = {name: getattr(predictions, name) for name in wanted}
    return {name: each.tolist() if hasattr(each, "tolist") else each for name, each in found.items()}


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_is_read(name, tmp_path) -> None:
    text, wanted = TEXTS[name]
    assert read(text, tmp_path / "p.csv", wanted) == wanted


@pytest.mark.parametrize("name", STATED)
def test_a_text_is_read_as_stated(name, tmp_path) -> None:
    text, options, wanted = STATED[name]
    assert read(text, tmp_path / "p.csv", wanted, **options) == wanted
