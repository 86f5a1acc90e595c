"""Does focal loss calibrate by lowering the curvature of the loss?"""

import math
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any, ClassVar, TypeAlias

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from calibrant import metrics
from calibrant._math.machine import threads_for
from calibrant._math.shapes import Float
from calibrant._math.text_form import named
from calibrant.calibrators import TemperatureScaling
from calibrant.calibrators.fitting.results import fitted_number
from calibrant.curvature import SAM, CurvatureRegularizer, hessian_trace, top_eigenvalues
from calibrant.evaluation.fitting.templates import Labelled, fit_quietly
from calibrant.losses import focal_loss
from calibrant.reports.figures.drawing import GREY
from calibrant_lab.data import Part, load, split
from calibrant_lab.data.table import Preparation, to_unit
from calibrant_lab.reports.curvature import scatter
from calibrant_lab.sweep.tasks.task import Settings, Simulation, completed
from calibrant_lab.training import seeds as training_seeds
from papers.analysis import Frames, Tables, beside, flat_runs, means_only, ordered, pivot

Batch: TypeAlias = tuple[Tensor, Tensor]
Loss: TypeAlias = Callable[[Tensor, Tensor], Tensor]
EIGEN_TOLERANCE, MAX_PRODUCTS, TRACE_PRODUCTS = 3e-3, 100, 21
TRAINING = {"epochs": 40, "batch_size": 50, "learning_rate": 0.05, "momentum": 0.9, "weight_decay": 5e-4}
OF_DIGITS = {"data": "digits", "kind": "mlp", "train": 400, "calibration": 400, "test": 997, "measured": 400}
OF_FASHION = {"data": "fashion_mnist", "kind": "cnn", "train": 1000, "calibration": 1000, "test": 10_000}
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    f"{name}-{end}": {**TRAINING, **data, "batch_norm": end == "norm"}
    for name, data in (
        ("digits", {**OF_DIGITS, "downsample": 1}),
        ("fashion", {**OF_FASHION, "measured": 250, "downsample": 2}),
    )
    for end in ("plain", "norm")
}
"""Data, network and training; the Hessian is that of the first ``measured`` training samples."""
ARMS: Mapping[str, Mapping[str, float]] = {
    **{f"focal-{gamma}": {"gamma": gamma} for gamma in (0, 1, 2, 3, 5)},
    **{f"trace-{beta:g}": {"beta": beta} for beta in (1e-4, 1e-3, 1e-2)},
    **{f"sam-{radius:g}": {"radius": radius} for radius in (0.05, 0.2)},
    **{f"focal-no-decay-{gamma}": {"gamma": gamma, "decay": 0} for gamma in (0, 2, 5)},
    **{f"focal-low-rate-{gamma}": {"gamma": gamma, "slower": 5} for gamma in (0, 2, 5)},
}
"""Exponent of focal loss, weight of the trace of cross-entropy's Hessian, radius of SAM; the training."""


class Curvature(Simulation):
    """One arm of one setting, trained and measured; numbers of the setting may be changed."""

    name: ClassVar[str] = "curvature"
    version: ClassVar[int] = 1
    costly: ClassVar[tuple[str, ...]] = ("setting", "arm", "epochs", "measured")

    def complete(self, settings: Settings) -> Settings:
        given = {"seed": 0, "setting": "digits-plain", "arm": "focal-0", **settings}
        numbers = named(given["setting"], SETTINGS, "setting", place=" in this study")
        named(given["arm"], ARMS, "arm", place=" in this study")
        chosen = {name: given[name] for name in ("seed", "setting", "arm")}
        return completed(settings, {**chosen, **numbers})

    def simulate(self, settings: Settings) -> Mapping[str, Any]:
        with threads_for(0):
            return trained_and_measured(settings)


def trained_and_measured(settings: Settings) -> dict[str, Any]:
    """Curvature of its loss and of cross-entropy on training samples, and calibration on test samples."""
    arm, seed = ARMS[settings["arm"]], settings["seed"]
    sizes = {name: settings[name] for name in ("train", "calibration", "test", "downsample")}
    data = split(_raw(settings["data"]), seed=seed, **sizes)
    prepare = Preparation.fitted(data.train.inputs)

    def batch(part: Part) -> Batch:
        return prepare(to_unit(part.inputs[:])), part.labels

    training = batch(data.train)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(training_seeds.derived(seed, training_seeds.WEIGHTS))
        shape, norm = training[0].shape[1:], settings["batch_norm"]
        model = network(settings["kind"], shape, data.num_classes, batch_norm=norm)
    if not _train(model, settings, arm, training):
        return {}
    first = training[0][: settings["measured"]], training[1][: settings["measured"]]
    losses = {"own": focal(arm.get("gamma", 0)), "cross_entropy": focal(0)}
    return {
        **{name: curvature(model, loss, first) for name, loss in losses.items()},
        **calibration(model, batch(data.calibration), batch(data.test)),
    }


def focal(gamma: float) -> Loss:
    """Mean focal loss of a batch; cross-entropy for an exponent of zero."""
    return partial(focal_loss, gamma=gamma)


def _train(model: nn.Module, settings: Settings, arm: Mapping[str, float], training: Batch) -> bool:
    """Descend at a rate that falls twice to a tenth; False if the loss stopped being finite."""
    seed, epochs, loss = settings["seed"], settings["epochs"], focal(arm.get("gamma", 0))
    rate = settings["learning_rate"] / arm.get("slower", 1)
    decay = arm.get("decay", settings["weight_decay"])
    how = {"lr": rate, "momentum": settings["momentum"], "weight_decay": decay}
    optimiser = torch.optim.SGD(model.parameters(), **how)
    sharp = SAM(model, optimiser, rho=arm["radius"]) if "radius" in arm else None
    penalty = CurvatureRegularizer(model, loss, weight=arm["beta"], seed=seed) if "beta" in arm else None

    def step(inputs: Tensor, labels: Tensor) -> float:
        """Return the loss before a step of the arm's training, without a penalty."""
        if sharp is not None:
            return float(sharp.step(lambda: loss(model(inputs), labels)))
        optimiser.zero_grad()
        logits = model(inputs)
        found = None if penalty is None else penalty.penalised(logits, labels)
        value = loss(logits, labels) if found is None else found.loss
        (value if found is None else found.total).backward()
        optimiser.step()
        return float(value.detach())

    for epoch in range(1, epochs + 1):
        for group in optimiser.param_groups:
            group["lr"] = rate * 0.1 ** ((epoch > epochs / 2) + (epoch > 0.75 * epochs))
        generator = training_seeds.generator(seed, training_seeds.ORDER, epoch)
        batches = torch.randperm(len(training[1]), generator=generator).split(settings["batch_size"])
        if not math.isfinite(sum(step(training[0][rows], training[1][rows]) for rows in batches)):
            return False
    return True


def curvature(model: nn.Module, loss: Loss, batch: Batch) -> dict[str, float]:
    """Largest eigenvalue and trace of the loss's Hessian, in evaluation mode."""
    eigen = top_eigenvalues(model, loss, [batch], tolerance=EIGEN_TOLERANCE, max_products=MAX_PRODUCTS)
    trace = hessian_trace(model, loss, [batch], method="hutch++", num_matvecs=TRACE_PRODUCTS)
    return {"lambda_max": eigen.values[0], "trace": trace.value}


def calibration(model: nn.Module, held_out: Batch, test: Batch) -> dict[str, float]:
    """Error, ECE and overconfidence on test samples; ECE after a temperature fitted on held-out ones."""
    scaling = fit_quietly(TemperatureScaling(), Labelled(_logits(model, held_out[0]), held_out[1], None))
    logits, labels = _logits(model, test[0]), test[1]
    confidence, chosen = logits.softmax(1).max(1)
    right = (chosen == labels).double()
    scaled = scaling.predict_proba(logits).double()
    return {
        "error": 1 - float(right.mean()),
        "ece": float(metrics.expected_calibration_error(logits.softmax(1), labels)),
        "overconfidence": float((confidence - right).mean()),
        "ece_after": float(metrics.expected_calibration_error(scaled, labels)),
        "temperature": fitted_number(scaling.fit_result_, "temperature"),
    }


def _logits(model: nn.Module, inputs: Tensor) -> Float[Tensor, "N C"]:
    model.eval()
    with torch.no_grad():
        return torch.cat([model(piece) for piece in inputs.split(2000)]).double()


def network(kind: str, shape: tuple[int, ...], num_classes: int, *, batch_norm: bool) -> nn.Sequential:
    """Two hidden layers, dense ("mlp") or convolutional ("cnn", with a dense one more).

    Batch normalisation, where wanted, stands between each of them and its ReLU, and takes the bias's place.

    Example:
        >>> sum(each.numel() for each in network("mlp", (1, 8, 8), 10, batch_norm=False).parameters())
        8970
    """

    def block(layer: nn.Module, norm: nn.Module) -> list[nn.Module]:
        return [layer, *([norm] if batch_norm else []), nn.ReLU()]

    def dense(given: int, width: int) -> list[nn.Module]:
        return block(nn.Linear(given, width, bias=not batch_norm), nn.BatchNorm1d(width))

    def convolution(given: int, width: int, size: int) -> list[nn.Module]:
        options: dict[str, Any] = {"stride": 2, "padding": size // 2, "bias": not batch_norm}
        return block(nn.Conv2d(given, width, size, **options), nn.BatchNorm2d(width))

    if kind == "mlp":
        hidden = [nn.Flatten(), *dense(math.prod(shape), 64), *dense(64, 64)]
        return nn.Sequential(*hidden, nn.Linear(64, num_classes))
    size = 16 * ((shape[1] + 3) // 4) * ((shape[2] + 3) // 4)
    hidden = [*convolution(shape[0], 8, 5), *convolution(8, 16, 3), nn.Flatten(), *dense(size, 32)]
    return nn.Sequential(*hidden, nn.Linear(32, num_classes))


_raw = lru_cache(maxsize=2)(load)
DIGITS = 4
TITLES = {
    "digits-plain": "digits",
    "digits-norm": "digits, BatchNorm",
    "fashion-plain": "Fashion-MNIST",
    "fashion-norm": "Fashion-MNIST, BatchNorm",
}
PLAIN = "cross-entropy"
FAMILIES = {
    "focal-no-decay": "no weight decay",
    "focal-low-rate": "low rate",
    "focal": "focal",
    "trace": "trace penalty",
    "sam": "SAM",
}
CURVATURE = [f"{name}, {loss}" for loss in ("own loss", PLAIN) for name in ("λ_max", "trace")]
OUTCOMES = {"ece": "ECE", "ece_after": "ECE after T", "overconfidence": "overconfidence"}


def frames(results: Mapping[str, Any]) -> Frames:
    """``runs``; ``ranks``, correlations over the exponents; ``changes`` from plain cross-entropy."""
    found = pd.DataFrame(
        {
            **{name: run[name] for name in ("setting", "arm", "seed", "error", "temperature", *OUTCOMES)},
            "family": next(title for name, title in FAMILIES.items() if run["arm"].startswith(name)),
            "gamma": ARMS[run["arm"]].get("gamma", 0),
            **{
                f"{title}, {loss}": run[key][name]
                for key, loss in (("own", "own loss"), ("cross_entropy", PLAIN))
                for name, title in (("lambda_max", "λ_max"), ("trace", "trace"))
            },
        }
        for run in flat_runs(results)
    )
    runs = ordered(ordered(found, "setting", TITLES), "arm", {name: _title(name) for name in ARMS})
    return {"runs": runs, "ranks": _ranks(runs), "changes": _changes(runs)}


def _title(arm: str) -> str:
    family, _, number = arm.rpartition("-")
    if family.startswith("focal"):
        name = PLAIN if number == "0" else f"focal, γ = {number}"
        return name if family == "focal" else f"{name}, {FAMILIES[family]}"
    return f"SAM, ρ = {number}" if family == "sam" else f"trace penalty, {number}"


def _ranks(runs: pd.DataFrame) -> pd.DataFrame:
    """Spearman's correlation of curvature with γ and with outcomes over exponents, averaged over seeds.

    Its standard error is that of random orders of the exponents: equal ranks in all seeds would otherwise
    have none.
    """
    focal = runs[~runs.family.isin(["trace penalty", "SAM"])]
    found = pd.DataFrame(
        {
            "setting": setting,
            "family": family,
            "seed": seed,
            "quantity": quantity,
            "other": title,
            "value": of[quantity].rank().corr(of[other].rank()),
            "variance": 1 / (len(of) - 1),
        }
        for (setting, family, seed), of in focal.groupby(["setting", "family", "seed"], observed=True)
        for quantity in CURVATURE
        for other, title in {"gamma": "γ", **OUTCOMES}.items()
    )
    groups = found.groupby(["setting", "family", "quantity", "other"], observed=True, sort=False)
    error = np.sqrt(groups.variance.mean() / groups.size())
    return groups.value.mean().to_frame().assign(standard_error=error).reset_index()


def _changes(runs: pd.DataFrame) -> pd.DataFrame:
    """Differences from plain cross-entropy of the same seed, of curvature as logarithms of ratios."""
    numbers = ["error", *OUTCOMES, *CURVATURE]
    logs = runs.assign(**np.log(runs[CURVATURE]))
    rows = logs[(runs.family == "focal") & (runs.gamma > 0) | runs.family.isin(["trace penalty", "SAM"])]
    plain = logs[runs.arm == PLAIN]
    return rows.assign(**rows[numbers] - beside(rows, plain, ["setting", "seed"])[numbers])


def tables(found: Frames) -> Tables:
    shown = {name: name for name in (PLAIN, "focal, γ = 3", "SAM, ρ = 0.2")}
    rows, form = ordered(found["runs"], "arm", shown), {"digits": 1, "scale": 1}
    heads = ("trace, own loss", f"trace, {PLAIN}", "ece", "ece_after")
    parts = [pivot(rows, ["setting", "arm"], [], name, **(form if "," in name else {})) for name in heads]
    short = pd.concat(parts, axis=1).rename(columns={"ece": "ECE %", "ece_after": "ECE % after T"})
    error = pivot(found["runs"], ["arm"], ["setting"], "error")
    return {"short": means_only(short, "ECE %"), "error": error}


def figure(found: Frames) -> Figure:
    runs = found["runs"].query("family in ['focal', 'trace penalty', 'SAM']")
    whole = Figure(figsize=(8.6, 4.6), layout="constrained")
    panels = whole.subplots(2, len(TITLES), sharey=True)
    for column, (setting, of) in enumerate(runs.groupby("setting", observed=True)):
        for ax, loss in zip(panels[:, column], ("own loss", PLAIN), strict=True):
            for family, mark in (("trace penalty", "x"), ("SAM", "+")):
                points = of[of.family == family]
                x, y = points[f"trace, {loss}"], 100 * points.ece
                ax.plot(x, y, mark, color=GREY, markersize=5, label=family)
            focal = of[of.family == "focal"].groupby("arm", observed=True)
            scatter(ax, {arm: (each[f"trace, {loss}"], 100 * each.ece) for arm, each in focal})
            ax.set_xlabel(f"trace, {loss}")
        panels[0, column].set_title(setting, fontsize="medium")
    for ax in panels[:, 0]:
        ax.set_ylabel("test ECE in %")
    look: dict[str, Any] = {"ncols": 7, "fontsize": "small", "columnspacing": 1}
    whole.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside lower center", **look)
    return whole
