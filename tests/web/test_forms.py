"""Fields of a request say how its files are read and judged."""

import json
from typing import Any

import pandas
import pytest

from calibrant import InputError
from calibrant.web import app
from calibrant.web.app import create_app
from calibrant.web.forms import EXAMPLE_CSV, OPTIONS, EvaluateForm
from calibrant.web.limits import Limits
from calibrant.web.uploads import Upload
from calibrant.web.work import Answer, predictions_of
from undrawn import drawing_no_diagrams
from web_client import Client, Here

TABLE = "truth,no,yes,site,who\n" + "".join(
    f"{k % 2},0.{k + 1},0.{9 - k},{'ns'[k % 2]},{k // 2}\n" for k in range(8)
)


def test_columns_of_other_names() -> None:
    """A table with names of its own, groups, clusters and another ending is read as it says."""
    file = Upload("table.txt", TABLE.encode())
    wanted = EvaluateForm(
        label_column="truth", prob_columns=("no", "yes"), group_column=("site",), cluster="who", format="csv"
    )
    found = predictions_of(file, Limits(), wanted)
    assert found.class_names == ("no", "yes")
    assert [str(each) for each in found.groups or ()] == list("nsnsnsns")
    assert [str(each) for each in found.clusters or ()] == list("00112233")
    assert found.labels.tolist() == [0, 1] * 4
    same = predictions_of(file, Limits(), EvaluateForm(**{**vars(wanted), "cluster": "site"}))
    assert [str(each) for each in same.clusters or ()] == list("nsnsnsns")
    with pytest.raises(InputError, match=r"table.txt: it holds no column `label`|table.txt.*no column `t`"):
        predictions_of(file, Limits(), EvaluateForm(**{**vars(wanted), "label_column": "t"}))
    both = EvaluateForm(**{**vars(wanted), "group_column": ("site", "who"), "cluster": "site"})
    with pytest.raises(InputError, match="`site` is named as group and as cluster"):
        predictions_of(file, Limits(), both)
    with pytest.raises(InputError, match="must end in one of"):
        predictions_of(file, Limits(), EvaluateForm(format="npy"))


def test_every_field_arrives(monkeypatch) -> None:
    """Each option is taken by ``/evaluate`` as it was sent; comparisons take all but methods."""
    asked, seen = Client(create_app(Here(), limits=Limits())), list[EvaluateForm]()

    def noted(*args: Any) -> Answer:
        seen.extend(each for each in args if isinstance(each, EvaluateForm))
        return Answer(json="{}")

    monkeypatch.setattr(app, "evaluated", noted)
    monkeypatch.setattr(app, "compared", noted)
    numbers = {"bins": 7, "bootstrap": 9, "level": 0.9, "seed": 3}
    lists = {
        "method": ("a, b", "c"),
        "prob_columns": ("x", "y"),
        "logit_columns": ("z",),
        "group_column": ("g",),
        "thresholds": (".05", "20%"),
    }
    texts = {name: f"my {name}" for name in OPTIONS if name not in {*numbers, *lists}}
    sent = {**texts, **{name: str(value) for name, value in numbers.items()}, "prob_columns": "x, y,"}
    sent |= {
        "logit_columns": "z",
        "group_column": "g",
        "thresholds": ".05, 20%",
        "method": ["a, b", "c"],
    }  # a method may hold commas
    file = ("file", ("a.csv", TABLE))
    assert asked.post("/evaluate", files=[file], data=sent).status_code == 200
    assert seen == [EvaluateForm(**numbers, **lists, **texts)]
    twice = asked.post("/evaluate", files=[file], data={"bins": ["10", "20"]})
    assert (twice.status_code, twice.json()["error"]) == (422, "`bins` must be given once; got 2 values.")
    refused = asked.post("/compare", files=[file, file], data=sent)
    assert (refused.status_code, "no field 'method'" in refused.json()["error"]) == (422, True)
    del sent["method"]
    assert asked.post("/compare", files=[file, file], data=sent).status_code == 200
    body = asked.get("/openapi.json").json()["paths"]["/evaluate"]["post"]["requestBody"]
    assert set(OPTIONS) < set(body["content"]["multipart/form-data"]["schema"]["properties"])


def test_commands_of_a_report_read_the_file_alike() -> None:
    wanted = EvaluateForm(label_column="truth", prob_columns=("no", "yes"), format="csv")
    assert wanted.words() == "--label-column truth --prob-columns no,yes --format csv"
    assert wanted.words("label_column") == "--prob-columns no,yes --format csv"


@drawing_no_diagrams()
@pytest.mark.parametrize("ending", ["csv", "jsonl", "json", "parquet", "feather"])
def test_errors_speak_of_fields_and_list_the_columns(client, tmp_path, ending) -> None:
    """No option of the command line; the columns come with the error and with the answer."""
    rows = [{"died": k % 2, "risk": 0.25 + k % 2 / 2, "age": k} for k in range(40)]
    frame = pandas.DataFrame(rows)
    path = tmp_path / f"t.{ending}"
    {
        "csv": lambda: frame.to_csv(path, index=False),
        "jsonl": lambda: frame.to_json(path, orient="records", lines=True),
        "json": lambda: frame.to_json(path, orient="records"),
        "parquet": lambda: frame.to_parquet(path),
        "feather": lambda: frame.to_feather(path),
    }[ending]()
    file = {"file": (path.name, path.read_bytes())}
    refused = client.post("/evaluate", files=file, data={"bootstrap": "20"})
    assert refused.status_code == 422
    assert refused.json()["columns"] == ["died", "risk", "age"]
    assert "`label_column`" in refused.json()["error"]
    assert "--" not in refused.json()["error"]
    names = {"label_column": "died", "prob_columns": "risk", "bootstrap": "20", "method": "temperature"}
    lines = {"accept": "application/x-ndjson"}
    found = client.post("/evaluate", files=file, data=names, headers=lines)
    assert json.loads(found.text.splitlines()[-1])["columns"] == ["died", "risk", "age"]


def test_net_benefit_at_thresholds(client) -> None:
    """As ``evaluate --thresholds``; wrong ones are refused by the name of the field."""
    given = {"file": ("a.csv", EXAMPLE_CSV)}
    found = client.post("/evaluate", files=given, data={"bootstrap": "20", "thresholds": ".05, 20%"}).json()
    assert {"net_benefit_0.05", "net_benefit_0.2"} <= set(found["arms"][0]["metrics"])
    for wrong, words in (("2", "`thresholds` must be numbers"), (",".join(["0.1"] * 21), "20 times; got 21")):
        refused = client.post("/evaluate", files=given, data={"thresholds": wrong})
        assert (refused.status_code, words in refused.json()["error"]) == (422, True)
