"""Values and gradients of the authors' own code, and of references computed independently."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from calibrant import losses

CLOSED = {"rtol": 1e-12, "atol": 1e-13}
# The authors' MMCE holds its constants in float32.
SINGLE_CONSTANTS = {"rtol": 1e-7, "atol": 1e-9}
MENDED_MMCE = {
    "mmce_w_single_normalisation_sqrt_1e-10": {"rtol": 1e-11, "atol": 1e-12},
    "mmce_m_with_sqrt": {"rtol": 1e-8, "atol": 1e-9},  # the reference has no 1e-10 under its root
}

SETS = ("K10", "K2")
FLSD_532 = {"thresholds": (0.2, 0.5, 1.0), "gammas": (5.0, 3.0, 2.0)}


def mmce_alone(logits: Tensor, labels: Tensor, **options: Any) -> Tensor:
    penalised = losses.mmce_loss(logits, labels, penalty=1.0, **options)
    return penalised - losses.cross_entropy_loss(logits, labels)


# name in the file -> the function and its options
AUTHORS: dict[str, tuple[Callable[..., Tensor], dict[str, Any]]] = {
    "cross_entropy": (losses.cross_entropy_loss, {}),
    **{
        f"focal_gamma_{g}": (losses.focal_loss, {"gamma": float(g)}) for g in ("0", "0.5", "1", "2", "3", "5")
    },
    "flsd_code_thr_0.2_0.5_base_3": (losses.sample_focal_loss, {}),
    "flsd_code_thr_0.2_0.5_base_2": (losses.sample_focal_loss, FLSD_532),
    "brier": (losses.brier_loss, {}),
    **{
        f"dual_focal_gamma_{g}": (losses.dual_focal_loss, {"gamma": float(g)})
        for g in ("0", "1", "2", "2.3", "5")
    },
    **{
        f"fcl_ungated_gamma_{g}_lam_{w}": (
            losses.focal_calibration_loss,
            {"gamma": float(g), "calibration_weight": float(w)},
        )
        for g, w in (("2", "0.5"), ("3", "0.5"), ("4", "1.5"), ("2", "1"), ("0", "1"))
    },
    "label_smoothing_0.05_torch": (losses.label_smoothing_loss, {}),
    "label_smoothing_0.05_Kminus1": (losses.label_smoothing_loss, {"spread": "others"}),
    "ce_mean_plus_2_mmce_w": (losses.mmce_loss, {"as_published": True}),
    "ce_mean_plus_2_mmce_m": (losses.mmce_loss, {"as_published": True, "weighted": False}),
    "mmce_w_raw": (mmce_alone, {"as_published": True}),
    "mmce_m_raw": (mmce_alone, {"as_published": True, "weighted": False}),
}
DERIVED: dict[str, tuple[Callable[..., Tensor], dict[str, Any]]] = {
    "flsd53_paper002_thresholds_sum": (
        losses.sample_focal_loss,
        {"thresholds": (0.19, 1.0), "closed": "right", "reduction": "sum"},
    ),
    "fla532_paper002_thresholds_sum": (
        losses.sample_focal_loss,
        {"thresholds": (0.19, 0.5, 1.0), "gammas": (5, 3, 2), "closed": "right", "reduction": "sum"},
    ),
    "fcl_l1_sum_gamma3_lam0.5_mean": (losses.focal_calibration_loss, {"norm": "l1"}),
    "mmce_w_single_normalisation_sqrt_1e-10": (mmce_alone, {"as_published": False}),
    "mmce_m_with_sqrt": (mmce_alone, {"as_published": False, "weighted": False}),
}
DERIVED_MULTILABEL: dict[str, tuple[Callable[..., Tensor], dict[str, Any]]] = {
    "multilabel_focal_gamma2_lam0_mean_all": (losses.multilabel_focal_loss, {}),
    "multilabel_fcl_gamma2_lam0.5_mean_all": (losses.multilabel_focal_calibration_loss, {}),
    "multilabel_bce_mean_all": (losses.multilabel_focal_loss, {"gamma": 0.0}),
}


def problem(content: Any) -> tuple[Tensor, Tensor]:
    """The logits and labels of a file."""
    return torch.tensor(content["logits"], dtype=torch.float64), torch.tensor(content["labels"])


def check(value: Tensor, leaf: Tensor, expected: Any, tolerance: dict[str, float]) -> None:
    """Compare a value and the first rows of its gradient."""
    torch.testing.assert_close(
        value.detach(), torch.tensor(expected["value"], dtype=torch.float64), **tolerance
    )
    rows = torch.tensor(expected["grad_logits"], dtype=torch.float64)
    (gradient,) = torch.autograd.grad(value, leaf)
    torch.testing.assert_close(gradient[: len(rows)], rows, **tolerance)


@pytest.mark.parametrize("name", AUTHORS)
@pytest.mark.parametrize("data", SETS)
def test_authors_code(golden: Callable[[str], Any], data: str, name: str) -> None:
    content = golden(f"losses_{data}.json")
    logits, labels = problem(content)
    function, options = AUTHORS[name]
    expected = content["losses"][name]
    leaf = logits.requires_grad_()
    if "mmce" not in name:
        options = options | {"reduction": expected["reduction"]}
    check(function(leaf, labels, **options), leaf, expected, SINGLE_CONSTANTS if "mmce" in name else CLOSED)


@pytest.mark.parametrize("name", DERIVED)
@pytest.mark.parametrize("data", SETS)
def test_derived(golden: Callable[[str], Any], data: str, name: str) -> None:
    logits, labels = problem(golden(f"losses_{data}.json"))
    function, options = DERIVED[name]
    leaf = logits.requires_grad_()
    expected = golden("losses_derived.json")["sets"][data][name]
    check(function(leaf, labels, **options), leaf, expected, MENDED_MMCE.get(name, CLOSED))


@pytest.mark.parametrize("name", DERIVED_MULTILABEL)
@pytest.mark.parametrize("data", SETS)
def test_derived_multilabel(golden: Callable[[str], Any], data: str, name: str) -> None:
    logits, labels = problem(golden(f"losses_{data}.json"))
    hot = torch.nn.functional.one_hot(labels, logits.shape[1])
    function, options = DERIVED_MULTILABEL[name]
    leaf = logits.requires_grad_()
    for labelled in (hot, hot.bool(), hot.double()):
        expected = golden("losses_derived.json")["sets"][data][name]
        check(function(leaf, labelled, **options), leaf, expected, CLOSED)


@pytest.mark.parametrize("data", SETS)
def test_sample_gammas(golden: Callable[[str], Any], data: str) -> None:
    """The exponent of every sample is the authors', and so are those at chosen probabilities."""
    content = golden(f"losses_{data}.json")
    logits, labels = problem(content)
    values = losses.sample_focal_loss(logits, labels, reduction="none")
    gammas = torch.tensor(content["flsd53_gammas"], dtype=torch.float64)
    probs = torch.tensor(content["p_true"], dtype=torch.float64)
    torch.testing.assert_close(values, -((1 - probs) ** gammas) * probs.log(), rtol=1e-10, atol=1e-13)


def test_thresholds_of_code_and_text(golden: Callable[[str], Any]) -> None:
    """At 0.195 the authors' code takes 5 and their text 3; 0.2 itself belongs to the range above."""
    table = dict(golden("losses_K10.json")["flsd53_gammas_at"])
    assert table[0.195] == table[0.1999] == 5
    assert table[0.2] == 3
    for p, gamma in table.items():
        if 0 < p < 1:
            logits = torch.tensor([[p, 1 - p]], dtype=torch.float64).log()
            expected = losses.focal_loss(logits, torch.tensor([0]), gamma=gamma)
            value = losses.sample_focal_loss(logits, torch.tensor([0]))
            torch.testing.assert_close(value, expected, **CLOSED)
    logits = torch.tensor([[0.195, 0.805]], dtype=torch.float64).log()
    text = losses.sample_focal_loss(logits, torch.tensor([0]), thresholds=(0.19, 1.0), closed="right")
    torch.testing.assert_close(text, losses.focal_loss(logits, torch.tensor([0]), gamma=3), **CLOSED)


def test_focal_at_extremes(golden: Callable[[str], Any]) -> None:
    """Value and gradient keep their digits at logit gaps up to 800, for exponents from -0.5 to 5."""
    for case in golden("losses_derived.json")["focal_extremes"]:
        leaf = torch.tensor([case["logits"]], dtype=torch.float64, requires_grad=True)
        target = case["target"]
        value = losses.focal_loss(leaf, torch.tensor([target]), gamma=case["gamma"])
        (gradient,) = torch.autograd.grad(value, leaf)
        # gamma = 0 is torch's cross-entropy, whose -log p is rounded at the size of one.
        floor = 1e-15 if case["gamma"] == 0 else 1e-300
        for ours, expected in (
            (value.item(), case["loss"]),
            (gradient[0, target].item(), case["grad_target_logit"]),
        ):
            assert ours == pytest.approx(expected, rel=1e-12, abs=floor), case


def test_optimal_gamma(golden: Callable[[str], Any]) -> None:
    """The authors' table of exponents (they add 1e-12 to the argument of W)."""
    for p0, gamma in golden("gamma_star.json")["table"]:
        assert losses.optimal_gamma(p0) == pytest.approx(gamma, rel=1e-8)
