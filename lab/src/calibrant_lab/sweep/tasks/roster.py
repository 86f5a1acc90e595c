"""Every task that a grid can name: a line each."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from calibrant._math.errors import InputError
from calibrant._math.rosters import subclasses
from calibrant._math.text_form import named
from calibrant_lab.models.roster import imported
from calibrant_lab.sweep.tasks.task import Task
from calibrant_lab.sweep.tasks.training import Training as Training

TASKS: Mapping[str, Callable[[], Task]] = subclasses(globals(), Task)


def task_named(name: str) -> Task:
    """The task of that name, or what ``module:Class`` makes, with settings if it has some."""
    if ":" not in name:
        return named(name, TASKS, "task")()
    try:
        found = imported(name, {})
    except (InputError, TypeError) as error:  # such as: an abstract class
        raise InputError(f"the task {name!r}: {str(error).rstrip('.')}.") from error
    if not isinstance(found, Task):
        raise InputError(f"the task {name!r} must be a subclass of {Task.__module__}.Task.")
    return found
