"""``calibrant curvature``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from calibrant._math.errors import InputError
from calibrant._math.files import write_text, write_unless_other
from calibrant.cli import terminal
from calibrant.cli.terminal import Force, Seed, check_output, refuse_to_replace
from calibrant.evaluation.read_options import told

if TYPE_CHECKING:
    from calibrant_lab.training.curvature import Subject


def curvature(
    run: Annotated[str, typer.Argument(help="Directory of a finished run, or module:factory.")],
    split: Literal["train", "test"] = told("Split of the samples: train or test.", "train", "SPLIT"),
    samples: int = told("Number of random samples; 0 for all.", 1000, min=0),
    top: int = told("Number of largest eigenvalues.", 1, min=1),
    products: int = told("Hessian-vector products for the trace.", 60, min=6),
    density: bool = told("Estimate the density of all eigenvalues.", True, None, "--density/--no-density"),
    weights: Path | None = told("Factory: weights to load (.safetensors or .pt)."),
    data: str | None = told("Factory: named dataset, .npz file, or folder of images or texts.", None, "DATA"),
    loss: str | None = told('Factory: loss it was trained with, e.g. "focal(gamma=3)".', None, "LOSS"),
    setting: list[str] | None = told(
        "Factory: setting, e.g. data.normalise=none (repeatable).", None, "SETTING", "--set"
    ),
    json: Path | None = told("Write the numbers to this .json file, besides RUN/curvature.json."),
    figure: Path | None = told("Draw the density to this .svg, .png or .pdf file."),
    device: str = told("cpu, cuda or mps.", "cpu", "DEVICE"),
    seed: Seed = 0,
    force: Force = False,
) -> None:
    """Measure the curvature of the loss: eigenvalues, trace and density.

    Measures the training loss and cross-entropy. For a run, its report shows the result.

    Examples:
        calibrant curvature runs/digits
        calibrant curvature my_network:build --weights net.pt --data mnist --loss cross-entropy
    """
    check_output(json, endings=(".json",), option="--json", inputs=[weights] if weights else [])
    refuse_to_replace(json, option="--json", force=force, may=terminal.is_our_json)
    check_output(figure, endings=(".svg", ".png", ".pdf"), option="--figure")
    is_figure = terminal.starts_with(b"<svg", b"\x89PNG", b"%PDF")  # perhaps an equal one: known once drawn
    refuse_to_replace(figure, option="--figure", force=force, may=is_figure, what="and isn't a figure")
    if figure is not None and not density:
        raise InputError("--figure draws the density, which --no-density leaves out.")
    subject = _subject(run, {"--weights": weights, "--data": data, "--loss": loss, "--set": setting})
    from calibrant_lab.reports.curvature import read_curvature
    from calibrant_lab.training.curvature import Effort, add_to_run, curvature_text, measure_curvature
    from calibrant_lab.training.data import usable_device

    if subject.run is not None:
        read_curvature(subject.run.folder.curvature)  # fails before the work if it is damaged
    probes = Effort.density_probes if density else 0
    sizes = {"num_samples": samples, "num_eigenvalues": top, "trace_products": products}
    effort, place = Effort(**sizes, density_probes=probes, seed=seed), usable_device(device)
    with terminal.progress("reading") as report:
        found = measure_curvature(subject, split=split, effort=effort, device=place, progress=report)
    if json is not None:
        write_text(json, curvature_text(subject.title, found))
    places = [("numbers", json), ("figure", figure)]
    if subject.run is not None:
        add_to_run(subject.run, subject.dataset, found)
        folder = subject.run.folder
        places = [("numbers", folder.curvature), *places, ("report", folder.report)]
    _show(found)
    if figure is not None:
        write_unless_other(figure, lambda path: _draw(found, path), option="--figure", force=force)
    for what, path in places:
        if path is not None:
            typer.echo(f"{what + ':':9}{path}")


def _subject(run: str, given: dict[str, Any]) -> Subject:
    """Return a run, or a factory with all that a run would have; ``given`` by option name."""
    path = Path(run)
    is_run = path.exists() or ":" not in run
    if is_run and not path.is_dir():
        what = f"{run} is a file" if path.exists() else f"there is no run {run}"
        raise InputError(f"{what}; name the directory of a run, or module:factory.")
    from calibrant_lab.training.curvature import subject_of_factory, subject_of_run  # seconds

    present = [option for option, value in given.items() if value is not None]
    if is_run:
        if present:
            raise InputError(f"{present[0]} goes with module:factory; {run} is a run and has its own.")
        return subject_of_run(run)
    weights, data, loss, settings = given.values()
    if missing := [option for option in given if option not in {*present, "--set"}]:
        raise InputError(f"{run} needs {missing[0]}; only a run has its own.")
    return subject_of_factory(run, weights, data, loss=loss, settings=settings or [])


def _draw(found: list[dict[str, Any]], path: Path) -> None:
    from calibrant.reports.figures.drawing import drawing_style, save_figure
    from calibrant_lab.reports.curvature import spectrum_diagram

    with drawing_style():
        drawn: Any = spectrum_diagram(found).figure
    save_figure(drawn, path)


def _show(found: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    from calibrant.reports.terminal_table import Name
    from calibrant.reports.words import parameter as number
    from calibrant_lab.reports.curvature import samples_of

    table = Table(title=f"{samples_of(found[0])}, {found[0]['num_parameters']:,} parameters", title_style="")
    table.add_column("loss")
    for name in ("mean loss", "λ_max ± residual", "trace ± error"):
        table.add_column(name, justify="right")
    for each in found:
        table.add_row(
            Name(each["loss"]),
            number(each["value"]),
            f"{number(each['eigenvalues'][0])} ± {each['residuals'][0]:.1g}",
            f"{number(each['trace'])} ± {each['trace_standard_error']:.2g}",
        )
    Console().print(table)
    for each in found:
        if len(each["eigenvalues"]) > 1:
            values = ", ".join(number(value) for value in each["eigenvalues"])
            typer.echo(f"largest eigenvalues, {each['loss']}: {values}")
        if not each["converged"]:
            typer.echo(f"note: λ_max of {each['loss']} has not converged; its residual still holds.")
