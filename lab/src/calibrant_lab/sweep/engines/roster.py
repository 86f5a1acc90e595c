"""Every engine, in the order in which they are listed: a line each."""

from __future__ import annotations

from calibrant._math.rosters import subclasses
from calibrant._math.text_form import build_from, parse_call
from calibrant_lab.sweep.engines.engine import Engine
from calibrant_lab.sweep.engines.pool import Pool as Pool
from calibrant_lab.sweep.engines.ray import Ray as Ray
from calibrant_lab.sweep.engines.serial import Serial as Serial
from calibrant_lab.sweep.engines.submitit import Submitit as Submitit

ENGINES = subclasses(globals(), Engine)


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
