"""Words and numbers: objects as ``focal-temperature(objective="ece")``, counts, notes, and what was meant."""

from __future__ import annotations

import ast
import difflib
import functools
import inspect
import itertools
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ParamSpec, Self, TypeVar

from calibrant._math.errors import InputError

Built = TypeVar("Built")
Given = ParamSpec("Given")
Result = TypeVar("Result")

_CALL = re.compile(r"\s*([A-Za-z][\w-]*)\s*(?:\((.*)\))?\s*", flags=re.DOTALL)
_LONGEST = 2000  # characters; longer texts could nest too deeply for Python's parser
_MOST = 5  # names in a message
TOO_WIDE = 1e7  # larger numbers get an exponent: all their digits would not fit a table


def common_start(texts: Iterable[str]) -> str:
    """Common prefix of all texts."""
    alike = itertools.takewhile(lambda letters: len({*letters}) == 1, zip(*texts, strict=False))
    return "".join(letters[0] for letters in alike)


def parse_call(text: str) -> tuple[str, dict[str, object]]:
    """Split ``name(setting=value, ...)`` into the name and the settings, whose values are Python literals.

    Raises:
        InputError: If the text has another form.
    """
    text = str(text)  # None is no name
    match = _CALL.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        raise _malformed(text)
    name, arguments = match.groups()
    try:
        call = ast.parse(f"f({arguments or ''})", mode="eval").body
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.args:
            raise _malformed(text)
        settings = {word.arg: ast.literal_eval(word.value) for word in call.keywords if word.arg is not None}
        if len(settings) != len(call.keywords):  # **something
            raise _malformed(text)
    except InputError:
        raise
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError) as error:
        raise _malformed(text) from error
    return name, settings


def canonical_call(text: str) -> str:
    """Canonical spelling of ``name(setting=value)``; names in other modules stay unchanged.

    Example:
        >>> canonical_call(" focal( gamma = 3.0 )"), canonical_call("mlp(widths=[8], dropout=0.1)")
        ('focal(gamma=3)', 'mlp(dropout=0.1, widths=(8,))')
    """
    if ":" in text.partition("(")[0]:
        return text.strip()
    name, settings = parse_call(text)
    inside = ", ".join(f"{key}={_plain(settings[key])!r}" for key in sorted(settings))
    return f"{name}({inside})" if inside else name


def _plain(value: object) -> object:
    if isinstance(value, list | tuple):
        return tuple(_plain(each) for each in value)
    return int(value) if isinstance(value, float) and value.is_integer() else value


def build_from(
    text: str, makers: Mapping[str, Callable[..., Built]], *, what: str, remedy: str = ""
) -> Built:
    """Make the thing that ``text`` describes; ``what`` names its kind in messages.

    Raises:
        InputError: If the text is malformed, or the name or a setting is unknown; the message names the
        nearest.
    """
    name, settings = parse_call(text)
    maker = named(name, makers, what, remedy=remedy)
    known = [word for word in inspect.signature(maker).parameters if word != "self"]
    for setting in settings:
        if setting not in known:
            raise InputError(f"{what} {name!r} has no setting {setting!r}{nearest(setting, known)}")
    return maker(**settings)


def nearest(name: str, known: Iterable[str]) -> str:
    """End of a sentence about an unknown name: the probable match, or the choices."""
    names = list(known)
    return meant(name, names) or (f"; choose {_listed(names)}." if names else "; there is none.")


def meant(name: str, known: Iterable[str]) -> str:
    """Proposal of a known name close to an unknown one, as the end of a sentence; else empty."""
    alike = {candidate.lower().replace("_", "-"): candidate for candidate in known}
    close = difflib.get_close_matches(name.lower().replace("_", "-"), alike, n=1)
    return f"; did you mean {alike[close[0]]!r}?" if close else ""


_OF_OTHERS = {
    "y": "labels",
    "y_true": "labels",
    "target": "labels",
    "input": "logits",
    "y_prob": "probs",
    "y_proba": "probs",
    "y_score": "probs",
    "sample_weight": "weights",
    "random_state": "seed",
    "strategy": "binning",
    "pos_label": "positive_class",
}
"""Names of arguments in other libraries."""
_ARRAYS = {"probs", "logits", "labels", "weights"}
IN_THE_TEXT = '; write settings in the text, as in build("{}").'
WRAP_ARRAYS = "; wrap arrays as `calibrant.Predictions(probs=probs, labels=labels)`."


def suggesting(
    *, unnamed: str = "", instead: str = ""
) -> Callable[[Callable[Given, Result]], Callable[Given, Result]]:
    """Let a function propose the argument that was probably meant by an unknown one.

    ``unnamed`` describes the accepted arguments and the remedy for too many positional ones (``{}`` of them),
    ``instead`` the remedy for keywords where there are none.

    Example:
        >>> @suggesting()
        ... def halved(weights=1):
        ...     return weights / 2
        >>> halved(sample_weight=3)
        Traceback (most recent call last):
        TypeError: halved() got an unexpected keyword argument 'sample_weight'; did you mean 'weights'?
    """

    def decorate(function: Callable[Given, Result]) -> Callable[Given, Result]:
        called = function.__qualname__.removesuffix(".__init__")
        parameters = inspect.signature(function).parameters
        known = [name for name in parameters if name not in {"self", "cls"}]
        most = sum(each.kind is not each.KEYWORD_ONLY for each in parameters.values())
        if any(each.kind is each.VAR_KEYWORD for each in parameters.values()):
            return function

        @functools.wraps(function)
        def checked(*args: Given.args, **kwargs: Given.kwargs) -> Result:
            if strangers := [name for name in kwargs if name not in parameters]:
                end = instead or _remedy(strangers[0], known)
                raise TypeError(f"{called}() got an unexpected keyword argument {strangers[0]!r}{end}")
            if unnamed and len(args) > most:
                raise TypeError(f"`{called}` takes {unnamed.format(len(args))}")
            return function(*args, **kwargs)

        return checked

    return decorate


def _remedy(name: str, known: list[str]) -> str:
    theirs = [other for other, ours in _OF_OTHERS.items() if ours == name]
    name = _OF_OTHERS.get(name, name)
    for same in (name, name.removesuffix("s"), *theirs):
        if same in known:
            return f"; did you mean {same!r}?"
    return WRAP_ARRAYS if name in _ARRAYS else nearest(name, known)


def kind_of(value: object) -> str:
    return f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__


def named(name: str, known: Mapping[str, Built], what: str, *, place: str = "", remedy: str = "") -> Built:
    """Entry of that name; the error proposes the nearest and names ``what``, ``place`` and ``remedy``."""
    if name not in known:
        raise InputError(f"there is no {what} {name!r}{place}{nearest(name, known)}{remedy}")
    return known[name]


def _listed(names: list[str]) -> str:
    *most, last = [repr(name) for name in names[:_MOST]] + ["others"] * (len(names) > _MOST)
    return f"{', '.join(most)} or {last}" if most else last


def _malformed(text: str) -> InputError:
    shown = text if len(text) <= 80 else f"{text[:77]}..."
    return InputError(f"expected name or name(setting=value, ...) with literal values; got {shown!r}.")


def decimals(value: float, digits: int) -> str:
    """A number with ``digits`` decimals, or with an exponent if it is very large."""
    return f"{value:.{digits}f}" if abs(value) < TOO_WIDE else f"{value:.3e}"


def plural(value: int, noun: str, nouns: str | None = None) -> str:
    """A count with its noun: ``1 sample`` or ``2,341 samples``."""
    return f"{value:,} {noun if value == 1 else nouns or noun + 's'}"


class Note(str):
    """A sentence with its kind and what it is about; plain text for users and in JSON.

    Example:
        >>> import pickle
        >>> pickle.loads(pickle.dumps(Note("From 1 to 5.", "scale", (1, 5)))).about
        (1, 5)
    """

    __slots__ = ("about", "kind")
    kind: str
    about: Any

    def __new__(cls, text: str, kind: str = "", about: Any = None) -> Self:
        note = super().__new__(cls, text)
        note.kind, note.about = kind, about
        return note


def of_kind(notes: Iterable[str], *kinds: str) -> list[Note]:
    """The notes of some kinds."""
    return [note for note in notes if isinstance(note, Note) and note.kind in kinds]


def reworded(note: str, text: str) -> str:
    """Other words for a note, of the same kind."""
    return Note(text, note.kind, note.about) if isinstance(note, Note) else text
