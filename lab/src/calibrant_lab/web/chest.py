"""Findings in chest X-rays: the orders in which networks give them, which differ."""

from __future__ import annotations

import os
import re
from pathlib import Path

from torch import Tensor

from calibrant._math.errors import InputError
from calibrant._math.files import atomic_write
from calibrant_lab.data.xray_sets import FINDINGS
from calibrant_lab.models.weights import read_weights

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
    """A finding's name as it is compared."""
    return " ".join(name.replace("_", " ").casefold().split())


def notice_for(names: tuple[str, ...]) -> str | None:
    """What must stand beside the answers of a network that names findings."""
    known = {plain(name) for name in FINDINGS} | {"covid-19", "covid"}
    return NOTICE if any(plain(name) in known for name in names) else None


_WRAPPERS = re.compile(r"^(?:module\.|model\.|densenet121\.)+")


def own_name(name: str) -> str:
    """What a parameter is called here.

    Example:
        >>> own_name("module.densenet121.features.denseblock1.denselayer1.norm.1.weight")
        'features.denseblock1.denselayer1.norm1.weight'
        >>> own_name("module.densenet121.classifier.0.bias")
        'classifier.bias'
    """
    name = _WRAPPERS.sub("", name)
    name = re.sub(r"(denselayer\d+\.(?:norm|conv))\.([12]\.)", r"\1\2", name)
    return re.sub(r"^classifier\.0\.", "classifier.", name)


def convert_chexnet(path: str | os.PathLike[str], out: str | os.PathLike[str]) -> int:
    """Write the weights of a checkpoint to a ``.safetensors`` file; return the network's number of outputs.

    The checkpoint is not unpickled: an interpreter of our own follows it as far as it makes containers and
    tensors, and calls nothing. What else stands beside the weights is left out.
    """
    from safetensors.torch import save

    found: dict[str, Tensor] = {own_name(name): value for name, value in read_weights(path).items()}
    last = found.get("classifier.weight")
    if last is None or last.ndim != 2 or "features.norm5.weight" not in found:
        raise InputError(f"{os.fspath(path)} must hold the weights of a DenseNet with a linear classifier.")
    if Path(out).suffix != ".safetensors":
        raise InputError(f"`out` must end in .safetensors; got {os.fspath(out)!r}.")
    with atomic_write(out) as temporary:
        temporary.write_bytes(save({name: value.contiguous().clone() for name, value in found.items()}))
    return len(last)
