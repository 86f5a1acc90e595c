"""Connection to Ray: to a cluster, or to a local one that is started and stopped."""

from __future__ import annotations

import atexit
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from calibrant._math.errors import InputError, without_warnings


def check_address(address: str) -> None:
    if address.startswith("ray://"):
        raise InputError(
            f"`address` must be that of the cluster itself, not of its client; got {address}; "
            'start on a node of the cluster, with address="auto".'
        )


def connect(address: str, *, cores: int, store_bytes: int) -> tuple[Any, bool]:
    """``ray``, connected, and whether this call started it; an empty ``address`` starts a local Ray."""
    check_address(address)
    try:
        ray: Any = import_module("ray")
    except ImportError as error:
        raise InputError("the engine ray needs Ray: pip install 'calibrant[ray]'.") from error
    if ray.is_initialized():
        return ray, False
    settings: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    settings |= (
        {"address": address}
        if address
        else {
            "address": "local",
            "num_cpus": cores,
            "include_dashboard": False,
            "object_store_memory": store_bytes,
        }
    )
    try:
        with without_warnings():
            ray.init(**settings)
    except (ConnectionError, RuntimeError, ValueError, ImportError) as error:
        said = " ".join(str(error).split())
        raise InputError(f"no Ray was reached at {address or 'this machine'}: {said}") from error
    return ray, True


@contextmanager
def connected(address: str, *, cores: int, store_bytes: int) -> Generator[Any]:
    ray, ours = connect(address, cores=cores, store_bytes=store_bytes)
    if ours:
        atexit.register(ray.shutdown)
    try:
        yield ray
    finally:
        if ours:
            ray.shutdown()
            atexit.unregister(ray.shutdown)
