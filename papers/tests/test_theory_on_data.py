"""The theory on real predictions: what is computed for a file, and temperatures of stored runs."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from calibrant import theory
from calibrant.cli.main import app
from calibrant_lab.sweep.kept_runs import KeptRun, content_of
from calibrant_lab.sweep.published import FOLDER
from papers.losses.settings import BALANCED
from papers.theory_on_data import PAGE
from papers.theory_on_data.measure import (
    like_the_map,
    published_temperatures,
    results,
    stored_temperatures,
    theory_on_files,
)
from papers.theory_on_data.numbers import words
from papers.theory_on_data.settings import GAMMAS, PUBLISHED

RESULTS = Path(__file__).parents[2] / "docs" / "results"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of many unsure classes, one of an event, one of labels, one of confidences, stored runs."""
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    np.savez(folder / "many.npz", logits=0.8 * rng.normal(size=(300, 50)), labels=rng.integers(0, 50, 300))
    np.savez(folder / "event.npz", probs=rng.random(200), labels=rng.integers(0, 2, 200))
    np.savez(folder / "labels.npz", logits=rng.normal(size=(90, 4)), labels=rng.integers(0, 2, (90, 4)))
    np.savez(folder / "top.npz", confidence=rng.random(80), correct=rng.random(80) < 0.5)
    temperatures = {"cross-entropy": {0: 2.0, 1: 1.8}, "focal-1": {1: 1.1, 0: 1.3, 2: 9.0}}
    runs = [
        KeptRun(
            settings={**BALANCED.where, **arm.where, "seed": seed},
            found={"parameters": {"temperature": temperature}},
        )
        for arm in BALANCED.arms
        for seed, temperature in temperatures.get(arm.key, {}).items()
    ]
    (folder / "fashion-mnist.json").write_text(json.dumps(content_of(runs, {})), encoding="utf-8")
    lines = ["dataset,model,method,metric,stage,temperature"]
    lines += [
        f"CIFAR-10,Net,{method},ECE,post,{temperature}"
        for method, temperature in [
            ("cross-entropy", 2.5),
            ("focal(gamma=1)", 1.6),
            ("focal(gamma=2)", 1.2),
            ("focal(gamma=3)", 1.1),
        ]
    ]
    (folder / PUBLISHED).write_text("\n".join([*lines, "CIFAR-10,Net,brier,NLL,post,7"]), encoding="utf-8")
    return folder


def test_files(folder: Path) -> None:
    """Shares are those of the theory's function; of labels each counts; the top one alone is left out."""
    found, without = theory_on_files(folder)
    by_name = {each["name"]: each for each in found}
    assert (set(by_name), without) == ({"many.npz", "event.npz", "labels.npz"}, 1)
    logits = np.load(folder / "many.npz")["logits"]
    many = by_name["many.npz"]
    change = theory.confidence_change(logits, gamma=1)
    at = many["gammas"][0]
    assert at["gamma"] == 1
    stated = (at["raised"], at["lowered"], at["largest_fall"], at["mean_change"])
    assert stated == pytest.approx(
        (change.raised, change.lowered, change.largest_fall, change.mean_change), rel=1e-7
    )
    assert at["lowered"] > 0.05
    top = torch.from_numpy(logits).softmax(1).amax(1)
    threshold = theory.confidence_threshold(1).above
    assert at["below_threshold"] == pytest.approx((top < threshold).double().mean().item(), rel=1e-7)
    assert [at["gamma"] for at in by_name["event.npz"]["gammas"]] == list(GAMMAS)
    assert all(at["lowered"] == 0 for at in by_name["event.npz"]["gammas"])
    labels = by_name["labels.npz"]
    odds = np.load(folder / "labels.npz")["logits"].reshape(-1)
    raised = theory.confidence_change(odds, gamma=1).raised
    assert labels["gammas"][0]["raised"] == pytest.approx(raised, rel=1e-7)
    assert labels["num_classes"] == 2


def test_temperature_like_the_map() -> None:
    """Where a temperature would be exact it is found; else the minimum is one; two classes either way."""
    rng = np.random.default_rng(1)
    events = torch.from_numpy(rng.normal(size=400) * 2)
    pairs = torch.stack([torch.zeros_like(events), events], 1)
    assert like_the_map(events, 2.0) == pytest.approx(like_the_map(pairs, 2.0), rel=1e-9)
    assert like_the_map(events, 2.0) == pytest.approx(0.3731, abs=2e-3)
    assert like_the_map(pairs, 0.0) == pytest.approx(1, rel=1e-9)
    logits = torch.from_numpy(rng.normal(size=(200, 6)) * 2)
    mapped = theory.focal_calibration_map_logits(logits, gamma=3).exp()

    def distance(temperature: float) -> float:
        return float(-(mapped * (logits / temperature).log_softmax(1)).sum(1).mean())

    best = like_the_map(logits, 3.0)
    assert distance(best) < min(distance(best * 1.001), distance(best / 1.001))


def test_impossible_classes() -> None:
    """A class of probability zero changes nothing."""
    logits = torch.tensor([[2.0, 0.0, -math.inf], [0.0, 1.0, -math.inf]], dtype=torch.float64)
    assert like_the_map(logits, 1.0) == pytest.approx(like_the_map(logits[:, :2], 1.0), rel=1e-6)


def test_stored_and_published_temperatures(folder: Path) -> None:
    """Seeds that both have are paired; arms that are missing are passed over; printed rows are found."""
    (own,) = stored_temperatures(folder)
    assert (own["gamma"], own["proper"], own["needed"]) == (1.0, [2.0, 1.8], [1.3, 1.1])
    assert own["closest"] == pytest.approx(theory.closest_temperature(1, 10).temperature, rel=1e-7)
    printed = published_temperatures(folder)
    assert [each["needed"] for each in printed] == [[1.6], [1.2], [1.1]]
    assert all(each["proper"] == [2.5] for each in printed)
    assert stored_temperatures(folder / "nothing") == published_temperatures(folder / "nothing") == []


def test_page_and_numbers(folder: Path, tmp_path: Path) -> None:
    """The page counts what the numbers say; without stored runs it says so."""
    files, without = theory_on_files(folder)
    needed = stored_temperatures(folder) + published_temperatures(folder)
    page, numbers = PAGE.write(results(files, without, needed), tmp_path)
    text = page.read_text(encoding="utf-8")
    assert "Lowered samples occur in 1 of 1 files with more than two classes, most in `many.npz`" in text
    assert "| Fashion-MNIST (C = 10) | 1 | 1.90 ±" in text
    assert "Runs of Mukhoti et al. (2020):" in text
    data = json.loads(numbers.read_text(encoding="utf-8"))
    assert len(data["files"]) == 3
    assert data["temperatures"][0]["ratio"] == pytest.approx((1.3 / 2 + 1.1 / 1.8) / 2, rel=1e-5)
    PAGE.write(results(files, without, []), tmp_path)
    assert "No stored runs were found." in page.read_text(encoding="utf-8")


def test_command(folder: Path, tmp_path: Path) -> None:
    """One command writes both files; stored runs are looked for where they are written to."""
    (tmp_path / "fashion-mnist.json").write_bytes((folder / "fashion-mnist.json").read_bytes())
    arguments = ["study", "theory-on-data", "--data", str(folder), "--table", str(tmp_path)]
    result = CliRunner().invoke(app, [*arguments, "--published", str(folder)])
    assert result.exit_code == 0, result.output
    text = (tmp_path / "theory-on-data.md").read_text(encoding="utf-8")
    assert "Runs of this library:" in text
    assert "Runs of Mukhoti et al. (2020):" in text
    assert (tmp_path / "theory-on-data.json").exists()


@pytest.mark.slow
@pytest.mark.real_data
def test_shares_of_real_files(data_folder: Path, tmp_path: Path) -> None:
    """6.1 % of a CIFAR-100 network's samples are lowered at gamma 1, 0.4 % of 20 newsgroups'."""
    files, without = theory_on_files(data_folder)
    lowered = {each["name"].rpartition("/")[2]: each["gammas"][0]["lowered"] for each in files}
    assert lowered["wideresnet-16-4-cifar-100.npz"] == pytest.approx(0.061, abs=5e-4)
    assert lowered["20news_test.npz"] == pytest.approx(0.004, abs=5e-4)
    assert without > 0
    assert all(each["gammas"][0]["lowered"] == 0 for each in files if each["num_classes"] == 2)


def test_quoted_temperatures_are_those_of_the_package() -> None:
    """What the committed page quotes is what the committed table says, number by number."""
    committed = json.loads((RESULTS / "theory-on-data.json").read_text(encoding="utf-8"))["temperatures"]
    quoted = [each for each in committed if each["source"].startswith("Mukhoti")]
    assert len(quoted) == 30
    assert published_temperatures(FOLDER) == quoted


def test_one_temperature_for_all_is_named_beside_the_products(folder: Path) -> None:
    """How often the products enclose what is needed is set against a constant; two classes stand apart."""
    rows = published_temperatures(folder)
    two = {**rows[0], "network": "Tree", "num_classes": 2, "closest": rows[0]["binary"]}
    numbers = results([], 0, [*rows, two])
    (found,) = words(numbers)["sources"].values()
    constant, hits = found["constant"]
    ends = [sorted(2.5 * each[name] for name in ("binary", "closest")) for each in rows]
    assert hits == sum(low <= constant <= high for low, high in ends)
    assert hits == max(sum(low <= step / 100 <= high for low, high in ends) for step in range(1, 501))
    assert [each["network"] for each in found["two_classes"]] == ["Tree"]
    assert "nothing to lie between: γ = 1 on Tree" in PAGE.text(numbers)


def test_rows_of_one_network_are_one_sample(folder: Path) -> None:
    """Three exponents of one network are no three samples: with one network nothing is decided."""
    claims = {claim.key: claim for claim in PAGE.claims(results([], 0, published_temperatures(folder)))}
    assert claims["nearer, Mukhoti et al. (2020)"].verdict == "undecided"
    assert claims["nearer, Mukhoti et al. (2020)"].evidence.endswith("n = 1 data sets")


@pytest.mark.parametrize(
    ("source", "temperature", "said"),
    [
        ("this library", 1.3, "depends on the gap"),
        ("this library", 1.9, "holds"),
        ("this library", 3.3, "depends on the gap"),
        ("this library, on the long tail", 2.1, "beyond the paper"),
    ],
)
def test_nearer_to_one_is_asked_of_the_contrast_of_the_paper(
    source: str, temperature: float, said: str
) -> None:
    """Of balanced data, and where cross-entropy needs such a temperature as the paper compares with."""
    committed = json.loads((RESULTS / "theory-on-data.json").read_text(encoding="utf-8"))["temperatures"]
    proper = [temperature + 0.01 * step for step in (-2, -1, 0, 1, 2)]
    rows = [{**each, "proper": proper} for each in committed if each["source"] == source]
    claims = {claim.key: claim for claim in PAGE.claims(results([], 0, rows))}
    assert claims[f"nearer, {source}"].said == said
    assert claims[f"nearer, {source}"].verdict == "holds"


@pytest.mark.parametrize(("temperature", "said"), [(1.9, "depends on the gap"), (2.4, "")])
def test_about_one_is_asked_of_the_argument_s_exponents_and_gap(temperature: float, said: str) -> None:
    """Of γ = 2 and of γ = 3, which can differ; γ = 1 decides nothing."""
    rows = [
        {
            **_ROW,
            "gamma": gamma,
            "seeds": [0, 1, 2],
            "proper": [temperature] * 3,
            "needed": [needed, needed + 0.01, needed + 0.02],
        }
        for gamma, needed in ((1.0, 1.5), (2.0, 1.0), (3.0, 0.7))
    ]
    three, two, _ = PAGE.claims(results([], 0, rows))
    assert (three.key, three.verdict, two.key, two.verdict) == (
        "about-one, ours",
        "does not hold",
        "about-one, ours, γ = 2",
        "holds",
    )
    assert (three.said, two.said) == (said or three.verdict, said or two.verdict)
    assert three.evidence.startswith("it is 0.71 ± 0.02, n = 3 seeds")


def test_other_exponents_decide_nothing() -> None:
    """Without runs of an exponent that is asked of there is no claim that the temperature is about 1."""
    row = {**_ROW, "gamma": 1.0, "seeds": [0, 1], "proper": [2.2, 2.3], "needed": [1.0, 1.1]}
    assert not [each for each in PAGE.claims(results([], 0, [row])) if each.key.startswith("about-one")]


def test_exponents_are_matched_by_seed() -> None:
    """Runs of one seed are one sample, whatever their places."""
    rows = [
        {**_ROW, "gamma": 3.0, "seeds": [0, 1, 2], "proper": [2.0, 3.0, 2.2], "needed": [0.9, 1.0, 1.1]},
        {**_ROW, "gamma": 1.0, "seeds": [1, 2], "proper": [3.0, 2.2], "needed": [1.5, 1.7]},
    ]
    about, nearer = PAGE.claims(results([], 0, rows))
    assert about.evidence.startswith("it is 1.00 ± 0.25, n = 3 seeds")
    assert about.verdict == "undecided"
    assert nearer.evidence.endswith("n = 3 seeds")
    assert about.departures == nearer.departures == ()


def test_the_page_says_which_temperatures_the_maps_are_like() -> None:
    """Those closest to the maps of γ = 2 and 3, in the sentence that the argument's 0.4 to 0.5 stands in."""
    row = {**_ROW, "gamma": 3.0, "seeds": [0, 1], "proper": [2.2, 2.3], "needed": [1.0, 1.1]}
    text = PAGE.text(results([], 0, [row]))
    assert "0.37, 0.47, 0.52 and 0.66 at γ = 2 and 0.28, 0.36, 0.41 and 0.57 at γ = 3" in text


def test_single_runs_on_one_data_set_are_one_sample() -> None:
    """Networks that share their test data count once, by their mean."""
    rows = [
        {
            **_ROW,
            "network": f"{network}, {data}",
            "gamma": 3.0,
            "seeds": [0],
            "proper": [2.2],
            "needed": [needed],
        }
        for network, data, needed in (("A", "X", 0.9), ("B", "X", 1.1), ("A", "Y", 1.0))
    ]
    (claim,) = (each for each in PAGE.claims(results([], 0, rows)) if each.key.startswith("about-one"))
    assert claim.evidence.startswith("it is 1.00 ± 0.00, n = 2 data sets")


_ROW = {"source": "ours", "network": "Net", "num_classes": 10, "binary": 0.3, "closest": 0.5}
