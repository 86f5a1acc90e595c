"""People's judgements: how distance to them is measured, and what is fitted to them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from calibrant._math.errors import InputError
from calibrant.calibrators import TemperatureScaling
from papers.human_posteriors import PAGE, maps, measure, settings
from papers.human_posteriors.maps import Judged, Tried, focal_answer, focal_map
from papers.human_posteriors.measure import measured, read

RESULTS = Path(__file__).parents[2] / "docs" / "results"


def drawn(truth: Tensor, log_probs: Tensor, *, people: int = 50, seed: int = 0) -> Judged:
    """Images with that truth: a label each, and so many judgements."""
    rng = np.random.default_rng(seed)
    shares = truth.numpy()
    labels = rng.multinomial(1, shares).argmax(1)
    return Judged(
        log_probs, torch.from_numpy(labels), torch.from_numpy(rng.multinomial(people, shares)).double()
    )


def logits_of(num_images: int, num_classes: int = 3, *, seed: int = 0) -> Tensor:
    """Logits at random."""
    return 2 * torch.randn(
        num_images, num_classes, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)
    )


def test_distance_has_no_noise_of_the_judgements() -> None:
    """Less what chance adds, the mean squared distance is that to the truth, however few are asked."""
    logits = logits_of(4000)
    truth, said = logits.softmax(1), (logits / 2).log_softmax(1)
    wanted = (truth - said.exp()).square().sum(1)
    found = drawn(truth, said, people=4).scores(said)["distance"]
    error = (found - wanted).std() / len(wanted) ** 0.5
    assert abs((found - wanted).mean()) < 4 * error
    assert drawn(truth, said, people=4).noise.mean() > 8 * error


def test_fitted_to_people_recovers_their_temperature() -> None:
    """A sample for each chosen class, weighted by its share, is a fit to people."""
    logits = logits_of(2000)
    data = drawn((logits / 2.5).softmax(1), logits.log_softmax(1))
    rows, chosen, share = data.by_people(torch.arange(2000))
    found = TemperatureScaling().fit(rows, chosen, weights=share).fit_result_.parameters["temperature"]
    assert found == pytest.approx(2.5, rel=0.05)


def test_an_exponent_is_found_again() -> None:
    """Where a network says what focal loss asks for, the fitted focal map undoes it."""
    logits = logits_of(1500)
    truth = logits.log_softmax(1)
    said = focal_answer(truth, 2.0)
    assert torch.allclose(focal_map(said, 2.0), truth, atol=1e-8)
    tried = Tried(drawn(truth.exp(), said), settings.MAP)
    assert tried.exponents[tried.best(torch.arange(1500))] == pytest.approx(2.0, abs=0.3)


def test_repairs_come_nearer_where_they_should(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the truth is a higher temperature, scaling is nearer beyond noise, by all that is refitted."""
    grids = dict.fromkeys(maps.MAPS, (focal_map, (0.0, 1.0)))
    monkeypatch.setattr(measure, "MAPS", grids)
    monkeypatch.setattr(maps, "MAPS", grids)
    monkeypatch.setattr(measure, "fcl_answer", focal_map)
    logits = logits_of(120)
    found = measured(drawn((logits / 3).softmax(1), logits.log_softmax(1)), divisions=1, refits=3)
    arms, pair = found["arms"], found["pairs"][0]
    gain = arms[settings.AS_TRAINED]["nll"] - arms[settings.TEMPERATURE]["nll"]
    assert gain > 3 * pair["nll"]["error"] > 0
    again = {each["first"]: each["nll"]["refit_error"] for each in found["pairs"]}
    assert min(again[name] for name in (settings.FOCAL, settings.IDEAL_FOCAL, settings.IDEAL_FCL)) > 0
    assert arms[settings.TEMPERATURE]["nll"] >= arms[settings.BY_PEOPLE]["nll"] - 0.05
    assert {arm.key for arm in settings.ARMS} == set(arms)


def test_claims_say_on_which_networks_and_images_they_rest() -> None:
    """Which network decides, and whether a hundredth of its images does, is said beside the verdict."""
    numbers = json.loads((RESULTS / "human-posteriors.json").read_text(encoding="utf-8"))

    def planted(key: str, gains: tuple[float, float], without: float) -> tuple[str, str]:
        first, second = key.split(" against ")
        for network, gain in zip(numbers["networks"], gains, strict=True):
            arms = network["arms"]
            arms[first]["nll"] = arms[second]["nll"] - gain
            pair = next(
                each for each in network["pairs"] if {each["first"], each["second"]} == {first, second}
            )
            sign = 1 if pair["first"] == first else -1
            pair["nll"] |= {"error": 0.001, "refit_error": None, "without_top": sign * without}
        claim = next(each for each in PAGE.claims(numbers) if each.key == f"{key}, nll")
        return claim.verdict, claim.evidence

    key = "temperature against ideal-fcl"
    verdict, evidence = planted(key, (0.0, 0.1), 0.05)
    assert verdict == "holds"
    assert evidence.endswith("; nearer on LeNet-5, neither beyond noise on VGG-16")
    verdict, evidence = planted(key, (-0.1, 0.1), 0.05)
    assert verdict == "mixed"
    assert "contradict each other: nearer on LeNet-5, farther on VGG-16" in evidence
    assert evidence.endswith(
        "on VGG-16 a hundredth of the images decides it: without those that differ most the gain is +0.0500"
    )
    assert planted(key, (0.1, 0.1), 0.05)[1].endswith("p < 1e-10, n = 10000 images")


@pytest.mark.real_data
def test_the_page_is_about_these_files(data_folder: Path) -> None:
    """The networks' own distance to people is that of the committed results."""
    committed = json.loads((RESULTS / "human-posteriors.json").read_text(encoding="utf-8"))
    for network in committed["networks"]:
        data = read(data_folder, network["file"])
        found = data.scores(data.log_probs)
        for name in ("nll", "distance", "label_nll", "excess"):
            assert float(found[name].mean()) == pytest.approx(network["arms"]["as-trained"][name], rel=1e-6)


def test_other_images_are_refused(tmp_path: Path) -> None:
    """Outputs whose labels are not those of the judgements, and folders without them."""
    with pytest.raises(InputError, match="is missing"):
        read(tmp_path, "network.npz")
    path = tmp_path / settings.JUDGEMENTS
    path.parent.mkdir()
    np.savez(path, counts=np.eye(3, dtype=np.int16) * 50, labels=np.arange(3, dtype=np.int16))
    np.savez(tmp_path / "network.npz", probs=np.full((3, 3), 1 / 3), labels=np.array([0, 2, 1]))
    with pytest.raises(InputError, match="not in the order"):
        read(tmp_path, "network.npz")
