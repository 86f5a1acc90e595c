"""Random seeds of a training run, derived from the recipe's seed and the place of use."""

from __future__ import annotations

import numpy as np
import torch

WEIGHTS, ORDER, AUGMENTATION, PROCESS, PROBES = range(5)
_CPU = torch.device("cpu")


def derived(seed: int, purpose: int, *place: int) -> int:
    """Return an independent seed for a purpose and place (epoch, batch, process)."""
    state = np.random.SeedSequence([seed, purpose, *place]).generate_state(1, np.uint64)
    return int(state[0] >> np.uint64(1))


def generator(seed: int, purpose: int, *place: int, device: torch.device = _CPU) -> torch.Generator:
    """Return a generator seeded with :func:`derived`; devices and CPU draw different numbers."""
    return torch.Generator(device).manual_seed(derived(seed, purpose, *place))
