"""``python -m papers``: a subcommand for each study of the roster, with that study's options."""

from __future__ import annotations

import inspect
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated, Any

import typer

from calibrant._math.errors import InputError
from calibrant.cli.help import Command, Commands
from calibrant.cli.main import run
from calibrant.cli.manner import QUIET, Version, mannered
from calibrant.cli.terminal import Report, command_line, errors, progress

if TYPE_CHECKING:
    from papers.study import Option, Study


class _Studies(Commands):
    """Commands that are made when one is asked for: no other command needs the studies' hundred modules."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        del self.commands

    def __getattr__(self, name: str) -> Any:
        if name != "commands":
            raise AttributeError(name)
        self.commands = _commands()
        return self.commands

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The study of that name; a wrong one is answered by the nearest."""
        from papers.roster import study_named

        return super().get_command(ctx, study_named(cmd_name).name)


app = typer.Typer(cls=_Studies, invoke_without_command=True, subcommand_metavar="NAME [OPTIONS]")


@app.callback()
def study(
    context: typer.Context,
    listed: Annotated[bool, typer.Option("--list", help="List the studies.")] = False,
    _version: Version = False,
) -> None:
    """Reproduce a study; resumes automatically.

    Examples:
        python -m papers --list
        python -m papers coverage
    """
    if listed:
        from papers.roster import STUDIES

        for each in STUDIES:
            typer.echo(f"{each.name}  {each.summary}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        raise InputError("NAME is missing; `python -m papers --list` lists the studies.")


def _carry_out(study: Study, values: dict[str, Any]) -> None:
    from papers.study import Session

    with ExitStack() as stack:
        bar: list[Report] = []  # made when the study first says how far it is

        def report(stage: str, share: float) -> None:
            if not bar:
                bar.append(stack.enter_context(progress(study.name)))
            bar[0](stage, share)

        session = Session(tell=_tell, progress=report, command=command_line(), engine="pool")
        try:
            printed = study.run(session, **values)
        except KeyboardInterrupt as stop:
            if not str(stop):
                raise
            _tell(f"calibrant: {stop}")
            raise typer.Exit(130) from None
    for line in printed:
        typer.echo(line)


def _tell(line: str) -> None:
    if QUIET.get():
        return
    errors().print(line)


def _parameter(option: Option) -> inspect.Parameter:
    declared = typer.Option(option.flag, help=option.help, min=option.least, envvar=option.variable)
    return inspect.Parameter(
        option.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=option.default,
        annotation=Annotated[option.kind, declared],
    )


def _commands() -> Any:
    """The commands of all studies, by their names."""
    from papers.roster import STUDIES

    made = typer.Typer(add_completion=False)
    for each in STUDIES:
        _add(made, each)
    return typer.main.get_group(made).commands


def _add(to: typer.Typer, study: Study) -> None:
    """The command of one study; what it has no option for is refused by the names of those that it has."""

    def command(context: typer.Context, **values: Any) -> None:
        if context.args:
            known = ", ".join(option.flag for option in study.options)
            raise InputError(f"the study {study.name} takes no {context.args[0]!r}; its options are {known}.")
        _carry_out(study, values)

    parameters = [
        inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context),
        *(_parameter(option) for option in study.options),
    ]
    vars(command)["__signature__"] = inspect.Signature(parameters)
    command.__annotations__ = {each.name: each.annotation for each in parameters}
    to.command(
        study.name,
        cls=Command,
        help=f"{study.summary}\n\nWrites {', '.join(study.files)}.",
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    )(mannered(command))


if __name__ == "__main__":
    run(app, "python -m papers")
