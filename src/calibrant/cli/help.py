"""Format ``--help``, accept old names of options, and report typing errors like all others."""

from __future__ import annotations

import difflib
import re
import sys
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, get_args

import typer
from typer.core import TyperCommand, TyperGroup

from calibrant._math.errors import InputError
from calibrant._math.extensions import LAB, LAB_COMMANDS
from calibrant._math.text_form import nearest

WIDTH = 100
_WHOLE: Any = {"break_on_hyphens": False}
INPUT = "Input options"
"""The panel of the options that say how files are read; one line stands for them in each help."""
COMMON = frozenset({"quiet", "verbose", "version_wanted", "_version", "help"})
"""Options of every command, which the help of ``calibrant`` lists."""
SPACES = "; put quotes around a path with spaces"
OLD_NAMES = {
    "evaluate": {"--labels": "--label-file"},
    "check": {"--confidence": "--level"},
    "monitor": {"--against": "--alarm-on"},
    "figure": {"--resamples": "--bootstrap"},
    "predict": {"--checkpoint": "--weights", "--calibration": "--calibration-size"},
    "sweep": {"--only": "--where"},
    "table": {"--output": "--out", "--format": "--out-format"},
    "serve": {"--most-upload": "--max-upload", "--most-seconds": "--max-seconds", "--workers": "--jobs"},
}
"""Old names of options by command, each with its replacement."""
GONE = "0.4"
"""The version that removes the old names."""


class _Plain:
    def format_help(self, ctx: Any, formatter: Any) -> None:
        formatter.write(_help_of(self, ctx))


class Command(_Plain, TyperCommand):
    """A command with a plain help, which understands its options' old names."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, renamed(self.name or "", args))


class Commands(_Plain, TyperGroup):
    """A group of commands; every typing error is an :class:`InputError`."""

    def make_context(self, *args: Any, **options: Any) -> Any:
        try:
            return super().make_context(*args, **options)
        except Exception as error:
            raise _in_our_words(error) from error

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except Exception as error:
            raise _in_our_words(error) from error


def renamed(command: str, words: Iterable[str]) -> list[str]:
    """Return arguments with the new names of options.

    Example:
        >>> renamed("fit", ["p.npz", "--method=platt"])
        ['p.npz', '--method=platt']
    """
    old, found = OLD_NAMES.get(command, {}), list(words)
    for at, word in enumerate(found):
        if word == "--":
            break
        name, equals, value = word.partition("=")
        if name in old:
            note = f"note: {name} is now {old[name]}; calibrant {GONE} removes the old name."
            typer.secho(note, fg="yellow", err=True)
            found[at] = f"{old[name]}{equals}{value}"
    return found


def _in_our_words(error: Exception) -> Exception:
    """Return a typing error as an :class:`InputError`; leave others unchanged."""
    told = getattr(error, "format_message", None)
    if told is None or type(error).__name__ == "NoArgsIsHelpError":
        return error
    message, ctx = str(told()).strip(), getattr(error, "ctx", None)
    said = f"{message[:1].lower()}{message[1:]}"
    if found := re.match(r"No such option:? '?([-\w]+)'?\.?", message):
        options = [each for param in ctx.command.params for each in param.opts] if ctx else []
        said = f"there is no option {found[1]}{_meant(found[1], options, ctx)}"
    elif found := re.match(r"No such command '(.*?)'", message):
        commands = ctx.command.commands if ctx else ()
        said = f"there is no command {found[1]!r}{_meant(found[1], commands, ctx)}"
        if found[1] in LAB_COMMANDS:
            said = f"`calibrant {found[1]}` comes with calibrant-lab: {LAB}."
    elif found := re.match(r"Missing (?:option|argument|parameter) '(.*)'", message, flags=re.DOTALL):
        name = next((each for each in re.split(r"' / '", found[1]) if each.startswith("--")), found[1])
        said = f"{name.strip('{}[].').upper() if name[0] != '-' else name} is missing{_see(ctx)}"
    elif found := re.match(r"Option '?([-\w]+)'? requires an argument", message):
        said = f"{found[1]} must have a value{_see(ctx)}"
    elif found := re.match(r"Invalid value for (.*?): (.*)", message, flags=re.DOTALL):
        param = getattr(error, "param", None)
        typed = max(param.opts, key=len) if param is not None else found[1]
        rule = _rule(found[2], _value_of(typed))
        name = typed if typed.startswith("-") else typed.upper()
        said = f"{name} {rule}" if rule else f"{name}: {found[2]}"
    elif message.startswith("Got unexpected extra"):
        said = f"{said.rstrip('.')}{SPACES}."
    return InputError(said)


def _rule(text: str, typed: str = "") -> str:
    """Return the rule that a value broke, from a message of click or pydantic.

    Example:
        >>> _rule("0 is not in the range 1<=x<=1000."), _rule("'x' is not a valid int.", "x")
        ('must be between 1 and 1000; got 0.', "must be a whole number; got 'x'.")
        >>> _rule("Input should be greater than or equal to 1", "0")
        'must be at least 1; got 0.'
        >>> _rule("Value error, 'x' is not one of 'acc', 'acc_norm'.")
        "must be acc or acc_norm; got 'x'."
    """
    got = f"; got {typed!r}" if typed else ""
    text = text.removeprefix("Value error, ")
    if text.startswith("must "):
        return text
    if found := re.match(r"(\S+) is not in the range (?:(\S+?)<=?x<=?(\S+?)|x(>=?|<=?)(\S+?))\.?$", text):
        most = f"between {found[2]} and {found[3]}" if found[2] else ""
        return f"must be {most or _bound(found[4], found[5])}; got {found[1]}."
    if found := re.match(r"Input should be (greater|less) than or equal to (\S+)", text):
        return f"must be {_bound('>' if found[1] == 'greater' else '<', found[2])}; got {typed}."
    if found := re.match(r"(?:Input should be a valid|.* is not a valid) (\w+)", text):
        return f"must be {'a whole number' if found[1].startswith('int') else 'a number'}{got}."
    if found := re.match(r"('.*?') is not one of (.*?)\.?$", text):
        names = alternatives(re.findall(r"'(.*?)'", found[2]))
        return f"must be {names}; got {found[1]}."
    return ""


def _value_of(option: str) -> str:
    for word, following in zip(sys.argv, [*sys.argv[1:], ""], strict=True):
        name, equals, value = word.partition("=")
        if name == option:
            return value if equals else following
    return ""


def _bound(sign: str, limit: str) -> str:
    return f"at {'least' if sign[0] == '>' else 'most'} {limit}"


def _meant(name: str, known: Iterable[str], ctx: Any) -> str:
    """Return the option or command that was probably meant, ignoring leading dashes."""
    bare = {each.lstrip("-"): each for each in known}
    short = name.lstrip("-")
    near = [each for each in bare if f"{short}-".startswith(f"{each}-")]
    near = near or difflib.get_close_matches(short, bare, n=1)
    return f"; did you mean {bare[near[0]]}?" if near else _see(ctx)


def _see(ctx: Any) -> str:
    return f"; see `{ctx.command_path} --help`." if ctx else "."


def alternatives(names: Iterable[str]) -> str:
    """Join names for a help text."""
    *most, last = names
    return f"{', '.join(most)} or {last}" if most else last


def _help_of(command: Any, ctx: Any) -> str:
    params = [each for each in command.get_params(ctx) if not getattr(each, "hidden", False)]
    arguments = [each for each in params if each.param_type_name == "argument"]
    options = [each for each in params if each not in arguments]
    group = getattr(command, "commands", None)
    told = options if group else [each for each in options if each.name not in COMMON]
    shown = [each for each in told if getattr(each, "rich_help_panel", None) != INPUT]
    tail = "COMMAND [ARGUMENTS]..." if group else " ".join(map(_piece, arguments))
    blocks = [
        _wrapped(command.help or ""),
        f"{_bold('Usage:')} {ctx.command_path} [OPTIONS] {tail}".rstrip(),
        _table("Arguments", [(_piece(each).strip("[]"), each.help or "") for each in arguments if each.help]),
        *_groups(group or {}),
        _table("Options", [(_typed(each), _said(each, ctx)) for each in shown]),
        "Columns, formats and groups of FILE: calibrant help input" if len(shown) < len(told) else "",
        _wrapped(command.epilog or ""),
    ]
    return "\n\n".join(filter(None, blocks)) + "\n"


def input_help(command: Any, ctx: Any) -> str:
    found = [each for each in command.get_params(ctx) if getattr(each, "rich_help_panel", None) == INPUT]
    return _table(INPUT, [(_typed(each), _said(each, ctx)) for each in found])


def _groups(commands: dict[str, Any]) -> list[str]:
    panels: dict[str, list[tuple[str, str]]] = {}
    for name, each in commands.items():
        if each.hidden:
            continue
        panel = getattr(each, "rich_help_panel", None)
        summary = (each.help or "").partition("\n\n")[0].replace("\n", " ")
        panels.setdefault(panel if isinstance(panel, str) else "Commands", []).append((name, summary))
    column = max(map(len, commands), default=0)
    return [_table(panel, rows, column=column) for panel, rows in panels.items()]


def _bold(text: str) -> str:
    return typer.style(text, bold=True)  # the console that does not show it gets none


def _wrapped(text: str) -> str:
    """Wrap paragraphs to the page; indented lines, such as examples, stay."""
    blocks = text.replace("\f", "").strip().split("\n\n")
    found: list[str] = []
    for block in blocks:
        title, _, examples = block.partition("\n")
        if examples.startswith("  "):
            found.append("\n".join([_bold(title), *("  " + line.strip() for line in examples.splitlines())]))
        else:
            found.append(textwrap.fill(" ".join(block.split()), WIDTH, **_WHOLE))
    return "\n\n".join(found)


def _table(title: str, rows: list[tuple[str, str]], *, column: int = 0) -> str:
    if not rows:
        return ""
    wide = max(column, *(len(name) for name, _ in rows if len(name) <= 28), 0) + 2
    lines = [_bold(title)]
    for name, said in rows:
        start = f"  {name:{wide}}" if len(name) <= wide - 2 else f"  {name}  "
        further = " " * (wide + 2)
        lines.append(textwrap.fill(said, WIDTH, initial_indent=start, subsequent_indent=further, **_WHOLE))
    return "\n".join(lines)


def _piece(argument: Any) -> str:
    name = (argument.metavar or argument.name).strip("[].").upper()
    name = f"{name}..." if argument.nargs == -1 else name
    return name if argument.required else f"[{name}]"


def _typed(option: Any) -> str:
    short = [each for each in option.opts if not each.startswith("--")]
    long = next((each for each in option.opts if each.startswith("--")), "")
    negative = [each for each in option.secondary_opts if each.startswith("--")]
    names = ", ".join([*short, "/".join([long, *negative])])
    takes_nothing = option.is_flag or option.count or option.name == "help"
    return names if takes_nothing else f"{names} {option.metavar}"


def metavar(annotation: Any) -> str:
    """Return the placeholder of an option's value: one word in capitals.

    Example:
        >>> metavar(int | None), metavar(list[Path]), metavar(bool)
        ('N', 'FILE', '')
    """
    parts = get_args(annotation)
    kinds = {annotation, *parts, *(inner for each in parts for inner in get_args(each))}
    words = {bool: "", int: "N", float: "NUMBER", Path: "FILE"}
    return next((word for kind, word in words.items() if kind in kinds), "TEXT")


def _said(option: Any, ctx: Any) -> str:
    said = str(option.help or "").replace("\\[", "[")
    default = option.get_default(ctx, call=False)
    if option.required:
        return f"{said.rstrip('.')} (required)."
    if isinstance(default, bool) or not isinstance(default, int | float | str | Path) or "efault" in said:
        return said
    return f"{said.rstrip('.')} (default: {default})."


def show_help(
    context: typer.Context, topic: Annotated[str | None, typer.Argument(help="input, or a command.")] = None
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
    elif topic == "input" or topic in commands:
        name = "evaluate" if topic == "input" else topic
        command = commands[name]
        context = command.context_class(command, info_name=name, parent=root)
        typer.echo(input_help(command, context) if topic == "input" else command.get_help(context))
    else:
        raise InputError(f"there is no help on {topic!r}{nearest(topic, ['input', *commands])}")
