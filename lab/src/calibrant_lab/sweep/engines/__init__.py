"""Engines take runs to workers and pass on how they ended; the store alone decides what is done."""

from __future__ import annotations

from collections.abc import Mapping

from calibrant._math.text_form import build_from, parse_call
from calibrant_lab.sweep.engines.clusters import Ray, Submitit
from calibrant_lab.sweep.engines.engine import Engine, Serial
from calibrant_lab.sweep.engines.pool import Pool

ENGINES: Mapping[str, type[Engine]] = {"pool": Pool, "ray": Ray, "serial": Serial, "submitit": Submitit}


def build_engine(text: str, *, jobs: int | None = None) -> Engine:
    """The engine that ``text`` describes, such as ``pool``.

    Raises:
        InputError: If there is no such engine, or it has no such setting.

    Example:
        >>> type(build_engine("serial")).__name__
        'Serial'
        >>> build_engine("pol")
        Traceback (most recent call last):
        calibrant._math.errors.InputError: there is no engine 'pol'; did you mean 'pool'?
    """
    if jobs is not None and "jobs" not in parse_call(text)[1]:
        name, bracket, rest = text.partition("(")
        text = f"{name}(jobs={jobs}, {rest}" if bracket else f"{name}(jobs={jobs})"
    return build_from(text, ENGINES, what="engine")
