"""Fields of a request say how its files are read and judged."""

from __future__ import annotations

from typing import Any

import pytest

from calibrant import InputError
from calibrant.web import evaluations
from calibrant.web.app import create_app
from calibrant.web.limits import Limits
from calibrant.web.uploads import Upload
from calibrant.web.wanted import OPTIONS, Wanted
from calibrant.web.work import Answer, predictions_of
from web_client import Client, Here

TABLE = "truth,no,yes,site,who\n" + "".join(
    f"{k % 2},0.{k + 1},0.{9 - k},{'ns'[k % 2]},{k // 2}\n" for k in range(8)
)


def test_columns_of_other_names() -> None:
    """A table with names of its own, groups, clusters and another ending is read as it says."""
    file = Upload("table.txt", TABLE.encode())
    wanted = Wanted(
        label_column="truth", prob_columns=("no", "yes"), group_column=("site",), cluster="who", format="csv"
    )
    found = predictions_of(file, Limits(), wanted)
    assert found.class_names == ("no", "yes")
    assert [str(each) for each in found.groups or ()] == list("nsnsnsns")
    assert [str(each) for each in found.clusters or ()] == list("00112233")
    assert found.labels is not None
    assert found.labels.tolist() == [0, 1] * 4
    same = predictions_of(file, Limits(), Wanted(**{**vars(wanted), "cluster": "site"}))
    assert [str(each) for each in same.clusters or ()] == list("nsnsnsns")
    with pytest.raises(InputError, match=r"table.txt: it holds no column `label`|table.txt.*no column `t`"):
        predictions_of(file, Limits(), Wanted(**{**vars(wanted), "label_column": "t"}))
    with pytest.raises(InputError, match="must end in one of"):
        predictions_of(file, Limits(), Wanted(format="npy"))


def test_every_field_arrives(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each option is taken by ``/evaluate`` as it was sent; comparisons take all but methods."""
    asked, seen = Client(create_app(Here(), limits=Limits())), list[Wanted]()

    def noted(*args: Any) -> Answer:
        seen.extend(each for each in args if isinstance(each, Wanted))
        return Answer(json="{}")

    monkeypatch.setattr(evaluations, "evaluated", noted)
    monkeypatch.setattr(evaluations, "compared", noted)
    numbers = {"bins": 7, "bootstrap": 9, "level": 0.9, "seed": 3}
    lists = {
        "method": ("a, b", "c"),
        "prob_columns": ("x", "y"),
        "logit_columns": ("z",),
        "group_column": ("g",),
    }
    texts = {name: f"my {name}" for name in OPTIONS if name not in {*numbers, *lists}}
    sent = {**texts, **{name: str(value) for name, value in numbers.items()}, "prob_columns": "x, y,"}
    sent |= {"logit_columns": "z", "group_column": "g", "method": ["a, b", "c"]}  # a method may hold commas
    file = ("file", ("a.csv", TABLE))
    assert asked.post("/evaluate", files=[file], data=sent).status_code == 200
    assert seen == [Wanted(**numbers, **lists, **texts)]
    refused = asked.post("/compare", files=[file, file], data=sent)
    assert (refused.status_code, "no field 'method'" in refused.json()["error"]) == (422, True)
    del sent["method"]
    assert asked.post("/compare", files=[file, file], data=sent).status_code == 200
    body = asked.get("/openapi.json").json()["paths"]["/evaluate"]["post"]["requestBody"]
    assert set(OPTIONS) < set(body["content"]["multipart/form-data"]["schema"]["properties"])


def test_commands_of_a_report_read_the_file_alike() -> None:
    """The options stand in the commands; what is new has no labels."""
    wanted = Wanted(label_column="truth", prob_columns=("no", "yes"), format="csv")
    assert wanted.words() == "--label-column truth --prob-columns no,yes --format csv"
    assert wanted.words("label_column") == "--prob-columns no,yes --format csv"
