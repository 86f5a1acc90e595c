"""``calibrant help``."""

from __future__ import annotations

from typing import Annotated

import typer

from calibrant._math.errors import InputError
from calibrant._math.text_form import nearest
from calibrant.cli.help import input_help


def show_help(
    context: typer.Context,
    topic: Annotated[str | None, typer.Argument(help="input, or a command.")] = None,
) -> None:
    """Explain the input options, or a command.

    Examples:
        calibrant help input
        calibrant help evaluate
    """
    root = context.find_root()
    commands = root.command.commands  # pyright: ignore[reportAttributeAccessIssue]
    if topic is None:
        typer.echo(root.get_help())
    elif topic == "input":
        evaluate = commands["evaluate"]
        typer.echo(input_help(evaluate, evaluate.context_class(evaluate, info_name="evaluate", parent=root)))
    elif topic in commands:
        command = commands[topic]
        typer.echo(command.get_help(command.context_class(command, info_name=topic, parent=root)))
    else:
        raise InputError(f"there is no help on {topic!r}{nearest(topic, ['input', *commands])}")
