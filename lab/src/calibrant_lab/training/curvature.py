"""The curvature of a trained network, by its training loss and by cross-entropy."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor, nn

from calibrant import losses
from calibrant._math.errors import ConvergenceError, InputError
from calibrant._math.files import write_text
from calibrant.curvature import hessian_trace, spectral_density, top_eigenvalues
from calibrant_lab.data import Dataset
from calibrant_lab.data.table import to_unit
from calibrant_lab.models import build as build_model
from calibrant_lab.models import load_weights
from calibrant_lab.reports.curvature import FORMAT, read_curvature
from calibrant_lab.training import seeds
from calibrant_lab.training.data import Job, data_of, preparation, read_data
from calibrant_lab.training.loss import FollowsEpochs, build_loss
from calibrant_lab.training.recipe import Recipe
from calibrant_lab.training.run import Run, load_run
from calibrant_lab.training.run_report import rewrite_report
from calibrant_lab.training.samples import middle, network_shape


@dataclass(frozen=True, kw_only=True)
class Subject:
    """Trained network with its training loss and data."""

    title: str
    recipe: Recipe
    model: nn.Module
    loss: nn.Module  # in the state of the last epoch
    dataset: Dataset
    run: Run | None = None


def subject_of_run(path: str | os.PathLike[str], dataset: Dataset | None = None) -> Subject:
    """Load the network of a finished run, or of one on ``dataset`` that is about to finish."""
    run = load_run(path)
    if run.evaluation is None and dataset is None:
        raise InputError(f"{path} is not finished; `calibrant train {path}` resumes it.")
    dataset = dataset or data_of(run)
    loss, state = build_loss(run.recipe, dataset), run.folder.load_checkpoint()
    if state is not None:  # some losses change by epoch or follow held-out samples
        loss.load_state_dict(state["loss"])
        if isinstance(loss, FollowsEpochs):
            loss.step(max(int(state["epoch"]) - 1, 0))
    made: dict[str, Any] = {
        "title": str(run.folder.path),
        "recipe": run.recipe,
        "dataset": dataset,
        "run": run,
    }
    return Subject(model=run.model(), loss=loss.eval(), **made)


def subject_of_factory(
    factory: str, weights: str | os.PathLike[str], data: str, *, loss: str, settings: Sequence[str] = ()
) -> Subject:
    """Load a network from a factory or recipe name, with weights and data; ``settings`` prepare samples."""
    recipe = Recipe.read({"model": factory, "loss": loss, "data": {"name": data}}).with_settings(settings)
    dataset = read_data(recipe.data)
    with torch.random.fork_rng(devices=[]):
        model = build_model(
            recipe.model,
            input_shape=network_shape(recipe, dataset),
            num_classes=dataset.num_classes,
            vectors=dataset.vectors,
        )
    load_weights(model, weights)
    return Subject(
        title=f"{factory}, {weights}",
        recipe=recipe,
        model=model.eval(),
        loss=build_loss(recipe, dataset),
        dataset=dataset,
    )


Split: TypeAlias = Literal["train", "test"]
Progress: TypeAlias = Callable[[str, float], None]
Batches: TypeAlias = list[tuple[Tensor, Tensor]]
_Tell: TypeAlias = Callable[[int, int], None]
CROSS_ENTROPY = "cross-entropy"
_DENSITY_POINTS = 400


@dataclass(frozen=True, kw_only=True)
class Effort:
    """Numbers of samples and of products to use."""

    num_samples: int = 1000  # drawn at random where the split has more; 0: all
    num_eigenvalues: int = 1
    tolerance: float = 1e-4  # for the eigenvalues, relative to the largest
    trace_products: int = 60
    density_steps: int = 40
    density_probes: int = 4  # 0: no density
    batch_size: int = 500
    seed: int = 0


def measure_curvature(
    subject: Subject,
    *,
    split: Split = "train",
    effort: Effort | None = None,
    device: torch.device | str = "cpu",
    progress: Progress | None = None,
) -> list[dict[str, Any]]:
    """Return the Hessian's eigenvalues, trace and density by both losses, without penalties."""
    chosen = effort or Effort()
    place = torch.device(device)
    batches, total = _batches(subject, split, chosen, place)
    model = subject.model.to(place)
    weighted = subject.recipe.training.class_weights != "none"
    wanted = [(subject.recipe.loss + (", classes weighted" if weighted else ""), subject.loss.to(place))]
    if wanted[0][0] != CROSS_ENTROPY:
        wanted.append((CROSS_ENTROPY, losses.build(CROSS_ENTROPY)))
    found: list[dict[str, Any]] = []
    for number, (name, loss) in enumerate(wanted):

        def tell(what: str, start: float, end: float, number: int = number, name: str = name) -> _Tell:
            return lambda done, most: (
                progress(f"{what}, {name}", (number + start + (end - start) * done / most) / len(wanted))
                if progress
                else None
            )

        common = {
            "split": split,
            "num_samples": sum(len(labels) for _, labels in batches),
            "of_samples": total,
            "loss": name,
            "role": "training loss" if number == 0 else "for comparison",
            "num_parameters": sum(each.numel() for each in model.parameters() if each.requires_grad),
            "seed": chosen.seed,
        }
        found.append(common | _spectrum(model, loss, batches, chosen, tell))
    return found


def _spectrum(
    model: nn.Module,
    loss: nn.Module,
    batches: Batches,
    effort: Effort,
    tell: Callable[[str, float, float], _Tell],
) -> dict[str, Any]:
    with torch.no_grad():
        total = sum(float(loss(model(inputs), labels)) * len(labels) for inputs, labels in batches)
    value = total / sum(len(labels) for _, labels in batches)
    if not math.isfinite(value):
        raise ConvergenceError(f"the loss of these samples is {value}, so its curvature is not defined.")
    given, seed = (model, loss, batches), effort.seed
    eigen = top_eigenvalues(
        *given,
        k=effort.num_eigenvalues,
        tolerance=effort.tolerance,
        seed=seed,
        progress=tell("largest eigenvalue", 0.0, 0.3),
    )
    trace = hessian_trace(
        *given, num_matvecs=effort.trace_products, seed=seed, progress=tell("trace", 0.3, 0.5)
    )
    found: dict[str, Any] = {
        "value": value,
        "eigenvalues": list(eigen.values),
        "residuals": list(eigen.residuals),
        "converged": eigen.converged,
        "eigenvalue_products": eigen.num_products,
        "trace": trace.value,
        "trace_standard_error": trace.standard_error,
        "trace_products": trace.num_products,
        "density": None,
    }
    if effort.density_probes:
        density = spectral_density(
            *given,
            num_steps=effort.density_steps,
            num_probes=effort.density_probes,
            num_points=_DENSITY_POINTS,
            seed=seed,
            progress=tell("density", 0.5, 1.0),
        )
        error = density.standard_error
        found["density"] = {
            "eigenvalues": density.grid.tolist(),
            "density": density.density.tolist(),
            "standard_error": error.tolist() if bool(torch.isfinite(error).all()) else None,
            "width": density.width,
            "products": density.num_products,
        }
    return found


def write_requested(job: Job, device: torch.device) -> None:
    """Write ``curvature.json`` of a network that was just trained, if the recipe requests it."""
    if samples := job.recipe.evaluation.curvature:
        subject = subject_of_run(job.folder.path, job.dataset)
        effort = Effort(num_samples=samples, density_probes=0)
        found = measure_curvature(subject, effort=effort, device=device)
        write_text(job.folder.curvature, curvature_text(job.folder.path.name, found))


def add_to_run(run: Run, dataset: Dataset, found: Sequence[Mapping[str, Any]]) -> None:
    """Write ``curvature.json`` and the report of a finished run; keep measurements of other splits."""
    splits = {each["split"] for each in found}
    kept = [each for each in read_curvature(run.folder.curvature) if each["split"] not in splits]
    together = sorted([*kept, *(dict(each) for each in found)], key=lambda each: each["split"] != "train")
    write_text(run.folder.curvature, curvature_text(run.folder.path.name, together))
    rewrite_report(run, dataset)


def curvature_text(name: str, found: Sequence[Mapping[str, Any]]) -> str:
    return json.dumps({"format": FORMAT, "of": name, "measurements": list(found)}, allow_nan=False) + "\n"


def _batches(subject: Subject, split: Split, effort: Effort, device: torch.device) -> tuple[Batches, int]:
    """Return selected samples, prepared as for the epoch metrics, and the size of the split."""
    part = subject.dataset.parts[split]
    total = len(part)
    rows = torch.arange(total)
    if 0 < effort.num_samples < total:
        source = seeds.generator(effort.seed, seeds.ORDER)
        rows = torch.randperm(total, generator=source)[: effort.num_samples].sort().values
    prepare, side = preparation(subject.recipe.data, subject.dataset), subject.recipe.data.crop
    dtype = next(subject.model.parameters()).dtype
    batches: Batches = []
    for some in rows.split(effort.batch_size):
        inputs = middle(prepare(to_unit(part.inputs[some])), side)
        inputs = inputs.to(dtype) if inputs.is_floating_point() else inputs  # others are word numbers
        batches.append((inputs.to(device), part.labels[some].to(device)))
    return batches, total
