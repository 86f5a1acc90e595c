"""Random seeds of a training run, each a function of the recipe's seed and of where it is used."""

from __future__ import annotations

import numpy as np
import torch

WEIGHTS, ORDER, AUGMENTATION, PROCESS, PROBES = range(5)
_CPU = torch.device("cpu")


def derived(seed: int, purpose: int, *place: int) -> int:
    """A seed for one purpose at one place (epoch, batch, process), unrelated to those of other places."""
    state = np.random.SeedSequence([seed, purpose, *place]).generate_state(1, np.uint64)
    return int(state[0] >> np.uint64(1))


def generator(seed: int, purpose: int, *place: int, device: torch.device = _CPU) -> torch.Generator:
    """A generator seeded with :func:`derived`; devices draw other numbers than the CPU."""
    return torch.Generator(device).manual_seed(derived(seed, purpose, *place))
