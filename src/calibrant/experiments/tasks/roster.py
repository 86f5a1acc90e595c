"""Every task that a grid can name: a line each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module

from calibrant._math.errors import InputError
from calibrant._math.rosters import subclasses
from calibrant._math.text_form import named
from calibrant.experiments.tasks.task import Task
from calibrant.experiments.tasks.training import Training as Training

TASKS: Mapping[str, Callable[[], Task]] = subclasses(globals(), Task)


def task_named(name: str) -> Task:
    """The task of that name, or the class that ``module:Class`` names.

    Raises:
        InputError: If there is none.
    """
    module, colon, attribute = name.partition(":")
    if colon:
        try:
            found = getattr(import_module(module), attribute)
        except (ImportError, AttributeError, ValueError) as error:
            raise InputError(f"the task {name!r} cannot be imported: {error}.") from error
        if not (isinstance(found, type) and issubclass(found, Task)):
            raise InputError(f"the task {name!r} must be a subclass of {Task.__module__}.Task.")
        return found()
    return named(name, TASKS, "task")()
