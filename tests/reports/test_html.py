"""The report as a file: whole, valid, free of links, and true to the data."""

import csv
import dataclasses
import io
import re
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from rich.console import Console

from calibrant._math.errors import InputError
from calibrant.evaluation import compare, evaluate
from calibrant.evaluation.result import Choice, ChoiceRow, Comparison, Curve, Evaluation, Repair
from calibrant.predictions import Predictions
from calibrant.reports import html, render, render_comparison, tables, words, write_report
from calibrant.reports.html import report_date, report_text
from calibrant.reports.sharing import to_share
from undrawn import drawing_no_diagrams

EVALUATIONS: dict[str, dict[str, Any]] = {
    "multiclass": {"num_classes": 8},
    "many classes": {"num_classes": 1000, "arms": ("uncalibrated", "temperature")},
    "binary": {"kind": "binary", "arms": ("uncalibrated", "temperature", "platt"), "recommended": "platt"},
    "multilabel": {"kind": "multilabel", "num_classes": 8},
    "many labels": {"kind": "multilabel", "num_classes": 30, "arms": ("uncalibrated", "temperature")},
    "top label": {"kind": "top_label", "arms": ("uncalibrated",)},
    "nothing to repair": {"recommended": "uncalibrated"},
    "from Python": {"source": None, "command": None},
}
COMPARISONS: dict[str, dict[str, Any]] = {
    "compared": {},
    "compared binary": {"kind": "binary", "paired": False},
    "compared multilabel": {"kind": "multilabel"},
    "compared many": {"num_models": 9},
}
EVERY = (*EVALUATIONS, *COMPARISONS)


@dataclass(frozen=True)
class Made:
    """A report, what it was made from, and what a reader of HTML finds in it."""

    found: Any
    text: str
    page: Any


@pytest.fixture(scope="module")
def report_on(
    evaluation_of: Callable[..., Evaluation],
    comparison_of: Callable[..., Comparison],
    page_of: Callable[[str], Any],
) -> Callable[[str], Made]:
    """The data, the text and the page of a report, made once."""
    made: dict[str, Made] = {}

    def report(case: str) -> Made:
        if case not in made:
            found = (
                evaluation_of(**EVALUATIONS[case])
                if case in EVALUATIONS
                else comparison_of(**COMPARISONS[case])
            )
            text = report_text(found)
            made[case] = Made(found, text, page_of(text))
        return made[case]

    return report


def faults(page: Any) -> list[str]:
    """What is wrong with a page as HTML, or for readers who cannot see it."""
    found: list[str] = []
    ids = Counter(element.attributes["id"] for element in page.walk() if "id" in element.attributes)
    found += [f"id {name} is not unique" for name, count in ids.items() if count > 1]
    levels = [int(element.tag[1]) for element in page.walk() if re.fullmatch("h[1-6]", element.tag)]
    if levels.count(1) != 1 or levels[0] != 1:
        found.append("there must be one h1, and it must come first")
    found += [f"h{a} is followed by h{b}" for a, b in pairwise(levels) if b > a + 1]
    for element in page.walk():
        given = element.attributes
        for value in given.values():
            found += [
                f"#{name} leads nowhere" for name in re.findall(r"url\(#([^)]+)\)", value) if name not in ids
            ]
        for key in ("href", "src", "srcset", "action", "data", "poster"):
            target = given.get(key, "#" if key != "href" else "data:,")
            if key in given and target != "data:," and target[1:] not in ids:
                found.append(f"{key}={target} leads out of the page")
        found += [
            f"#{name} labels nothing" for name in given.get("aria-labelledby", "").split() if name not in ids
        ]
        if element.tag == "th" and given.get("scope") not in {"col", "row", "rowgroup"}:
            found.append(f"th {element.text!r} has no scope")
        if element.tag == "svg" and given.get("aria-hidden") != "true" and not given.get("aria-label"):
            found.append("a picture has no words")
        if element.tag == "p" and element.all(
            "p", "div", "ul", "table", "details", "figure", "dl", "h2", "h3"
        ):
            found.append(f"a paragraph holds a block: {element.text[:40]!r}")
        if any(key.startswith("on") for key in given):
            found.append(f"<{element.tag}> has an inline handler")
    return found


@pytest.mark.parametrize("case", EVERY)
def test_every_report(case, report_on) -> None:
    """Valid, accessible, without a network, dark where the page is, its contents and names complete."""
    made = report_on(case)
    found, page = made.found, made.page
    assert made.text.startswith('<!DOCTYPE html>\n<html lang="en">')
    assert faults(page) == []
    assert page.all("title")[0].text
    assert [element.attributes["name"] for element in page.all("meta") if "name" in element.attributes]
    # No address, no import of styles, and a policy that forbids loading anything.
    assert not re.search(r"https?:|//cdn|@import|@font-face|xlink|xmlns", made.text)
    assert re.search(r"Content-Security-Policy\" content=\"default-src 'none'", made.text)
    # Every colour of every picture is one of the page's own, so that the dark variant reaches it.
    pictures = "".join(re.findall(r"<svg.*?</svg>", made.text, flags=re.DOTALL))
    assert not re.search(r"#[0-9a-fA-F]{6}|rgb\(", pictures)
    style = made.text[made.text.index("<style>") : made.text.index("</style>")]
    light, _, dark = style.partition("prefers-color-scheme: dark")
    for name in re.findall(r"var\((--[a-z]+)\)", pictures):
        assert f"{name}: #" in light
        assert f"{name}: #" in dark
    (contents,) = page.all("nav")
    headings = [heading.attributes.get("id") for heading in page.all("h2")]
    assert [link.attributes["href"][1:] for link in contents.all("a")] == headings
    # What can be downloaded as CSV has the same number of cells in every row.
    figures = [each for each in page.all("figure") if each.all("svg")]
    assert figures
    for figure in figures:
        rows = list(csv.reader(figure.attributes["data-csv"].splitlines()))
        assert len(rows) > 1
        assert {len(row) for row in rows} == {len(rows[0])}
    # Names with markup appear as text; the only script and the only styles are the report's own.
    assert len(page.all("script")) == len(page.all("style")) == 1
    assert not any(element.children == ["markup"] for element in page.walk())
    names = [model.name for model in found.models] if isinstance(found, Comparison) else []
    if isinstance(found, Evaluation) and found.kind != "binary":
        names = [" ".join(name.split()) for name in found.class_names or ()]
    text = page.text
    assert [name for name in (*names, *found.notes) if name not in text] == []


@pytest.mark.parametrize(
    ("planted", "fault"),
    [
        ('<a href="https://example.org/x.css">x</a>', "leads out of the page"),
        ('<img src="//cdn/x.png">', "leads out of the page"),
        ("<h4>deep</h4>", "is followed by h4"),
        ("<table><tr><th>x</th></tr></table>", "has no scope"),
        ('<svg viewBox="0 0 1 1"><path style="fill: url(#gone)"/></svg>', "has no words"),
        ('<p id="numbers">again</p>', "is not unique"),
        ("<p><div>x</div></p>", "holds a block"),
    ],
)
def test_the_check_of_pages_bites(planted, fault, report_on, page_of) -> None:
    """A planted fault of each kind is found."""
    made = report_on("multiclass")
    page = page_of(made.text.replace("<main>", f"<main>{planted}"))
    assert any(fault in found for found in faults(page))
    with pytest.raises(AssertionError, match="</div> closes <p>"):  # of the reader itself
        page_of("<div><p></div>")


def luminance(colour: str) -> float:
    """Relative luminance as WCAG 2 defines it."""
    channels = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_colours_can_be_read_in_light_and_dark() -> None:
    """Words have a contrast of 4.5 at least and lines of 3, on the page and on its panels (WCAG 2 AA)."""
    style = (Path(html.__file__).parent / "templates" / "style.css").read_text(encoding="utf-8")
    light, _, dark = style.partition("prefers-color-scheme: dark")
    for theme in (light, dark[: dark.index("*, *::before")]):
        colour = dict(re.findall(r"(--[a-z-]+): (#[0-9a-f]{6})", theme))
        for ground in ("--page", "--panel"):
            for name in ("ink", "soft", "vermillion", "green", "blue", "pink", "ochre", "sky", "grey"):
                pair = sorted((luminance(colour[ground]), luminance(colour[f"--{name}"])))
                least = 4.5 if name in {"ink", "soft", "vermillion", "green", "blue"} else 3
                contrast = (pair[1] + 0.05) / (pair[0] + 0.05)
                if ground == "--page" or least == 4.5:
                    assert contrast >= least, (name, ground, contrast)


@pytest.mark.parametrize("case", [case for case in EVERY if case != "from Python"])
def test_the_table_of_metrics_says_what_the_data_say(case, report_on) -> None:
    """Value, interval, change, its interval and its judgement stand in the cell of their metric and arm."""
    made = report_on(case)
    found = made.found
    parts = tables.ordered_arms(found) if isinstance(found, Evaluation) else found.models
    rows = {
        row.attributes["data-metric"]: row.all("td")
        for row in made.page.all("tr")
        if "data-metric" in row.attributes
    }
    known = {key for key in parts[0].metrics if any(part.metrics[key].value is not None for part in parts)}
    assert set(rows) == known
    for key, cells in rows.items():
        assert len(cells) == len(parts)
        for part, cell in zip(parts, cells, strict=True):
            estimate = part.metrics[key]
            changes = part.change if isinstance(found, Evaluation) else part.difference
            change = changes.get(key)
            expected = [words.number(estimate.value), words.interval(estimate)]
            if change is not None and change.value is not None:
                expected += [words.number(change.value, signed=True), words.interval(change, signed=True)]
                mark = words.mark_of_change(key, found.kind, estimate, change)
                assert bool(cell.all(class_="better")) == (mark == "better")
                assert (f"✓ {mark}" in cell.text) == (mark == "better")
                assert (f"✗ {mark}" in cell.text) == (mark == "worse")
            numbers = [part for part in expected if part]
            assert re.findall(r"\[[+−]?\d+\.\d{4}, [+−]?\d+\.\d{4}\]|[+−]?\d+\.\d{4}", cell.text) == sorted(
                numbers, key=cell.text.index
            )
            assert (estimate.reason or "") in cell.text


def test_the_best_of_a_row_is_named_and_not_by_colour_alone(report_on) -> None:
    """Exactly the arm with the best value as shown carries the word; metrics without a good end have none."""
    made = report_on("multilabel")
    found = made.found
    for row in made.page.all("tr"):
        key = row.attributes.get("data-metric")
        if key is None:
            continue
        named = [place for place, cell in enumerate(row.all("td")) if "best" in cell.text.split()]
        values = [round(arm.metrics[key].value, 4) for arm in found.arms]
        better = words.metric(key, "multilabel").better
        if better is None:
            assert named == []
        else:
            best = max(values) if better == "higher" else min(values, key=abs)
            assert named == ([] if len(set(values)) == 1 else [p for p, v in enumerate(values) if v == best])


def test_missing_values_say_why(report_on) -> None:
    """A metric that no arm has stands below the table with its reason, a missing interval in its cell."""
    made = report_on("top label")
    missing = made.page.all("p", class_="missing")[0].text
    assert missing.startswith("Not computed:")
    assert "needs the probabilities of all classes" in missing
    for title in ("Log loss", "Brier score", "AUROC", "Classwise ECE"):
        assert title in missing
    made = report_on("multiclass")
    assert "infinite: 3 samples have probability 0 for their label" in made.page.text
    (row,) = (row for row in made.page.all("tr") if row.attributes.get("data-metric") == "mce")
    assert "0.1331 too few samples for an interval" in row.all("td")[0].text


@drawing_no_diagrams()
def test_a_value_that_one_arm_lacks_keeps_its_cell(evaluation_of, page_of) -> None:
    """Where the others have a value, the cell of the one that has none says why."""
    found = evaluation_of("binary")
    lacking = dataclasses.replace(
        found.arms[1].metrics["nll"], value=None, low=None, high=None, reason="it is <infinite>"
    )
    arm = dataclasses.replace(found.arms[1], metrics={**found.arms[1].metrics, "nll": lacking})
    page = page_of(report_text(dataclasses.replace(found, arms=(found.arms[0], arm, found.arms[2]))))
    (row,) = (row for row in page.all("tr") if row.attributes.get("data-metric") == "nll")
    assert row.all("td")[1].text == "– it is <infinite>"


def bin_rows(curve: Curve) -> list[list[str]]:
    """The rows that a table of bins should show."""
    rows: list[list[str]] = []
    for place, size in enumerate(curve.counts):
        name = f"{curve.edges[place]:.3g}–{curve.edges[place + 1]:.3g}"
        low, high = words.number(curve.low[place]), words.number(curve.high[place])
        expected = words.number(curve.expected_low[place]), words.number(curve.expected_high[place])
        rows.append(
            [
                name,
                words.count(size),
                words.number(curve.confidence[place]),
                words.number(curve.accuracy[place]),
                f"{low} to {high}",
                f"{expected[0]} to {expected[1]}",
            ]
            if size
            else [name, "0", "empty"]
        )
    return rows


@pytest.mark.parametrize("case", ["multiclass", "binary", "top label", "compared", "compared binary"])
def test_every_bin_of_every_diagram_is_a_number_too(case, report_on) -> None:
    """Below each diagram stand the counts, shares and bands that it draws; empty bins say so."""
    made = report_on(case)
    found = made.found
    tables = [
        [[cell.text for cell in row.all("th", "td")] for row in element.all("tbody")[0].all("tr")]
        for element in made.page.all("table", class_="small")
    ]
    parts = found.arms if isinstance(found, Evaluation) else found.models
    expected = [bin_rows(curve) for part in parts for curve in part.curves]
    assert len(tables) == len(expected)
    assert any(row[-1] == "empty" for table in tables for row in table)
    for table in expected:
        assert table in tables


CLASSES = ["multiclass", "many classes", "many labels", "binary", "multilabel", "nothing to repair"]


@pytest.mark.parametrize("case", CLASSES)
def test_the_table_of_classes_holds_every_class(case, report_on) -> None:
    """Every class stands in it once with its numbers, the largest error first; long tables fold their end."""
    made = report_on(case)
    found = made.found
    tables = made.page.all("table", class_="sortable")
    shown = [
        [cell.text for cell in row.all("th", "td")]
        for table in tables
        for row in table.all("tbody")[0].all("tr")
    ]
    repaired = found.verdict.recommended != "uncalibrated"
    later = {row.name: row for row in found.arm(found.verdict.recommended).classes}
    expected = [
        [
            " ".join(row.name.split()),
            words.count(row.count),
            words.number(row.prevalence),
            words.number(row.mean_probability),
            words.number(row.ece),
            *([words.number(later[row.name].ece)] if repaired else []),
            words.number(row.auroc),
            words.number(row.accuracy),
        ]
        for row in sorted(found.arms[0].classes, key=lambda row: -row.ece)
    ]
    assert shown == expected
    sizes = [len(table.all("tbody")[0].all("tr")) for table in tables]
    assert sizes == ([6, len(expected) - 6] if len(expected) > 10 else [len(expected)])


@pytest.mark.parametrize("case", ["multiclass", "binary", "compared"])
def test_chance_is_answered_in_words_and_numbers(case, report_on) -> None:
    """For every error that chance was drawn for: found, mean, upper bound and p, of every arm."""
    made = report_on(case)
    found = made.found
    (section,) = made.page.all("section", aria_labelledby="chance")
    shown = [[cell.text for cell in row.all("th", "td")] for row in section.all("tbody")[0].all("tr")]
    parts = tables.ordered_arms(found) if isinstance(found, Evaluation) else found.models
    assert shown == [
        [
            *(
                [" ".join((part.title if isinstance(found, Evaluation) else part.name).split())]
                if first
                else []
            ),
            words.metric(null.metric, found.kind).title,
            words.number(part.metrics[null.metric].value),
            words.number(null.mean),
            words.number(null.upper),
            "≤ 0.001" if null.p_value < 0.001 else f"{null.p_value:.2g}",
        ]
        for part in parts
        for first, null in zip((True, *(False,) * len(part.null)), part.null, strict=False)
    ]
    if case == "multiclass":
        assert (
            "ECE: a perfectly calibrated model would score 0.0121 on this many samples, and "
            "below 0.0173 in 95% of cases; this one scores 0.0519 (p ≤ 0.001)."
        ) in section.text


def test_the_first_screen_answers(report_on) -> None:
    """Verdict, one line, the diagrams, three numbers with intervals and a command come before all else."""
    made = report_on("multiclass")
    found = made.found
    (header,) = made.page.all("header")
    assert header.all("h1")[0].text == f"▼ {found.verdict.short}"
    assert header.all("p", class_="line")[0].text == found.verdict.line
    captions = [each.text for each in header.all("figcaption")]
    assert captions == ["Before: is 90% confidence 90% right?", "After: Temperature scaling"]
    rows = [row.text for row in header.all("table", class_="three")[0].all("tbody")[0].all("tr")]
    assert len(rows) == 3
    assert "0.0519 ✗ [0.0467, 0.0581] floor 0.0173 0.0156 better [0.0140, 0.0174]" in rows[0]
    commands = [" ".join(code.text.replace("\\", "").split()) for code in header.all("code")]
    assert commands == [
        "calibrant fit model.npz --method temperature --out temperature.safetensors",
        "calibrant apply temperature.safetensors",
    ]
    text = made.page.text.replace(" , ", ", ")  # a blank stands around every element
    for said in (found.verdict.headline, *found.verdict.sentences):  # also where they are folded
        assert " ".join(said.replace("`", " ").split()).replace(" , ", ", ") in text
    (header,) = report_on("nothing to repair").page.all("header")
    assert [each.text for each in header.all("figcaption")] == ["Before: is 90% confidence 90% right?"]
    assert "With:" not in header.text


def test_the_main_rows_are_open_and_all_are_folded(report_on) -> None:
    """What the verdict is about first, and AUROC for a rare event; the full table is one click away."""
    made = report_on("binary")
    (main,) = made.page.all("table", class_="main")
    shown = [row.attributes["data-main"] for row in main.all("tbody")[0].all("tr")]
    assert shown == ["event_ece", "nll", "accuracy", "brier", "auroc"]
    assert [head.text for head in main.all("th", scope="col")][1:3] == ["Uncalibrated", "Platt scaling"]
    folded = [row for fold in made.page.all("details", class_="more") for row in fold.all("tr")]
    assert sum("data-metric" in row.attributes for row in folded) > 12


def test_items_of_a_clinical_checklist(report_on) -> None:
    """TRIPOD+AI items in order, each with an answer; what only the authors know is named."""
    (fold,) = (
        each for each in report_on("binary").page.all("details", class_="more") if "TRIPOD" in each.text
    )
    rows = [[cell.text for cell in row.all("th") + row.all("td")] for row in fold.all("tbody")[0].all("tr")]
    items = [item for item, _, _ in rows]
    assert items == ["10", "11", "12a", "12e", "12f", "14", "21", "23a", "23a", "23b", "24"]
    assert all(answer.strip() for _, _, answer in rows)
    assert [item for item, _, answer in rows if "; add " in answer] == ["10", "14", "23b"]


@pytest.fixture(scope="module")
def shared(evaluation_of: Callable[..., Evaluation]) -> str:
    """The page of an evaluation of a file far away, with a title, a choice and the date 2 January 1970."""
    candidates = tuple(
        ChoiceRow(name=name, title=title, size=size, nll=0.5 + behind, behind=behind, standard_error=0.002)
        for name, title, size, behind in (
            ("uncalibrated", "Uncalibrated", 0, 0.1),
            ("temperature", "Temperature scaling", 1, 0.0),
        )
    )
    found = evaluation_of(command="calibrant evaluate /home/ann/secret/model.npz --report /tmp/secret/r.html")
    repair = Repair(
        method="temperature", file="/home/ann/secret/model.npz", all_rows=False, format="npz", space="logits"
    )
    found = dataclasses.replace(
        found,
        notes=("/home/ann/secret/model.npz has 3 rows too many.",),
        verdict=dataclasses.replace(found.verdict, commands=(), repair=repair),
        choice=Choice(chosen="temperature", candidates=candidates, num_samples=900, folds=5),
    )
    with drawing_no_diagrams(), pytest.MonkeyPatch.context() as patch:
        patch.setenv("SOURCE_DATE_EPOCH", "86400")
        return report_text(found, title="<Model> 7")


def test_the_choice_is_a_table(shared, page_of) -> None:
    """Every candidate with the numbers it fits and its loss, the one taken named, as ``fit`` prints it."""
    (table,) = page_of(shared).all("table", class_="choice")
    assert [row.text for row in table.all("tbody")[0].all("tr")] == [
        "Uncalibrated 0 0.60000 0.10000 ± 0.00200",
        "Temperature scaling chosen 1 0.50000 best",
    ]


def test_a_page_that_is_shared_shows_no_folders(shared, comparison_of) -> None:
    assert "secret" not in shared
    plain = re.sub("</?span>", "", shared)
    assert "calibrant fit model.npz" in plain
    assert "calibrant evaluate model.npz --report r.html" in plain
    compared = comparison_of()
    model = dataclasses.replace(compared.models[1], name="/home/ann/secret/b.npz")
    compared = to_share(dataclasses.replace(compared, models=(model,), short="/home/ann/secret/b.npz leads."))
    assert (compared.models[0].name, compared.short) == ("b.npz", "b.npz leads.")


def test_pages_are_titled_and_dated(shared, page_of, monkeypatch) -> None:
    """A title of one's own stands at the top and in the tab; the day is that of SOURCE_DATE_EPOCH."""
    page = page_of(shared)
    assert page.all("title")[0].text == "Calibration of <Model> 7: overconfident"
    about = page.all("p", class_="about")[0]
    assert about.text.startswith("<Model> 7 · Calibration report · model.npz")
    assert about.all("time")[0].text == "2 January 1970"
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "today")
    with pytest.raises(InputError, match="`SOURCE_DATE_EPOCH` must be a number of seconds"):
        report_date()


def test_the_numbers_of_a_figure_are_those_of_their_names(report_on) -> None:
    made = report_on("binary")
    (section,) = made.page.all("section", aria_labelledby="chance")
    titles = {arm.title: arm for arm in made.found.arms}
    for figure, key in zip(section.all("figure"), ("event_ece", "ece"), strict=True):
        for row in csv.DictReader(figure.attributes["data-csv"].splitlines()):
            assert float(row["value"]) == pytest.approx(titles[row["name"]].metrics[key].value, rel=1e-5)


def test_what_is_recommended_stands_beside_what_was(report_on) -> None:
    made = report_on("binary")
    captions = [caption.text for caption in made.page.all("header")[0].all("figcaption")]
    assert captions == ["Before: is 10% predicted 10% actual?", "After: Platt scaling"]
    (section,) = made.page.all("section", aria_labelledby="diagrams")
    assert [heading.text for heading in section.all("h3")] == ["Top label"]
    first, *further = section.all("div", class_="pictures")
    assert [caption.text for caption in first.all("figcaption")] == ["Uncalibrated", "Platt scaling"]
    assert len(further) == 2
    for each in further:
        assert [caption.text for caption in each.all("figcaption")] == ["Temperature scaling"]
        assert any(each in list(fold.walk()) for fold in section.all("details", class_="more"))


def test_labels_are_small_multiples(report_on) -> None:
    """Each label has its own small picture, the largest error first, with its error before and after."""
    made = report_on("multilabel")
    found = made.found
    (section,) = made.page.all("section", aria_labelledby="labels")
    before, after = found.arms[0].classes, {row.name: row for row in found.arms[1].classes}
    assert [caption.text for caption in section.all("figcaption")] == [
        " ".join(f"{row.name} {words.number(row.ece)} → {words.number(after[row.name].ece)}".split())
        for row in sorted(before, key=lambda row: -row.ece)
    ]
    made = report_on("many labels")
    (section,) = made.page.all("section", aria_labelledby="labels")
    assert len(section.all("figure")) == 24
    assert "the 24 worst of 30 labels are drawn" in section.text


def test_how_it_was_made_can_be_repeated(report_on) -> None:
    """Command, file, hash, split, seed, draws, versions and the fits with their warnings are there."""
    made = report_on("multiclass")
    found = made.found
    (section,) = made.page.all("section", aria_labelledby="made")
    for expected in (
        found.command,
        found.source.sha256,
        f"{found.source.name} ({found.source.format})",
        found.settings.calibration,
        "1,000 bootstrap resamples",
        "Seed 7",
        "Bins 15",
        "torch 2.13.0",
        "2,341 test samples, 2,341 calibration samples",
        "gamma lies on its bound",
        "did not converge in 12 steps: gradient norm 3e-9",
        "nll: 0.8112 before, 0.7343 after",
        "temperature 1.41",
    ):
        assert expected in section.text
    said = "Temperature scaling, Focal temperature scaling: samples are few"
    assert (section.text.count("samples are few"), said in section.text) == (1, True)  # of both, once
    made = report_on("from Python")
    assert "Made from Python" in made.page.text


def make_predictions(kind: str, *, sharpness: float = 2.5, num_samples: int = 240) -> Predictions:
    """Predictions of an over-confident model, so few that many bins are empty."""
    rng = np.random.default_rng(5)
    if kind in {"multiclass", "top_label"}:
        log_odds = rng.normal(size=(num_samples, 4))
        labels = (log_odds + rng.gumbel(size=log_odds.shape)).argmax(axis=1)
        if kind == "multiclass":
            return Predictions(
                logits=sharpness * log_odds, labels=labels, class_names=("a", "<b>", "c", "never")
            )
        return Predictions(confidence=rng.uniform(0.4, 1, num_samples), correct=rng.random(num_samples) < 0.6)
    log_odds = rng.normal(size=(num_samples, 3) if kind == "multilabel" else num_samples)
    happened = rng.random(log_odds.shape) < 1 / (1 + np.exp(-log_odds))
    return Predictions(logits=sharpness * log_odds, labels=happened.astype(int))


@pytest.mark.parametrize("kind", ["multiclass", "binary", "multilabel", "top_label"])
def test_real_evaluations_and_comparisons_are_reported(kind, page_of) -> None:
    """What ``evaluate`` and ``compare`` return is drawn as a valid page and fits a narrow terminal."""
    predictions = make_predictions(kind)
    evaluation = evaluate(predictions, bootstrap=10, null_draws=20, calibrators=["temperature", "isotonic"])
    other = make_predictions(kind, sharpness=1.0)
    comparison = compare([("one", predictions), ("two", other)], bootstrap=10, null_draws=20)
    for found, draw in ((evaluation, render), (comparison, render_comparison)):
        # Comparisons of every kind are drawn above.
        with drawing_no_diagrams() if found is comparison else nullcontext():
            page = page_of(report_text(found))
        assert faults(page) == []
        rows = {element.attributes.get("data-metric") for element in page.all("tr")}
        assert {"ece", "accuracy"} <= rows
        console = Console(file=io.StringIO(), width=60)
        draw(found, console)
        assert max(map(len, console.file.getvalue().splitlines())) <= 60


def test_a_thousand_classes_stay_below_two_megabytes(report_on) -> None:
    assert len(report_on("many classes").text.encode()) < 2_000_000


def test_a_table_of_some_classes_says_of_how_many(evaluation_of) -> None:
    found = evaluation_of()
    with drawing_no_diagrams():
        text = report_text(dataclasses.replace(found, num_classes=100_000))
    listed = len(found.arms[0].classes)
    which = "whose average probability is furthest from their actual rate"
    assert f"<p>{listed} of 100,000 classes, those {which}, each" in text
    assert "Every class against the rest" not in text


def test_the_same_data_give_the_same_bytes(report_on, evaluation_of) -> None:
    """Nothing random and no date but the day's enters, and the user's own style does not show."""
    plain = report_on("multiclass").text
    with mpl.rc_context(
        {"axes.facecolor": "red", "font.size": 30, "svg.fonttype": "path", "lines.linewidth": 9}
    ):
        before = dict(mpl.rcParams)
        assert report_text(evaluation_of()) == plain
        assert dict(mpl.rcParams) == before


@drawing_no_diagrams()
def test_reports_are_written_whole(tmp_path, evaluation_of) -> None:
    """The file holds the text as UTF-8, and nothing else is left in the folder."""
    path = tmp_path / "report.html"
    path.write_text("old", encoding="utf-8")
    write_report(evaluation_of(), path)
    assert path.read_text(encoding="utf-8") == report_text(evaluation_of())
    assert list(tmp_path.iterdir()) == [path]


@drawing_no_diagrams()
def test_a_report_that_fails_leaves_what_was_there(tmp_path, evaluation_of) -> None:
    """An error while drawing keeps the old file and leaves no other; what cannot be written is a sentence."""
    path, found = tmp_path / "report.html", evaluation_of()
    path.write_text("old", encoding="utf-8")
    broken = dataclasses.replace(found, verdict=dataclasses.replace(found.verdict, recommended="nonsense"))
    for given, place, said in (
        (broken, "report.html", "no arm 'nonsense'; choose 'uncalibrated'"),
        (found, "report.pdf", r"`path` must end in \.html; got 'report"),
        (found, "report", r"`path` must end in \.html; got 'report"),
        (found, "report.html.gz", r"`path` must end in \.html; got 'report"),
        (found, "reports/report.html", "there is no folder .*reports"),
    ):
        with pytest.raises((InputError, OSError), match=said):
            write_report(given, tmp_path / place)
    assert path.read_text(encoding="utf-8") == "old"
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(TypeError, match="an Evaluation, a Comparison or a Monitoring; got dict"):
        report_text({})
