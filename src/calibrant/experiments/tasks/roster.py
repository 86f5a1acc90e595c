"""Every task that a grid can name: a line each."""

from __future__ import annotations

from calibrant._math.text_form import named
from calibrant.experiments.tasks.task import Task
from calibrant.experiments.tasks.training import Training as Training

TASKS = {
    value.name: value
    for value in list(globals().values())
    if isinstance(value, type) and issubclass(value, Task) and value is not Task
}


def task_named(name: str) -> Task:
    """The task of that name.

    Raises:
        InputError: If there is none.
    """
    return named(name, TASKS, "task")()
