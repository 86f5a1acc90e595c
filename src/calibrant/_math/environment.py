"""By what numbers are made: versions, and what decides how sums are rounded."""

from __future__ import annotations


def environment() -> dict[str, str]:
    """Versions of calibrant, Python and PyTorch, the vector instructions, and the model of the processor.

    Example:
        >>> [*environment()]
        ['calibrant', 'python', 'torch', 'instructions', 'processor']
    """
    import platform

    import torch

    from calibrant import __version__
    from calibrant._math.processor import processor

    versions = {"calibrant": __version__, "python": platform.python_version(), "torch": torch.__version__}
    return {**versions, "instructions": torch.backends.cpu.get_cpu_capability(), "processor": processor()}
