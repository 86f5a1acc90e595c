"""Do the papers' claims hold for networks that a GPU trains in a minute?"""

import json
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from calibrant._math.errors import InputError
from calibrant.predictions import load_predictions
from calibrant_lab.sweep.kept_runs import content_of, keep
from calibrant_lab.sweep.store.store import Store
from calibrant_lab.tables.build import adjusted
from papers.analysis import (
    LEVEL,
    Frames,
    Tables,
    by_stage,
    flat_runs,
    means_only,
    ordered,
    pivot,
    relative,
    verdicts,
)
from papers.cifar10.run import METRICS, STAGES, as_authors_chose, draw_ece
from papers.cifar10_fast.lease import REGISTERED
from papers.gammas.run import OBJECTIVES, fits_of
from papers.loss_rows import called, on_grid
from papers.studies import DIGITS
from papers.texts.run import judged

LOSSES = {
    **called("cross-entropy", *(f"focal, γ = {gamma}" for gamma in (1, 2, 3)), "FLSD-53"),
    "focal-calibration(gamma=4, calibration_weight=1.5)": "FCL",
    **called("Brier"),
    "mmce(penalty=2)": "MMCE",
}


def measure(folder: Path) -> dict[str, Any]:
    """The results of all runs in the folder that a lease wrote; the lease's plan says which epochs count."""
    file = folder / "lease-1.json"
    if not file.is_file():
        raise InputError(f"{file} is missing; --out is the folder that `papers.cifar10_fast.lease` wrote.")
    plan, runs = json.loads(file.read_text(encoding="utf-8")), []
    for result in Store(folder / "store").results():
        rows, settings = result.rows, result.settings
        if settings["training.epochs"] == plan["epochs"]:
            found = {
                **fits_of(result),
                **judged(load_predictions(result.file("predictions.npz"))),
                "train_accuracy": 1 - rows[-1]["dynamics"]["train"]["error"],
                "clipped": sum(row["clipped"] for row in rows) / len(rows),
            }
            runs.append(keep(result, found, DIGITS))
    order = list(LOSSES)
    runs.sort(key=lambda run: (run.settings["seed"], order.index(run.settings["loss"])))
    return content_of(runs, {"plan": plan})


def frames(results: Mapping[str, Any]) -> Frames:
    """By loss and seed: ``errors`` by stage and metric, ``authors``, ``fits``, ``grids`` and ``relative``."""
    errors, fits, grids = [], [], []
    for run in flat_runs(results):
        key = {"loss": run["loss"], "seed": run["seed"]}
        errors += by_stage(key, run["stages"], STAGES, {**METRICS, "right above 0.99": "accuracy_above_99"})
        fitted = run["parameters"]
        kept = {name: run[name] for name in ("train_accuracy", "clipped")}
        fits.append({**key, "T": fitted["temperature"], "T by ECE": fitted["ece_temperature"], **kept})
        for method, chosen, by in product(("temperature", "focal"), OBJECTIVES, OBJECTIVES):
            value = run[f"{method}-{chosen}"][by]
            grids.append({**key, "method": method, "chosen": chosen, "judged": by, "value": value})
    found = {"errors": errors, "fits": fits, "grids": grids}
    tidy = {name: ordered(pd.DataFrame(rows), "loss", LOSSES) for name, rows in found.items()}
    fitted, errors = tidy["fits"], tidy["errors"]
    fitted["T by ECE"] = fitted.groupby("loss", observed=True)["T by ECE"].transform(on_grid)
    error = errors.query("metric == 'error' and stage == 'as trained'")
    return {
        **tidy,
        "authors": as_authors_chose(errors),
        "relative": relative(error, ["stage", "seed"]),
    }


def tables(of: Frames) -> Tables:
    def stages(*kinds: tuple[str, str]) -> pd.DataFrame:
        rows = of["errors"].set_index(["metric", "stage"])
        parts = pd.concat(rows.loc[[kind]].assign(what=" ".join(kind)) for kind in kinds)
        return pivot(parts, ["loss"], ["what"], "value")

    def fits(names: Mapping[str, str], **form: Any) -> pd.DataFrame:
        rows = of["fits"].rename(columns=names).melt("loss", list(names.values()), "what")
        return pivot(rows, ["loss"], ["what"], "value", **form)

    ece = (("ECE", stage) for stage in ("as trained", "with T", "with T by NLL"))
    temperatures = fits({"T by ECE": "T by ECE", "T": "T by NLL"}, scale=1)
    return {
        "registered": registered(of),
        "short": means_only(stages(("error", "as trained"), *ece).join(temperatures), "ECE as trained"),
        "sure": stages(*product(("above 0.99", "right above 0.99"), ("as trained", "with T"))),
        "learnt": fits({"train_accuracy": "right in training", "clipped": "steps clipped"}, digits=1),
    }


def registered(of: Frames) -> pd.DataFrame:
    """The registered claims with their verdicts; q is over the claims of a paper, among these runs alone."""
    rows = verdicts("cifar10_fast", of, [{"setting": "", **claim} for claim in REGISTERED["claim"]])
    q = rows.groupby("paper", group_keys=False).p.apply(adjusted, "benjamini-hochberg")
    rows["left"] = rows.verdict.mask(q.ge(1 - LEVEL), "undecided")
    found = []
    for name, tests in rows.groupby("claim", sort=False):
        sides = tests.left.value_counts()
        held, failed = sides.get("holds", 0), sides.get("does not hold", 0)
        verdict = "fails" if failed else "holds" if held == len(tests) else "undecided"
        scale = 1 if str(name).startswith("H3") else 100
        effects = [f"{scale * effect:.2f}" for effect in (tests.estimate.min(), tests.estimate.max())]
        counts = f"{held}/{failed}/{len(tests) - held - failed}"
        cells = tests.text.iloc[0], verdict, counts, " to ".join(dict.fromkeys(effects))
        found.append((name, *cells))
    columns = ["no.", "claim", "verdict", "hold/fail/undecided", "effects"]
    return pd.DataFrame(found, columns=columns).set_index("no.")


def figure(of: Frames) -> Figure:
    whole = Figure(figsize=(7.0, 3.4), layout="constrained")
    ax, ece = whole.subplots(), of["errors"].query("metric == 'ECE'")
    names = list(ece.loss.cat.categories)[::-1]
    draw_ece(ax, ece, names)
    ax.set(yticklabels=names, xlim=(0, None))
    ax.legend(title="a dot for each seed")
    return whole
