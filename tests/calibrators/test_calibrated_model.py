"""A model and its calibrator as one module: what it returns, how it is kept, and how it is exported."""

import io
import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from calibrant import InputError, NotFittedError
from calibrant.calibrators import CalibratedModel, available, build
from rosters_calibrators import EXPORTED_LIKE

pytestmark = pytest.mark.filterwarnings("ignore::calibrant.CalibrantWarning")


class Head(nn.Module):
    """A network whose answer has the form that is asked for."""

    def __init__(self, outputs: int, form: str = "tensor") -> None:
        super().__init__()
        self.layer = nn.Linear(5, outputs)
        self.form = form

    def forward(self, inputs: Tensor, *, scale: float = 1.0) -> Any:
        logits = scale * self.layer(inputs)
        packed: dict[str, Any] = {
            "tensor": logits,
            "object": SimpleNamespace(logits=logits, loss=None),
            "mapping": {"logits": logits},
            "tuple": (logits,),
            "flat": logits[:, 0],
        }
        return packed[self.form]


@pytest.fixture
def inputs() -> Tensor:
    return torch.randn(40, 5, generator=torch.Generator().manual_seed(1))


def calibrator_of(network: nn.Module, inputs: Tensor, name: str = "temperature") -> Any:
    return build(name).fit(3 * network.layer(inputs).detach(), torch.arange(len(inputs)) % 3)


@pytest.mark.parametrize("form", ["tensor", "object", "mapping"])
def test_it_calibrates_what_the_model_says(inputs: Tensor, form: str) -> None:
    """Logits come as a tensor, or as ``logits`` of an object or mapping, as in transformers."""
    network = Head(3, form)
    calibrator = calibrator_of(network, inputs)
    model = CalibratedModel(network, calibrator)
    logits = 2 * network.layer(inputs)
    assert torch.equal(model(inputs, scale=2.0), calibrator(logits))
    assert torch.equal(model.predict_proba(inputs, scale=2.0), calibrator.predict_proba(logits))
    assert model(inputs).dtype == torch.float32


@pytest.mark.parametrize("form", ["tensor", "flat"])
def test_binary_models_with_one_output(inputs: Tensor, form: str) -> None:
    """A model may give log-odds (N,) or (N, 1); the answer has the same shape."""
    network = Head(1, form)
    log_odds = network.layer(inputs)[:, 0].detach()
    calibrator = build("platt").fit(log_odds, torch.arange(40) % 2)
    model = CalibratedModel(network, calibrator)
    assert model(inputs).shape == ((40, 1) if form == "tensor" else (40,))
    assert torch.equal(model(inputs).flatten(), calibrator(log_odds))
    assert torch.equal(model.predict_proba(inputs).flatten(), calibrator.predict_proba(log_odds))


def test_state_dict_holds_both(inputs: Tensor) -> None:
    """Saved and loaded into a new network with an unfitted calibrator, it predicts the same."""
    network = Head(3)
    model = CalibratedModel(network, calibrator_of(network, inputs, "vector"))
    stream = io.BytesIO()
    torch.save(model.state_dict(), stream)
    stream.seek(0)
    other = CalibratedModel(Head(3), build("vector"))
    with pytest.raises(NotFittedError, match="call fit"):
        other(inputs)
    other.load_state_dict(torch.load(stream, weights_only=True))
    assert torch.equal(other(inputs), model(inputs))
    assert other.calibrator.fit_result_ == model.calibrator.fit_result_


def test_half_narrows_the_model_only(inputs: Tensor) -> None:
    """The answer has the model's type; the calibrator keeps its digits; gradients reach the model."""
    network = Head(3)
    model = CalibratedModel(network, calibrator_of(network, inputs)).to(torch.bfloat16)
    answer = model(inputs.bfloat16())
    assert answer.dtype == torch.bfloat16
    assert model.calibrator.temperature.dtype == torch.float64
    answer.sum().backward()
    assert network.layer.weight.grad is not None
    assert not model.predict_proba(inputs.bfloat16()).requires_grad


def test_what_is_no_model_is_refused(inputs: Tensor) -> None:
    calibrator = calibrator_of(Head(3), inputs)
    with pytest.raises(TypeError, match=r"`model` must be an nn.Module; got function"):
        CalibratedModel(lambda x: x, calibrator)
    with pytest.raises(TypeError, match=r"`calibrator` must be a calibrator.*got str; read one with"):
        CalibratedModel(Head(3), "fitted.safetensors")
    with pytest.raises(InputError, match=r"`model` must return logits.*; got tuple"):
        CalibratedModel(Head(3, "tuple"), calibrator)(inputs)
    with pytest.raises(InputError, match="the 3 columns that temperature was fitted on; got 4"):
        CalibratedModel(Head(4), calibrator)(inputs)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        # One label and several go through the same lines, with one parameter or a row of them; the forward
        # pass of log-odds (N,) is that of every calibrator. Those that go through the lines of another are
        # exported on the way to ONNX.
        (name, kind)
        for name in available()
        for kind in build(name).kinds
        if name not in EXPORTED_LIKE
        and (kind != "binary" or name in {"temperature", "isotonic", "histogram"})
    ],
)
def test_every_calibrator_is_exported(name: str, kind: str, calibrated: Callable[..., Any]) -> None:
    """``torch.export`` gives the same for any number of samples, zeros of probability included.

    An exported graph cannot refuse NaN, but makes no number of it either; the eager forward still refuses.
    """
    scores, labels = calibrated(kind, 60)  # searching bins is unrolled: more of them take longer
    calibrator = build(name).fit(3 * scores, labels)
    program = torch.export.export(calibrator, (scores[:7],), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},))
    new = torch.cat([3 * scores, 100 * scores[:20], 0 * scores[:3]])
    new[:5] = torch.where(new[:5] < new[:5].median(), -math.inf, new[:5])
    torch.testing.assert_close(program.module()(new), calibrator(new), rtol=1e-13, atol=1e-13)
    unknown = torch.full_like(scores[:3], math.nan)
    assert program.module()(unknown).isnan().all()
    with pytest.raises(InputError, match="row 1"):
        calibrator(torch.cat([scores[:1], unknown]))


@pytest.mark.parametrize(("name", "other"), EXPORTED_LIKE.items(), ids=EXPORTED_LIKE)
def test_what_is_exported_late_goes_through_the_lines_of_another(name: str, other: str) -> None:
    """Its forward pass is that of a calibrator which is exported every time; only the numbers differ."""
    assert other not in EXPORTED_LIKE
    late, early = type(build(name)), type(build(other))
    for method in ("forward", "_transform", "_mapped", "_map_events", "_features"):
        assert getattr(late, method, None) is getattr(early, method, None)
    assert late.parameter_shapes == early.parameter_shapes


def test_whole_models_are_exported(inputs: Tensor) -> None:
    """So is a model with its calibrator; other logits are refused while it is traced."""
    network = Head(3, "mapping")
    model = CalibratedModel(network, calibrator_of(network, inputs, "focal-temperature")).eval()
    program = torch.export.export(model, (inputs[:4],), dynamic_shapes=(({0: torch.export.Dim.DYNAMIC},),))
    torch.testing.assert_close(program.module()(inputs), model(inputs), rtol=1e-6, atol=1e-6)
    with pytest.raises(
        InputError, match=r"must have the shape \(N, 3\) that focal-temperature was fitted on"
    ):
        torch.export.export(CalibratedModel(Head(4), model.calibrator), (inputs[:4],))


@pytest.mark.parametrize("name", ["focal-temperature", "isotonic"])
def test_compiled_graphs_are_whole(name: str, calibrated: Callable[..., Any]) -> None:
    """``torch.compile`` finds nothing that breaks the graph."""
    scores, labels = calibrated("multiclass", 200)
    calibrator = build(name).fit(3 * scores, labels)
    compiled = torch.compile(calibrator, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(scores), calibrator(scores), rtol=1e-13, atol=1e-13)
