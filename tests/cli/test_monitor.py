"""``calibrant monitor``: a table with times in, windows and an exit code out."""

import json
import re
from pathlib import Path

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet
from scipy.special import expit

from calibrant import InputError, load_predictions
from calibrant.predictions import ColumnNames
from calibrant.predictions.files import load_timed
from command_line import call


def run(folder: Path, *arguments: str) -> tuple[int, str]:
    """Exit code, and everything that is said, without the breaks of lines."""
    found = call("monitor", *arguments, folder=folder)
    return found.returncode, " ".join(f"{found.stdout} {found.stderr}".split())


@pytest.fixture
def stream(tmp_path: Path) -> Path:
    """Twelve days of a model that becomes over-confident on the sixth; some labels are missing."""
    rng = np.random.default_rng(0)
    day = np.repeat(np.arange(12), 150)
    log_odds = 2 * rng.normal(size=len(day))
    labels = rng.random(len(day)) < expit(np.where(day < 6, 1, 0.2) * log_odds)
    lines = ["when,label,prob"]
    for row, number in enumerate(day):
        label = "" if number == 11 and row % 2 else str(int(labels[row]))
        lines.append(f"2026-11-{number + 1:02d}T08:00:00,{label},{expit(log_odds[row])}")
    path = tmp_path / "stream.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_an_alarm_is_exit_code_1(stream, tmp_path) -> None:
    out, metrics = tmp_path / "found.json", tmp_path / "found.prom"
    given = ["--time", "when", "--bootstrap", "10", "--json", str(out), "--prometheus", str(metrics)]
    code, said = run(tmp_path, str(stream), *given)
    assert code == 1
    assert "ALARM: Outcomes do not match the predicted probabilities, most likely since 2026-11-0" in said
    assert "75 of 1,800 samples have no label yet." in said
    assert "75/150" in said
    content = json.loads(out.read_text(encoding="utf-8"))
    last = content["windows"][9]["metrics"]
    predicted, actual = (last[name]["value"] for name in ("mean_probability", "prevalence"))
    assert last["event_ece"]["value"] >= abs(predicted - actual)
    (shown,) = re.findall(r"150/150 +([\d.]+%) +([\d.]+%) +([\d.]+) ", said.partition("2026-11-10")[2])[:1]
    assert shown == (f"{predicted:.1%}", f"{actual:.1%}", f"{last['event_ece']['value']:#.3g}")
    assert not content["passed"]
    assert len(content["windows"]) == 12
    lines = metrics.read_text(encoding="utf-8").splitlines()
    assert 'calibrant_monitor_alarm{file="stream.csv"} 1' in lines
    assert 'calibrant_monitor_window_end_seconds{file="stream.csv"} 1794528000' in lines
    assert any(line.startswith('calibrant_monitor_window{file="stream.csv",metric="ece"') for line in lines)
    named = [line.split("{")[0].split(" ")[0] for line in lines if not line.startswith("#")]
    assert all(f"# TYPE {name} gauge" in lines for name in named)


@pytest.mark.parametrize("time", ["2026-01-{:02d}T12:30:15", "17{:02d}000000"])
def test_nothing_is_cut_in_a_narrow_terminal(tmp_path, time) -> None:
    """Of times in full and intervals of four decimals, too, each letter is there at 80 columns."""
    rows = [f"{time.format(1 + k // 80)},{int(k % 3 == 0)},{0.2 + 0.01 * (k % 31)}" for k in range(320)]
    path = tmp_path / "times.csv"
    path.write_text("\n".join(["when,label,prob", *rows]) + "\n", encoding="utf-8")
    window = "1000000" if time.startswith("17") else "12h"
    given = ["--time", "when", "--window", window, "--bootstrap", "20"]
    said = call("monitor", str(path), *given, folder=tmp_path).stdout
    assert "evidence\n" in said
    assert "…" not in said
    table = said.partition("window ")[2].partition("Evidence of")[0]
    assert max(map(len, table.splitlines())) <= 80


def test_a_quiet_stream_is_exit_code_0(stream, tmp_path) -> None:
    """Of the first days nothing is printed with ``--quiet``, and with a baseline the question is another."""
    few = tmp_path / "few.csv"
    few.write_text("\n".join(stream.read_text().splitlines()[: 1 + 5 * 150]) + "\n", encoding="utf-8")
    given = ["--time", "when", "--window", "1w", "--bootstrap", "10", "--baseline", str(few)]
    assert run(tmp_path, str(few), *given, "--quiet") == (0, "")
    code, said = run(tmp_path, str(few), *given)
    assert code == 0
    assert "No alarm: No evidence that, at the same predicted probability, outcomes differ" in said
    assert "note: No evidence against the predicted probabilities" in said


def test_dates_of_a_report_stay_on_one_line(stream, tmp_path) -> None:
    """No date stands in the text of the page outside an element that is not broken."""
    run(stream.parent, str(stream), "--time", "when", "--report", str(tmp_path / "r.html"))
    page = (tmp_path / "r.html").read_text(encoding="utf-8").partition("<body>")[2]
    page = re.sub(r"<svg.*?</svg>|<pre.*?</pre>|<time.*?</time>", "", page, flags=re.DOTALL)
    kept = re.findall(r'<span class="date">(\d{4}-\d\d-\d\d[\d :]*)</span>', page)
    assert len(kept) == len(re.findall(r"\d{4}-\d\d-\d\d", page)) > 2


@pytest.mark.parametrize("ending", [".jsonl", ".parquet", ".tsv"])
def test_other_tables(stream, tmp_path, ending) -> None:
    rows = [line.split(",") for line in stream.read_text().splitlines()[1:]]
    records = [
        {"when": when, "label": int(label) if label else None, "prob": float(prob)}
        for when, label, prob in rows
    ]
    path = tmp_path / f"stream{ending}"
    if ending == ".parquet":
        parquet.write_table(pyarrow.Table.from_pylist(records), path)
    elif ending == ".jsonl":
        path.write_text("\n".join(json.dumps(each) for each in records), encoding="utf-8")
    else:
        path.write_text(stream.read_text().replace(",", "\t"), encoding="utf-8")
    given = ["--time", "when", "--window", "1w", "--bootstrap", "2", "--json", "-"]
    texts = [call("monitor", str(each), *given, folder=tmp_path).stdout for each in (stream, path)]
    one, other = map(json.loads, texts)
    assert one["tests"] == other["tests"]


def test_a_page_shows_the_stream_and_patients_are_clusters(stream, tmp_path) -> None:
    """The page says what the alarm says, window by window; a page of something else is not replaced."""
    lines = stream.read_text(encoding="utf-8").splitlines()
    rows = [f"{line},p{row // 3}" for row, line in enumerate(lines[1:])]
    stream.write_text("\n".join([f"{lines[0]},patient", *rows]), encoding="utf-8")
    given = ["--time", "when", "--window", "3d", "--bootstrap", "4", "--cluster", "patient"]
    code, said = run(tmp_path, str(stream), *given, "--report", "page.html", "--title", "Ward 7")
    assert (code, "share one stake" in said) == (1, True)
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    for each in (
        "Ward 7",
        'Alarm on <span class="date">2026-11-',
        "at the end of a window, a model",
        ">Windows<",
        "<svg",
        "patient",
    ):
        assert each in page
    assert str(tmp_path) not in page
    (tmp_path / "mine.html").write_text("my own", encoding="utf-8")
    code, said = run(tmp_path, str(stream), *given, "--report", "mine.html")
    assert (code, "--force" in said) == (2, True)


@pytest.mark.parametrize("word", ["", "NA", "NaN", "null", "None", "N/A", "?", "<NA>"])
def test_every_word_for_missing_is_a_label_not_known_yet(tmp_path, word) -> None:
    """The words that other commands refuse as missing, in any column of labels, as text and as JSON."""
    rows = [f"2026-01-0{1 + k % 3},{k % 2},0.5" for k in range(12)] + [f"2026-01-03,{word},0.5"] * 2
    (tmp_path / "t.csv").write_text("\n".join(["when,died,prob", *rows]) + "\n")
    found = load_timed(tmp_path / "t.csv", time="when", columns=ColumnNames(label="died"))
    assert found.labelled.tolist() == [True] * 12 + [False] * 2
    with pytest.raises(InputError, match="`died` is missing in 2 of 14 rows"):
        load_predictions(tmp_path / "t.csv", columns=ColumnNames(label="died"))


def test_a_stream_is_read_as_evaluate_reads_it(tmp_path) -> None:
    """Two words of which one is positive, percentages with and without being asked, another scale."""
    rows = [(f"2026-01-0{1 + k % 3}", ("bad", "good")[k % 2], 20 + k % 61) for k in range(90)]
    for name, head, cells in (
        ("words", "label,prob", [f"{label},{score / 100}" for _, label, score in rows]),
        ("percent", "label,prob", [f"{label == 'bad':d},{score}" for _, label, score in rows]),
        ("stars", "label,prob", [f"{label == 'bad':d},{1 + score / 25}" for _, label, score in rows]),
    ):
        lines = [f"{day},{cell}" for (day, *_), cell in zip(rows, cells, strict=True)]
        (tmp_path / f"{name}.csv").write_text("\n".join([f"when,{head}", *lines]) + "\n")
    evidence = set()
    for given in (
        ("words.csv", "--positive-class", "bad"),
        ("percent.csv",),
        ("percent.csv", "--percent"),
        ("stars.csv", "--scale", "1:5"),
    ):
        done = call("monitor", *given, "--time", "when", "--bootstrap", "5", "--json", "-", folder=tmp_path)
        evidence.add(round(json.loads(done.stdout)["tests"][0]["log10_evidence"][-1], 9))
    assert len(evidence) == 1


def test_not_a_number_and_none_in_records_are_missing(tmp_path) -> None:
    rows = [{"t": k, "label": [1, 0, None, float("nan")][k % 4], "prob": 0.5} for k in range(8)]
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert load_timed(tmp_path / "t.jsonl", time="t").labelled.tolist() == [True, True, False, False] * 2
    (tmp_path / "t.csv").write_text("t,label,prob_EU,prob_NA\n1,EU,0.5,0.5\n2,NA,0.5,0.5\n3,,0.5,0.5\n")
    assert load_timed(tmp_path / "t.csv", time="t").labelled.tolist() == [True, True, False]


@pytest.mark.parametrize("header", ["when,prob", "when,prob,label"])
def test_a_stream_without_labels_is_watched_for_drift(tmp_path, header) -> None:
    """With no column of labels, or an empty one: stated probabilities are compared with the baseline's."""
    rng = np.random.default_rng(0)
    before = "".join(f"{int(rng.random() < prob)},{prob}\n" for prob in rng.beta(2, 2, 600))
    (tmp_path / "before.csv").write_text("label,prob\n" + before)
    probs = np.concatenate([rng.beta(2, 2, 600), rng.beta(4, 2, 200)])
    end = "," if "label" in header else ""
    rows = "".join(f"2026-11-{1 + row // 200:02d},{prob}{end}\n" for row, prob in enumerate(probs))
    (tmp_path / "now.csv").write_text(f"{header}\n{rows}")
    code, said = run(tmp_path, "now.csv", "--time", "when", "--baseline", "before.csv")
    assert code == 1
    assert "ALARM: The distribution of the predicted probabilities differs from the baseline" in said
    assert "most likely since 2026-11-04" in said
    assert "whether they are still right needs labels" in said
