"""Compiled functions, cached on disk if a folder is writable."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar, overload

import numba

from calibrant._math.errors import CalibrantWarning

Function = TypeVar("Function", bound=Callable[..., Any])


@overload
def njit(function: Function, /) -> Function: ...
@overload
def njit(*, inner: bool = False, **options: Any) -> Callable[[Function], Function]: ...
def njit(function: Any = None, /, *, inner: bool = False, **options: Any) -> Any:
    """``numba.njit`` without the global lock, cached on disk if numba finds a writable folder.

    Without a writable folder, as in many containers, numba refuses to decorate a function. Then each process
    compiles it anew, with one warning.

    A first command waits for compilation, so each function is compiled only for its use: not for C, and with
    ``inner`` only for other compiled functions. Callers also allocate arrays: each form of ``np.zeros`` in
    compiled code takes a tenth of a second.
    """
    options |= {"nogil": True, "no_cfunc_wrapper": True, "no_cpython_wrapper": inner}

    def compiled(plain: Callable[..., Any]) -> Any:
        try:
            return numba.njit(cache=True, **options)(plain)
        except RuntimeError as error:
            if "no locator available" not in str(error):
                raise
        _tell_once()
        return numba.njit(**options)(plain)

    return compiled if function is None else compiled(function)


@cache
def _tell_once() -> None:
    warnings.warn(
        "compiled code cannot be kept, because neither the package's folder nor your cache is writable. "
        "Each process recompiles it, which takes seconds; set NUMBA_CACHE_DIR to a writable folder.",
        CalibrantWarning,
        stacklevel=2,
    )
