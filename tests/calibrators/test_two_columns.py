"""A calibrator of an event maps the two logits of a network, too."""

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from calibrant import CalibrantWarning, InputError, Predictions, apply, fit, load_calibrator
from calibrant._math.errors import without_warnings
from calibrant.calibrators import CalibratedModel, VennAbersCalibration, available, build, fit_groups

BINARY = [name for name in available() if "binary" in build(name).kinds]


@pytest.fixture(scope="module")
def data() -> tuple[torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(3)
    odds = rng.normal(size=400)
    return torch.tensor(3 * odds), torch.tensor(rng.random(400) < 1 / (1 + np.exp(-odds))).long()


@pytest.mark.parametrize("name", BINARY)
def test_two_logits_are_their_difference(name, data) -> None:
    odds, labels = data
    with without_warnings():
        fitted = build(name).fit(odds, labels)
    columns = torch.stack([torch.linspace(-2, 2, 400, dtype=torch.float64), odds], dim=1)
    columns[:, 1] += columns[:, 0]
    expected = fitted.predict_proba(columns[:, 1] - columns[:, 0])
    torch.testing.assert_close(fitted.predict_proba(columns), torch.stack([1 - expected, expected], 1))
    torch.testing.assert_close(fitted(columns).exp(), torch.stack([1 - expected, expected], 1))


def test_a_network_of_two_outputs_takes_it(data) -> None:
    fitted = build("platt").fit(*data)
    network = nn.Linear(3, 2).double()
    inputs = torch.randn(5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    model = CalibratedModel(network, fitted)
    found = model(inputs)
    torch.testing.assert_close(found.logsumexp(dim=1), torch.zeros(5, dtype=torch.float64))
    torch.testing.assert_close(model.calibrator(network(inputs) + 7), found)
    found.sum().backward()
    assert network.weight.grad is not None
    assert bool(network.weight.grad.any())
    assert fitted(network(inputs).half()).dtype == torch.float16


def test_by_group_as_well(data) -> None:
    odds, labels = data
    groups = ["a", "b"] * 200
    with without_warnings():
        fitted = fit_groups("temperature", odds, labels, groups=groups)
    expected = fitted.predict_proba(odds, groups=groups)
    columns = torch.stack([torch.zeros_like(odds), odds], dim=1)
    torch.testing.assert_close(fitted.predict_proba(columns, groups=groups)[:, 1], expected)


@pytest.mark.parametrize("name", ["temperature", "platt"])
def test_a_layer_of_two_outputs_takes_it_up(name, data) -> None:
    """Folded into the last layer it gives the probabilities that it gives as a module."""
    fitted = build(name).fit(*data)
    layer = nn.Linear(3, 2).double()
    inputs = torch.randn(5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    folded = fitted.fold_into(layer)(inputs).softmax(dim=1)
    torch.testing.assert_close(folded, fitted.predict_proba(layer(inputs)))


def test_an_event_in_column_0_is_read_there(data, tmp_path) -> None:
    """By its methods, its file and its state, in groups and a last layer; names of columns go first."""
    odds, labels = data
    event = Predictions(logits=odds, labels=labels, class_names=["ham", "spam"], positive_class="ham")
    fitted = fit(event, method="platt", every_row=True)
    assert (fitted.class_names_, fitted.event_column_) == (("spam", "ham"), 0)
    ham = fitted.predict_proba(-odds)
    columns = torch.stack([torch.zeros_like(odds), odds], dim=1)
    fitted.save(tmp_path / "c.safetensors")
    filled = build("platt")
    filled.load_state_dict(fitted.state_dict())
    for each in (fitted, load_calibrator(tmp_path / "c.safetensors"), filled):
        torch.testing.assert_close(each.predict_proba(columns), torch.stack([ham, 1 - ham], 1))
        torch.testing.assert_close(each(columns).exp(), torch.stack([ham, 1 - ham], 1))
        for given in (
            Predictions(logits=columns),
            Predictions(logits=columns.flip(1), class_names=["spam", "ham"]),
        ):
            probs = apply(each, given).probs
            torch.testing.assert_close(probs[:, int(given.class_names is not None)], ham)
        torch.testing.assert_close(apply(each, Predictions(logits=odds)).probs, 1 - ham)
    turned = pd.DataFrame(columns.numpy()[:, ::-1], columns=["spam", "ham"])
    torch.testing.assert_close(fitted.predict_proba(turned)[:, 1], ham)
    grouped = fit(event.with_groups(["a"] * 400), method="platt", every_row=True, by_group=True)
    torch.testing.assert_close(
        grouped.predict_proba(columns, groups=["a"] * 400)[:, 0], ham, atol=1e-4, rtol=0
    )
    with pytest.raises(InputError, match="names its classes spam, ham, platt was fitted on ham, spam; bring"):
        grouped.predict_proba(turned, groups=["a"] * 400)
    bands = fit(event, method="venn-abers", every_row=True)
    assert isinstance(bands, VennAbersCalibration)
    low, high = bands.predict_interval(columns)
    torch.testing.assert_close((low[:, 0], high[:, 0]), bands.predict_interval(-odds))
    torch.testing.assert_close(low[:, 1], 1 - high[:, 0])
    layer = nn.Linear(1, 2, bias=False).double()
    layer.weight.data = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
    torch.testing.assert_close(fitted.fold_into(layer)(odds[:, None]).softmax(dim=1)[:, 0], ham)


def test_predictions_of_class_0_meet_a_calibrator_of_class_1(data) -> None:
    odds, labels = data
    fitted = fit(Predictions(logits=odds, labels=labels), method="platt", every_row=True)
    found = apply(fitted, Predictions(logits=odds, positive_class=0))
    torch.testing.assert_close(found.probs, 1 - fitted.predict_proba(odds))


def test_columns_of_a_frame_are_the_classes_of_a_calibrator() -> None:
    """Those of the fit; in another order they are refused, and numbers or a tensor say nothing."""
    rng = np.random.default_rng(0)
    logits, names = rng.normal(size=(200, 3)), ["ant", "bee", "cat"]
    frame = pd.DataFrame(logits, columns=[f"logit_{name}" for name in names])
    fitted = build("vector").fit(frame, rng.integers(3, size=200))
    assert fitted.class_names_ == tuple(names)
    for same in (frame, logits, pd.DataFrame(logits), torch.from_numpy(logits)):
        assert torch.equal(fitted.predict_proba(same), fitted(torch.from_numpy(logits)).exp())
    said = "`logits` names its classes cat, bee, ant, vector was fitted on ant, bee, cat; bring the columns"
    for method in (fitted.predict_proba, fitted):
        with pytest.raises(InputError, match=said):
            method(frame.iloc[:, ::-1])


@pytest.mark.parametrize("name", ["vector", "platt"])
def test_probabilities_in_place_of_logits_are_warned_of(name, data) -> None:
    """Unless the fit was on such, which said so; ``apply`` takes them."""
    odds, labels = data
    two = torch.stack([1 - odds.sigmoid(), odds.sigmoid()], dim=1)
    scores = two.log() if name == "vector" else odds
    fitted = build(name).fit(scores, labels)
    for method in (fitted.predict_proba, fitted):
        with pytest.warns(CalibrantWarning, match=r"sums to one.*call `calibrant\.apply\(calibrator, cal"):
            method(two)
    assert torch.equal(
        apply(fitted, Predictions(probs=two)).probs[:, 1] > 0.5, fitted.predict_proba(two.log())[:, 1] > 0.5
    )
    with without_warnings():
        on_such = build("temperature").fit(two, labels)
    on_such.predict_proba(two)
