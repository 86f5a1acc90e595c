"""The demo, end to end, and the networks that it trains at once."""

import math

import pytest
import torch
from scipy import stats
from torch import nn

import calibrant
from calibrant import losses
from calibrant._math.means import mean_of
from calibrant.demo import networks
from calibrant.demo.comparison import FEW, LOSSES, STATES, Half, Seen, Trained, judged
from calibrant.demo.networks import Setting, digits, train_together
from calibrant.demo.page import direction, sections
from calibrant.demo.run import run_demo, train_on_digits

BRIEF = Setting(side=4, num_training=60, num_calibration=50, num_epochs=3, batch_size=20)


@pytest.mark.slow
def test_demo_shows_both_halves_and_repairs_a_network(tmp_path) -> None:
    """Cross-entropy is overconfident in the first half and not in the second; every file can be read."""
    stages = []
    result = run_demo(
        tmp_path / "demo", num_seeds=3, progress=lambda stage, done: stages.append((stage, done))
    )
    evaluation, few, everything = result.evaluation, result.few, result.everything
    assert direction(few.mean("cross-entropy", "gap", "trained")) == "overconfident"
    assert few.change("focal(gamma=3)", "gap", "trained").high < 0
    assert direction(everything.mean("cross-entropy", "gap", "trained")) == "neither"
    assert direction(everything.mean("focal(gamma=3)", "gap", "trained")) == "underconfident"
    assert evaluation.verdict.direction.replace("-", "") == "overconfident"
    after = evaluation.arm(evaluation.verdict.recommended)
    assert after.name != "uncalibrated"
    assert after.change["nll"].value < 0
    assert calibrant.load_predictions(result.predictions).num_samples == 1397
    assert calibrant.load_calibrator(result.calibrator).name == after.name
    assert calibrant.Evaluation.from_json(result.json.read_text(encoding="utf-8")) == evaluation
    page = result.report.read_text(encoding="utf-8")
    assert len(page) < 2_000_000
    assert page.count("n = 3 seeds") == 2
    for name in LOSSES.values():
        assert page.count(f'<th scope="row">{name}</th>') == 2
    assert page.index('class="verdict"') < page.index("Ten losses") < page.index("What the ten losses show")
    before = evaluation.arm("uncalibrated")
    for arm in (before, after):
        assert f"{arm.metrics['ece'].value:.3f}" in result.repair.splitlines()[0]
    shares = [done for _, done in stages]
    assert shares == sorted(shares)


def plain(text: str, seed: int) -> torch.Tensor:
    """The same training with ordinary modules, one network at a time."""
    data = digits(BRIEF, [seed])
    layers = networks._layers(16, [seed], 1)
    parts = []
    for weights, biases in layers:
        linear = nn.Linear(*weights.shape[1:])
        linear.weight.data, linear.bias.data = weights[0].T.clone(), biases[0, 0].clone()
        parts += [linear, nn.ReLU()]
    network, loss = nn.Sequential(*parts[:-1]), losses.build(text)
    optimiser = torch.optim.Adam(network.parameters(), lr=networks.LEARNING_RATE)
    generator = torch.Generator().manual_seed(seed)
    held_out = data.calibration[0]
    for _ in range(BRIEF.num_epochs):
        for places in torch.randperm(BRIEF.num_training, generator=generator).split(BRIEF.batch_size):
            rows = data.training[0, places]
            optimiser.zero_grad()
            loss(network(data.images[rows]), data.labels[rows]).backward()
            optimiser.step()
        if hasattr(loss, "update"):
            with torch.no_grad():
                sure, top = network(data.images[held_out]).double().softmax(dim=1).max(dim=1)
            loss.update(sure, top == data.labels[held_out])
    with torch.no_grad():
        return network(data.images[torch.cat([held_out, data.test[0]])])


def test_networks_trained_together_are_those_trained_alone() -> None:
    """Every loss and seed agrees with an ordinary loop; float32 sums differ in order over nine steps."""
    seeds = [3, 8]
    together = train_together(BRIEF, digits(BRIEF, seeds), list(LOSSES), seeds)
    for place, text in enumerate(LOSSES):
        for row, seed in enumerate(seeds):
            torch.testing.assert_close(together[place, row], plain(text, seed), rtol=1e-3, atol=1e-4)
    assert not torch.allclose(together[0, 0], together[0, 1], atol=0.1)
    assert not torch.allclose(together[0, 0], together[3, 0], atol=0.01)


def test_training_is_deterministic_and_touches_no_global_state(monkeypatch) -> None:
    monkeypatch.setattr("calibrant.demo.run.FEW", BRIEF)
    state = torch.random.get_rng_state()
    first, second = train_on_digits(seed=3), train_on_digits(seed=3)
    assert torch.equal(first.scores, second.scores)
    assert torch.equal(state, torch.random.get_rng_state())
    assert not torch.equal(first.scores, train_on_digits(seed=4).scores)


def test_digits_are_shrunk_by_averaging_and_cut_for_each_seed() -> None:
    """Features are means of four pixels in [0, 1]; each seed's parts are all images, once."""
    data = digits(BRIEF, [0, 1])
    assert data.images.shape == (1797, 16)
    assert data.images.min() >= 0
    assert data.images.max() <= 1
    whole = digits(Setting(side=8, num_training=1, num_calibration=1, num_epochs=1, batch_size=1), [0])
    torch.testing.assert_close(data.images.sum(dim=1), whole.images.sum(dim=1) / 4, rtol=1e-5, atol=1e-5)
    for row in range(2):
        parts = torch.cat([data.training[row], data.calibration[row], data.test[row]])
        assert sorted(parts.tolist()) == list(range(1797))
    assert not torch.equal(data.training[0], data.training[1])


def test_intervals_are_students() -> None:
    values = [0.1, 0.3, 0.2, 0.6]
    expected = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    found = mean_of(values)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), rel=1e-9)
    assert mean_of([0.5]).half_width is None
    assert direction(mean_of([0.5])) == "neither"
    assert direction(mean_of([-0.5, -0.51])) == "underconfident"


def test_networks_are_judged_on_samples_that_fitted_no_repair(rng) -> None:
    """Logits three times too large get T near 3 from the first half, and the gap closes on the second."""
    truth = torch.from_numpy(rng.normal(size=(4000, 5)))
    labels = torch.multinomial(truth.softmax(dim=1), 1, generator=torch.Generator().manual_seed(0))[:, 0]
    found = judged(3 * truth, labels, 2000)
    assert found.temperature == pytest.approx(3, rel=0.1)
    assert found.seen["trained"].gap > 0.2
    assert abs(found.seen["temperature"].gap) < 4 * 0.5 / math.sqrt(2000)  # four standard errors
    assert found.seen["focal-temperature"].nll < found.seen["trained"].nll


def half(gaps: dict[str, float]) -> Half:
    """A half in which losses have these gaps as trained, and no error after repair."""

    def network(loss: str, seed: int) -> Trained:
        seen = {state: Seen(gap=gaps.get(loss, 0.0) + seed / 1e4, ece=0.1, nll=0.2) for state in STATES}
        return Trained(error=0.1, temperature=1.0, seen=seen)

    networks = {loss: tuple(network(loss, seed) for seed in (-1, 0, 1)) for loss in LOSSES}
    nothing = torch.zeros(1, 10)
    return Half(
        setting=FEW, num_test=9, networks=networks, chance=0.0, logits=nothing, labels=torch.zeros(1).long()
    )


def test_what_the_demo_concludes_follows_from_its_numbers() -> None:
    gaps = {"cross-entropy": 0.1, "focal(gamma=3)": -0.2}
    turned = dict(zip(gaps, reversed(gaps.values()), strict=True))
    found, other = (sections(half(each), half(each))[-1].points for each in (gaps, turned))
    assert "the gap by −30.0 ± 0.0 points" in found[0]
    assert "the gap by +30.0 ± 0.0 points" in other[0]
    assert "first setting cross-entropy is overconfident and γ = 3 is underconfident" in found[1]
    assert "first setting cross-entropy is underconfident and γ = 3 is overconfident" in other[1]
    assert "is then clearly lower for 0 and higher for 0 in the first setting" in found[3]
