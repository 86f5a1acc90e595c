"""Findings in chest X-rays: the orders in which networks give them, which differ."""

from __future__ import annotations

from calibrant_lab.data.xray_sets import FINDINGS

NOTICE = "Not for clinical use: nobody has tested whether this network is right about your patients."

_CHEXNET = """
Atelectasis Cardiomegaly Effusion Infiltration Mass Nodule Pneumonia Pneumothorax Consolidation Edema
Emphysema Fibrosis Pleural_Thickening Hernia
"""
_TORCHXRAYVISION = """
Atelectasis Consolidation Infiltration Pneumothorax Edema Emphysema Fibrosis Effusion Pneumonia
Pleural_Thickening Cardiomegaly Nodule Mass Hernia
"""
_OF_OTHER_SETS = ("Lung Lesion", "Fracture", "Lung Opacity", "Enlarged Cardiomediastinum")
ORDERS: dict[str, tuple[str, ...]] = {
    # github.com/arnoweng/CheXNet, model.py; the NIH's own list, and those of most repetitions of CheXNet
    "chexnet": tuple(_CHEXNET.split()),
    # torchxrayvision.datasets.default_pathologies: fourteen of NIH's findings and four of other sets
    "torchxrayvision": (*_TORCHXRAYVISION.split(), *_OF_OTHER_SETS),
    "chestxray14": FINDINGS,
}


def plain(name: str) -> str:
    """A finding's name as it is compared.

    Example:
        >>> plain("Pleural_Thickening") == plain("pleural thickening")
        True
    """
    return " ".join(name.replace("_", " ").casefold().split())


def notice_for(names: tuple[str, ...]) -> str | None:
    """What must stand beside the answers of a network that names findings.

    Example:
        >>> notice_for(("normal", "pneumonia")) == NOTICE, notice_for(("cat", "dog"))
        (True, None)
    """
    known = {plain(name) for name in FINDINGS} | {"covid-19", "covid"}
    return NOTICE if any(plain(name) in known for name in names) else None
