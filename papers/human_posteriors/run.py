"""Does calibration to labels bring a network nearer to people's judgements?

Outputs of two networks on the test images of CIFAR-10, beside the judgements of about fifty people on each
image (CIFAR-10H, Peterson et al. 2019). Nothing is trained.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from papers.analysis import Frames, Tables, ordered
from papers.human_posteriors.measure import MEASURES
from papers.human_posteriors.measure import measure as measure

ARMS = {
    "as-trained": "as trained",
    "temperature": "temperature",
    "focal-temperature": "focal temperature",
    "focal-map": "focal map",
    "focal-asked": "focal loss's answer, γ fitted",
    "fcl-asked": "FCL's answer, γ fitted",
    "ensemble-temperature": "ensemble temperature",
    "vector": "vector",
    "ideal-focal": "temperature, then focal loss's answer",
    "ideal-fcl": "temperature, then FCL's answer",
    "temperature-people": "temperature, fitted to people",
    "focal-temperature-people": "focal temperature, fitted to people",
}
COLUMNS = (("ECE", "ece", 100, 2), ("log loss", "nll", 1, 4))
"""Of each network: title, name, scale and digits."""


def frames(results: Mapping[str, Any]) -> Frames:
    """``arms`` and ``gains`` by network, and the ``temperatures`` that people and labels ask for."""
    arms, gains, temperatures = list[dict[str, Any]](), list[dict[str, Any]](), list[dict[str, Any]]()
    for network in results["networks"]:
        key = {"network": network["title"]}
        arms += [{**key, "arm": ARMS[name], **of} for name, of in network["arms"].items()]
        for pair in network["pairs"]:
            first, second = pair["first"], pair["second"]
            for measured in MEASURES:
                of = pair[measured]
                value = network["arms"][second][measured] - network["arms"][first][measured]
                error = max(of["error"], of["refit_error"])
                row = {**key, "measure": measured, "first": first, "second": second}
                gains.append({**row, "value": value, "standard_error": error, "rest": of["without_top"]})
        of = network["temperatures"]
        ratio = {"value": math.log(of["people"] / of["labels"]), "standard_error": of["error"]}
        temperatures.append({**key, **ratio, "labels": of["labels"], "people": of["people"]})
    return {
        "arms": pd.DataFrame(arms),
        "gains": pd.DataFrame(gains),
        "temperatures": pd.DataFrame(temperatures),
    }


def tables(found: Frames) -> Tables:
    arms = ordered(found["arms"], "arm", {title: title for title in ARMS.values()})
    wide = arms.pivot(index="arm", columns="network")
    temperatures = found["temperatures"].set_index("network").filter(["labels", "people"])
    return {
        "short": pd.DataFrame(
            {
                f"{network}, {title}": (scale * wide[name, network]).map(f"{{:.{digits}f}}".format)
                for network in ("VGG-16", "LeNet-5")
                for title, name, scale, digits in COLUMNS
            }
        ),
        "temperatures": temperatures.map("{:.3f}".format),
    }
