"""Is focal loss better calibrated than cross-entropy on CIFAR-10, summed or averaged over the batch?"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from itertools import product
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from calibrant.predictions import Predictions, load_predictions
from calibrant.reports.figures.drawing import BLUE, VERMILLION
from calibrant_lab.data.fetch import located
from calibrant_lab.sweep.tasks.task import Outcome, RunResult, Settings, Tell
from calibrant_lab.sweep.tasks.training import recipe_of
from calibrant_lab.training.data import preparation, read_foreign
from calibrant_lab.training.recipe import DataSection
from calibrant_lab.training.run import load_run
from papers.analysis import Frames, Tables, beside, by_stage, flat_runs, means_only, ordered, pivot, relative
from papers.dynamics.run import FollowedRun
from papers.gammas.run import CLOSEST, OBJECTIVES, SEPARATED, fits_of, sides
from papers.human_posteriors.run import beside_people
from papers.loss_rows import USUAL, called, gamma_3, on_grid, repaired, scheduled
from papers.shift.run import by_severity, corrupted_images, data_of_section, evenly, judged_elsewhere
from papers.texts.run import judged

CORRUPTIONS = ("gaussian-noise", "motion-blur", "fog", "brightness", "contrast", "jpeg-compression")
IMAGES = 2000
"""So many test images are corrupted, and as many of each foreign set are shown."""
FOREIGN = ("fashion_mnist", "notmnist_ood")
PEOPLE = ("temperature", "focal-temperature")
"""What is held against people beside the network as trained."""
_BATCH = 100
"""Larger ones spend as long on fresh memory as on the network."""


class CIFAR10Run(FollowedRun):
    name: ClassVar[str] = "cifar10-training"

    def covers(self, result: RunResult, settings: Settings) -> bool:
        return super().covers(result, settings) and {"shift", "people"} <= result.more.keys()

    def run(self, settings: Settings, folder: Path, tell: Tell) -> Outcome:
        _judgements()  # before minutes of training rather than after them
        outcome = super().run(settings, folder, tell)
        run = load_run(folder)
        section = recipe_of(settings).data
        key = section.model_dump_json()
        dataset = data_of_section(key)
        found = judged_elsewhere(
            run.model().to(self.device(settings)),
            preparation(section, dataset),
            run.predictions,
            corrupted=partial(corrupted_images, key, IMAGES),
            foreign={name: _foreign(key, name) for name in FOREIGN},
            num_images=IMAGES,
            batch=_BATCH,
            corruptions=CORRUPTIONS,
        )
        more = {**outcome.more, "shift": found, "people": people(run.predictions)}
        return replace(outcome, more=more)


@lru_cache(maxsize=8)
def _foreign(section: str, name: str) -> Tensor:
    """Images of another set, made as large and as coloured as those of CIFAR-10."""
    own = DataSection.model_validate_json(section)
    part = read_foreign(name, data_of_section(section), own.model_copy(update={"size": 32, "channels": 3}))
    return part.inputs[evenly(len(part), IMAGES)]


def _judgements() -> Path:
    return located("cifar10h_human_labels", None, files=["cifar10h.npz"]).parents[1]


def people(predictions: Predictions) -> dict[str, dict[str, float]]:
    """How near the network comes to people, as trained and after what held-out images fit."""
    data = beside_people(_judgements(), predictions.test)
    _, probs = repaired(predictions, {name: name for name in PEOPLE})
    said = {**{stage: each.log() for stage, each in probs.items()}, "before": data.log_probs}
    scores = {stage: data.scores(log_probs) for stage, log_probs in said.items()}
    return {stage: {name: float(each.mean()) for name, each in of.items()} for stage, of in scores.items()}


CE, FOCAL = "cross-entropy", "focal, γ = 3"
NO_DECAY = "no weight decay"
LOSSES = {
    **called(CE, *(f"focal, γ = {gamma}" for gamma in (1, 2, 3, 5, 7)), "FLSD-53", "AdaFocal", "FCL"),
    **called("Brier", "MMCE", "label smoothing", "dual focal", "FLSD-532"),
    **scheduled(9, 21),
    NO_DECAY: NO_DECAY,
}
ROWS = list(LOSSES.values())[:8]
"""The losses of table 1 of Komisarenko and Kull (2024)."""
LEFT_OUT = ["focal, γ = 7", "FLSD-532", "FLSc-531", "FLSc-532", NO_DECAY]
"""Losses that the page's table has no room for."""
WAYS = {0.163: "mean × 1.63", 0.206: "mean × 2.06", 0.0793: "mean × 0.793"}
"""What learning rates other than 0.1 are called; only the mean has them."""
EQUAL_STEPS = {
    "sum": ("sum", "sum"),
    "mean": ("mean", "mean × 0.793"),
    "faster": ("mean × 2.06", "mean × 1.63"),
}
"""Ways of focal loss and of cross-entropy in which gradients, times the rate, are about equally long."""
STAGES = {
    "as trained": "before",
    "with T": "by-ece",
    "with T by AdaECE": "by-adaptive-ece",
    "with T by NLL": "temperature",
    "with focal T": "focal-temperature",
}
"""``with T`` is the temperature that ECE chose, in ``authors`` the one that the judged error chose."""
METRICS = {**USUAL, "smCE": "smce", "above 0.99": "share_above_99"}


def keep(result: RunResult) -> dict[str, Any] | None:
    """All metrics and fits, what training images say, and shifted images; None if these were not judged."""
    if not {"shift", "people", "train_side"} <= result.more.keys():
        return None
    rows, shift = result.rows, result.more["shift"]
    lengths = {"gradients": "gradient_norm", "clipped": "clipped"}
    recorded = all(row.get("gradient_norm") is not None for row in rows)
    return {
        "cpu_seconds": result.cpu_seconds,
        **sides(result),
        "error": result.metrics["uncalibrated"]["error"],
        **fits_of(result),
        **judged(load_predictions(result.file("predictions.npz"))),
        "train_accuracy": rows[-1]["train_accuracy"],
        "norms": {str(row["epoch"]): row["last_layer_norm"] for row in rows},
        **{name: {str(row["epoch"]): row[of] for row in rows} for name, of in lengths.items() if recorded},
        "people": result.more["people"],
        "shift": {
            **{name: shift[name] for name in ("clean_shown", "foreign")},
            "severities": by_severity(shift["shifts"]),
        },
    }


def frames(results: Mapping[str, Any]) -> Frames:
    """By way, loss and seed: ``errors`` by stage and metric, ``fits``, ``grids``, ``foreign`` and more."""
    errors, fits, grids, foreign = [], [], [], []
    for run in flat_runs(results):
        key = {
            "way": WAYS.get(run["optimiser.learning_rate"], run["reduction"]),
            "loss": NO_DECAY if run["optimiser.weight_decay"] == 0 else run["loss"],
            "seed": run["seed"],
        }
        errors += by_stage(key, run["stages"], STAGES, METRICS)
        fitted, train, people = (run[name] for name in ("parameters", "train", "people"))
        by_ece = {"T": fitted["temperature"], "T by ECE": fitted["ece_temperature"]}
        trained = {"train_T": train["temperature"], "train_gap": train["gap"]}
        fits.append({**key, **by_ece, **trained, "people": people["temperature"]["nll"]})
        of_table = key["way"] == "sum" and LOSSES[key["loss"]] in ROWS
        by_all = OBJECTIVES if of_table else ()
        for method, chosen, by in product(("temperature", "focal"), OBJECTIVES, by_all):
            fit = run[f"{method}-{chosen}"]
            kind = {"method": method, "chosen": chosen, "judged": by}
            grids.append({**key, **kind, "value": fit[by], "T": fit["T"]})
        for name, of in run["shift"]["foreign"].items():
            stages = {"as trained": "as-trained", "with T": "temperature"}
            foreign += by_stage({**key, "set": name}, of, stages, {"AUROC": "max_probability"})
    found = {"errors": errors, "fits": fits, "grids": grids, "foreign": foreign}
    tidy = {name: ordered(pd.DataFrame(rows), "loss", LOSSES) for name, rows in found.items()}
    fits = tidy["fits"]
    fits["from_one"] = np.log(fits["T"]).abs()
    fits["T by ECE"] = fits.groupby(["way", "loss"], observed=True)["T by ECE"].transform(on_grid)
    return {**tidy, **_derived(tidy)}


def as_authors_chose(errors: pd.DataFrame) -> pd.DataFrame:
    """Errors with the temperature that the judged error chose as ``with T``."""
    adaptive = errors.metric == "AdaECE"
    chosen_so = errors[adaptive & (errors.stage != "with T")].replace({"with T by AdaECE": "with T"})
    return pd.concat([errors[~adaptive], chosen_so])


def _derived(of: Frames) -> dict[str, pd.DataFrame]:
    errors, fits, grids = of["errors"], of["fits"], of["grids"]
    authors = errors[np.where(errors.loss == "Brier", errors.way == "mean", errors.way == "sum")]
    authors = as_authors_chose(authors)
    error = authors.query("metric == 'error' and stage == 'as trained'")
    chosen = grids.query("method == 'temperature'")
    wide = chosen.pivot_table("value", ["judged", "loss", "seed"], "chosen", observed=True).reset_index()
    gain = 1 - np.where(wide.judged == "nll", wide.nll / wide.adaptive_ece, wide.adaptive_ece / wide.nll)
    gains = wide.assign(value=gain).groupby(["judged", "seed"]).value.mean().reset_index()
    ece = errors[(errors.metric == "ECE") & (errors.stage == "as trained")]
    pair = list(zip(ece.loss, ece.way, strict=True))
    equal = pd.concat(
        ece[[each in {(FOCAL, ours), (CE, theirs)} for each in pair]].assign(steps=steps)
        for steps, (ours, theirs) in EQUAL_STEPS.items()
    )
    least = fits.groupby(["way", "loss"], observed=True).train_T.transform("min")
    sides = fits[least > SEPARATED]
    return {
        "authors": authors,
        "relative": relative(error, ["stage", "seed"]),
        "gamma_3": gamma_3(authors[authors.stage.eq("as trained")], ["metric"]),
        "gains": gains.assign(value=gains.value - gains.judged.map({"nll": 0.01, "adaptive_ece": 0.2})),
        "equal": equal,
        "sides": sides,
        "maps": _maps(fits, sides),
    }


def _maps(fits: pd.DataFrame, sides: pd.DataFrame) -> pd.DataFrame:
    """Focal loss's temperatures relative to cross-entropy's times the closest one, and log ratios."""
    both = fits.query("way in ['sum', 'mean']").assign(train_T=sides.train_T)
    focal = both[both.loss.isin([f"focal, γ = {gamma}" for gamma in CLOSEST])]
    base = beside(focal, both[both.loss == CE], ["way", "seed"])
    closest = focal.loss.astype(str).str[-1].astype(int).map(CLOSEST)
    shares = {
        "new images": focal["T"] / (base["T"] * closest),
        "training images": focal.train_T / (base.train_T * closest),
        "log ratio": np.log(focal["T"] / focal.train_T) / np.log(base["T"] / base.train_T),
    }
    found = pd.concat(focal.assign(what=what, value=share - 1) for what, share in shares.items())
    return found.dropna(subset="value")


def tables(of: Frames) -> Tables:
    ways = {"sum": "sum:", "mean": "mean:"}
    ece = of["errors"].query("metric == 'ECE' and stage in ['as trained', 'with T']")
    ece = ece[~ece.loss.isin(LEFT_OUT)]
    wide = pivot(ordered(ece, "way", ways), ["loss"], ["way", "stage"], "value")
    order = [loss for loss in LOSSES.values() if loss not in LEFT_OUT]
    return {"short": means_only(wide, ("sum:", "as trained")).loc[order]}


def figure(of: Frames) -> Figure:
    whole = Figure(figsize=(8.4, 4.2), layout="constrained")
    axes = whole.subplots(1, 2, sharex=True, sharey=True)
    ece = of["errors"].query("metric == 'ECE' and loss != @NO_DECAY")
    names = list(ece.loss.cat.categories[:-1])[::-1]
    for ax, way in zip(axes, ("sum", "mean"), strict=True):
        draw_ece(ax, ece[ece.way == way], names)
        ax.set_title(f"loss: {way} over the batch")
    axes[0].set(yticklabels=names, xlim=(0, None))
    axes[1].legend(title="a dot for each seed")
    return whole


def draw_ece(ax: Axes, ece: pd.DataFrame, names: Sequence[str]) -> None:
    """Draw a dot for each seed, as trained and with T, in a row for each loss, from below."""
    for stage, colour in (("as trained", VERMILLION), ("with T", BLUE)):
        part = ece[ece.stage == stage]
        places = [names.index(loss) for loss in part.loss]
        ax.plot(100 * part.value, places, "o", color=colour, alpha=0.5, markersize=4, label=stage)
    ax.set(xlabel="ECE in %", yticks=range(len(names)))
    ax.grid(axis="y", alpha=0.3)
