"""Compiled functions where nothing can be written."""

import os
import re
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import numba.core.caching
import pytest

import calibrant
from calibrant._math import jit
from calibrant._math.errors import CalibrantWarning

PACKAGE = Path(calibrant.__file__).parent


def doubled(value: float) -> float:
    return 2 * value


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Numba finds no folder to keep compiled code in, and nobody has been told yet."""
    monkeypatch.setattr(numba.core.caching.CacheImpl, "_locator_classes", [])
    jit._tell_once.cache_clear()
    yield
    jit._tell_once.cache_clear()


@pytest.mark.usefixtures("nowhere")
def test_functions_compile_without_a_cache() -> None:
    """Where nothing can be kept functions work all the same, and one warning says what to set."""
    with pytest.warns(CalibrantWarning, match="set NUMBA_CACHE_DIR to a writable folder") as told:
        first, second = jit.njit(doubled), jit.njit(fastmath=True)(doubled)
    assert (first(2.0), second(3.0), len(told)) == (4.0, 6.0, 1)
    assert first.nopython_signatures  # compiled, not interpreted


def test_other_errors_of_numba_are_not_swallowed(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("something else")

    monkeypatch.setattr(numba.core.caching.CacheImpl, "__init__", broken)
    with pytest.raises(RuntimeError, match="something else"):
        jit.njit(doubled)


def test_code_is_kept_where_it_can_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a folder to write to there is no warning, and compiled code lies in it."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert jit.njit(doubled)(2.0) == 4.0
    assert list(tmp_path.rglob("*doubled*.nbc"))


def test_every_kernel_goes_through_it() -> None:
    texts = {path.name: path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")}
    users = {name for name, text in texts.items() if re.search(r"(import|from) numba\b", text)}
    assert users == {"jit.py"}


@pytest.mark.slow
def test_a_package_that_cannot_be_written_to_works(tmp_path: Path) -> None:
    """Package, home and cache folder are unwritable, for root too: files lie where folders would be made."""
    copy, blocked = tmp_path / "calibrant", tmp_path / "file"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for folder in (copy, *(path for path in copy.rglob("*") if path.is_dir())):
        (folder / "__pycache__").touch()
    blocked.touch()
    nowhere = {name: str(blocked) for name in ("HOME", "LOCALAPPDATA", "XDG_CACHE_HOME", "NUMBA_CACHE_DIR")}
    code = "from calibrant import metrics; print(metrics.smooth_calibration_error([0.3], [1]).item())"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=os.environ | nowhere | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "0.7\n"
    assert "set NUMBA_CACHE_DIR" in done.stderr  # the way of the test leads past the cache
