"""The curvature of a trained network, by its training loss and by cross-entropy."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor, nn

from calibrant import losses
from calibrant._math.errors import ConvergenceError, InputError
from calibrant._math.files import said_of
from calibrant.curvature import hessian_trace, spectral_density, top_eigenvalues
from calibrant_lab.data import Dataset
from calibrant_lab.data.prepare import to_unit
from calibrant_lab.reports.curvature import curvature_section
from calibrant_lab.training import seeds
from calibrant_lab.training.curvature_subject import Subject
from calibrant_lab.training.data import preparation
from calibrant_lab.training.run import Run, RunFolder
from calibrant_lab.training.run_report import rewrite_report
from calibrant_lab.training.views import middle

Split: TypeAlias = Literal["train", "test"]
Progress: TypeAlias = Callable[[str, float], None]
_Step: TypeAlias = Callable[[str, float, float], Callable[[int, int], None]]
FORMAT = 1
CROSS_ENTROPY = "cross-entropy"
_DENSITY_POINTS = 400


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How many samples to use and how many products to spend."""

    num_samples: int = 1000
    """Drawn at random where the split has more; 0: all."""
    num_eigenvalues: int = 1
    tolerance: float = 1e-4
    """For the eigenvalues, relative to the largest."""
    trace_products: int = 60
    density_steps: int = 40
    density_probes: int = 4
    """0: no density."""
    batch_size: int = 500
    seed: int = 0


def measure_curvature(
    subject: Subject,
    *,
    split: Split = "train",
    effort: Effort | None = None,
    device: str = "cpu",
    progress: Progress | None = None,
) -> list[dict[str, Any]]:
    """Eigenvalues, trace and density of the Hessian by the training loss and by cross-entropy, as plain data.

    The network is in evaluation mode, samples are not augmented, and penalties on weights or curvature are
    left out.

    Raises:
        InputError: If a number is out of its range.
        ConvergenceError: If the loss of these samples is not finite.
    """
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
        tell = _share_of(progress or (lambda _what, _share: None), number, len(wanted), name)
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
    model: nn.Module, loss: nn.Module, batches: list[tuple[Tensor, Tensor]], effort: Effort, tell: _Step
) -> dict[str, Any]:
    """All measurements for one loss."""
    value = _mean_loss(model, loss, batches)
    if not math.isfinite(value):
        raise ConvergenceError(f"the loss of these samples is {value}, so its curvature is not defined.")
    eigen = top_eigenvalues(
        model,
        loss,
        batches,
        k=effort.num_eigenvalues,
        tolerance=effort.tolerance,
        seed=effort.seed,
        progress=tell("largest eigenvalue", 0.0, 0.3),
    )
    trace = hessian_trace(
        model,
        loss,
        batches,
        num_matvecs=effort.trace_products,
        seed=effort.seed,
        progress=tell("trace", 0.3, 0.5),
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
            model,
            loss,
            batches,
            num_steps=effort.density_steps,
            num_probes=effort.density_probes,
            num_points=_DENSITY_POINTS,
            seed=effort.seed,
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


def _mean_loss(model: nn.Module, loss: nn.Module, batches: list[tuple[Tensor, Tensor]]) -> float:
    with torch.no_grad():
        total = sum(float(loss(model(inputs), labels)) * len(labels) for inputs, labels in batches)
    return total / sum(len(labels) for _, labels in batches)


def add_to_run(run: Run, dataset: Dataset, found: Sequence[Mapping[str, Any]]) -> None:
    """Write ``curvature.json`` of a finished run and rewrite its report; measurements of other splits stay.

    Raises:
        InputError: If ``curvature.json`` holds something else.
    """
    splits = {each["split"] for each in found}
    kept = [each for each in read_curvature(run.folder) if each["split"] not in splits]
    together = sorted([*kept, *(dict(each) for each in found)], key=lambda each: each["split"] != "train")
    run.folder.write(_file_of(run.folder), curvature_text(run.folder.path.name, together))
    rewrite_whole_report(run, dataset)


def rewrite_whole_report(run: Run, dataset: Dataset) -> None:
    """Rewrite the report of a finished run, with its curvature where that was measured."""
    found = read_curvature(run.folder)
    rewrite_report(run, dataset, further=[curvature_section(found)] if found else [])


def _file_of(folder: RunFolder) -> Path:
    return folder.path / "curvature.json"


def read_curvature(folder: RunFolder) -> list[dict[str, Any]]:
    """The measurements in ``curvature.json`` of a run; none where there is no such file.

    Raises:
        InputError: If the file holds something else.
    """
    path = _file_of(folder)
    if not path.is_file():
        return []
    try:
        with said_of(path, "read"):
            content = json.loads(path.read_text(encoding="utf-8"))
        known, found = content["format"] == FORMAT, list(content["measurements"])
    except (ValueError, KeyError, TypeError):
        known, found = False, []
    if not known:
        raise InputError(f"{path} was not written by this version of `calibrant curvature`.")
    return found


def curvature_text(name: str, found: Sequence[Mapping[str, Any]]) -> str:
    """Measurements as the text of a JSON file."""
    return json.dumps({"format": FORMAT, "of": name, "measurements": list(found)}, allow_nan=False) + "\n"


def _batches(
    subject: Subject, split: Split, effort: Effort, device: torch.device
) -> tuple[list[tuple[Tensor, Tensor]], int]:
    """The chosen samples, prepared and seen as after each epoch, and how many the split has."""
    part = subject.dataset.parts[split]
    total = len(part)
    rows = torch.arange(total)
    if 0 < effort.num_samples < total:
        generator = torch.Generator().manual_seed(seeds.derived(effort.seed, seeds.ORDER))
        rows = torch.randperm(total, generator=generator)[: effort.num_samples].sort().values
    prepare, side = preparation(subject.recipe.data, subject.dataset), subject.recipe.data.crop
    dtype = next(subject.model.parameters()).dtype
    return [
        (
            _as_given(middle(prepare(to_unit(part.inputs[some])), side), dtype).to(device),
            part.labels[some].to(device),
        )
        for some in rows.split(effort.batch_size)
    ], total


def _as_given(inputs: Tensor, dtype: torch.dtype) -> Tensor:
    """In the network's precision, unless they are word numbers."""
    return inputs.to(dtype) if inputs.is_floating_point() else inputs


def _share_of(progress: Progress, number: int, count: int, name: str) -> _Step:
    """Turns the progress of a step into a share of the whole."""

    def tell(what: str, start: float, end: float) -> Callable[[int, int], None]:
        def report(done: int, most: int) -> None:
            progress(f"{what}, {name}", (number + start + (end - start) * done / most) / count)

        return report

    return tell
