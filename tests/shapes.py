"""Checks the shapes that annotations promise, whenever a test calls a function of the four lowest rooms.

The package takes the names of its shapes from ``calibrant._math.shapes``, where they mean nothing, so users
need no jaxtyping. Here they come to life: as soon as a module of a checked room has been imported, each of
its functions with a shape in its signature is wrapped, and so are methods, properties, dataclasses and named
tuples. At the first call the wrapper runs the module's ``if TYPE_CHECKING:`` blocks in a namespace of their
own, where those names are jaxtyping's, and evaluates the annotations; from then on jaxtyping and beartype
check what goes in and what comes out.

Left out: what numba compiles (not a Python function any more), anything traced by ``torch.compile`` or
``torch.export``, and annotations without a shape, which are the type checker's business.
"""

from __future__ import annotations

import ast
import functools
import importlib.abc
import importlib.machinery
import inspect
import re
import sys
import typing
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import is_dataclass
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import jaxtyping
import torch
from beartype import beartype
from jaxtyping import AbstractArray, AnnotationError, TypeCheckError, jaxtyped

ROOMS = ("_math", "losses", "metrics", "calibrators")
KINDS = ("Bool", "Float", "Int", "Integer", "Shaped", "UInt8")
"""What ``calibrant._math.shapes`` defines."""
SHAPE = re.compile(rf"\b({'|'.join(KINDS)})\[")

EXEMPT: dict[str, str] = {}
"""Beginnings of ``module:qualified name`` of what is not checked, and why."""

MOST = 3  # calls of a function, with arguments of one pattern, that are checked while the tests run
LOOKED_AT = 30  # calls of a function in one test whose arguments are looked at

_calls: dict[Hashable, int] = {}
_in_this_test: dict[FunctionType, int] = {}
_checking = False  # whether a test of one of the rooms runs


class ShapeError(AssertionError):
    """A function took or returned an array of another shape or type than its annotation says."""


@contextmanager
def checking(path: Path) -> Iterator[None]:
    """Check while a test of one of the rooms runs; elsewhere the time is better spent."""
    global _checking  # noqa: PLW0603
    before, _checking = _checking, any(room in path.parts for room in ROOMS)
    _in_this_test.clear()
    try:
        yield
    finally:
        _checking = before


def _is_due(function: FunctionType, args: tuple[Any, ...], keywords: dict[str, Any]) -> bool:
    """Whether this call is to be checked: the first ones with such arguments are."""
    if not _checking or torch.compiler.is_compiling():
        return False
    number = _in_this_test[function] = _in_this_test.get(function, 0) + 1
    if number > LOOKED_AT:
        return False
    called = function, _pattern((*args, *keywords, *keywords.values()))
    _calls[called] = _calls.get(called, 0) + 1
    return _calls[called] <= MOST


def _pattern(given: tuple[Any, ...]) -> Hashable:
    """The types of arguments, and which of their sizes are 0, 1 or equal: what names of sizes can tell."""
    sizes: dict[int, int] = {0: 0, 1: 1}
    return tuple(
        (type(value), getattr(value, "dtype", None), *(sizes.setdefault(size, len(sizes)) for size in shape))
        if (shape := getattr(value, "shape", None)) is not None
        else value
        if isinstance(value, str | bool | None)
        else type(value)
        for value in given
    )


def install() -> None:
    """Check the modules of the rooms that are imported from now on."""
    early = [name for name in sys.modules if _in_rooms(name)]
    if early:
        raise RuntimeError(f"imported before their shapes could be checked: {', '.join(sorted(early))}")
    sys.meta_path.insert(0, _Finder())


def check_module(module: ModuleType) -> None:
    """Wrap what a module defines and annotates with shapes."""
    for name, value in list(vars(module).items()):
        if getattr(value, "__module__", None) != module.__name__:
            continue
        if isinstance(value, FunctionType):
            setattr(module, name, _checked(value, module))
        elif inspect.isclass(value):
            _check_class(value, module)


def shape_annotated(module: ModuleType) -> Iterator[FunctionType]:
    """The functions and methods of a module that are checked, as they were written."""
    for value in vars(module).values():
        if getattr(value, "__module__", None) != module.__name__:
            continue
        for part in [value] if not inspect.isclass(value) else vars(value).values():
            function = getattr(part, "__func__", getattr(part, "fget", part))
            if hasattr(function, "shapes_are_checked") and function.__module__ == module.__name__:
                yield function.__wrapped__


def evaluated(function: FunctionType, module: ModuleType) -> dict[str, Any]:
    """Those annotations of a function that hold a shape."""
    return _evaluated(function.__annotations__, module)


def _in_rooms(name: str) -> bool:
    package, _, rest = name.partition(".")
    return package == "calibrant" and rest.partition(".")[0] in ROOMS


class _Finder(importlib.abc.MetaPathFinder):
    """Finds modules where Python does, and has them wrapped once they are executed."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if not _in_rooms(fullname):
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is None or not isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            return spec
        spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


class _Loader(importlib.machinery.SourceFileLoader):
    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        check_module(module)


def _check_class(cls: type, module: ModuleType) -> None:
    for name, value in list(vars(cls).items()):
        if isinstance(value, FunctionType) and value.__module__ == module.__name__:
            setattr(cls, name, _checked(value, module))
        elif isinstance(value, (staticmethod, classmethod)):
            homes = {
                module.__name__,
                f"namedtuple_{cls.__name__}",
            }  # the latter of a named tuple's ``__new__``
            if getattr(value.__func__, "__module__", None) not in homes:
                continue  # defined, and checked, elsewhere
            setattr(cls, name, type(value)(_checked(value.__func__, module)))
        elif isinstance(value, property) and isinstance(value.fget, FunctionType):
            setattr(cls, name, property(_checked(value.fget, module), value.fset, value.fdel, value.__doc__))
    fields = vars(cls).get("__annotations__", {})
    if is_dataclass(cls) and any(SHAPE.search(str(hint)) for hint in fields.values()):
        _check_fields(cls, module)


def _check_fields(cls: Any, module: ModuleType) -> None:
    """Check a dataclass's fields after each construction."""
    construct, home = cls.__init__, module.__name__  # as torch.compile knows them

    @functools.wraps(construct)
    def checked(self: Any, *args: Any, **keywords: Any) -> None:
        construct(self, *args, **keywords)
        if _is_due(construct, args, keywords):
            _fields_built(cls, home)(**{name: getattr(self, name) for name in cls.__annotations__})

    if not _exempt(cls, module):
        cls.__init__ = checked


@functools.cache
def _fields_built(cls: Any, home: str) -> Callable[..., None]:
    names = ", ".join(cls.__annotations__)
    space: dict[str, Any] = {}
    exec(f"def {cls.__name__}(*, {names}): pass", space)
    return _with_checks(space[cls.__name__], cls.__annotations__, sys.modules[home])


def _checked(function: FunctionType, module: ModuleType) -> FunctionType:
    """The function with its shapes checked, or as it is where it states none."""
    hints = function.__annotations__
    if not any(SHAPE.search(str(hint)) for hint in hints.values()):
        return function
    if inspect.isgeneratorfunction(function) or _exempt(function, module):
        return function

    home = module.__name__  # torch.compile follows methods whose closures hold only what it knows

    @functools.wraps(function)
    def checked(*args: Any, **keywords: Any) -> Any:
        if not _is_due(function, args, keywords):
            return function(*args, **keywords)
        try:
            return _built(function, home)(*args, **keywords)
        except (TypeCheckError, AnnotationError) as error:
            # What a caller does wrong the function itself refuses, in its own words.
            result = function(*args, **keywords)
            _refuse(error)
            return result

    checked.shapes_are_checked = True  # pyright: ignore[reportFunctionMemberAccess]
    return checked  # pyright: ignore[reportReturnType]


@functools.cache
def _built(function: FunctionType, home: str) -> Callable[..., Any]:
    return _with_checks(function, function.__annotations__, sys.modules[home])


def _refuse(error: Exception) -> None:
    raise ShapeError(str(error)) from None


def _exempt(thing: Any, module: ModuleType) -> bool:
    place = f"{module.__name__}:{thing.__qualname__}"
    return any(place.startswith(start) for start in EXEMPT)


def _with_checks(function: Any, hints: dict[str, Any], module: ModuleType) -> Callable[..., Any]:
    """A copy whose annotations are evaluated, those without a shape left out."""
    code, space = function.__code__, function.__globals__
    copy = FunctionType(code, space, function.__name__, function.__defaults__, function.__closure__)
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__qualname__, copy.__module__ = function.__qualname__, module.__name__
    copy.__annotations__ = _evaluated(hints, module)
    return jaxtyped(copy, typechecker=beartype)


def _evaluated(hints: dict[str, Any], module: ModuleType) -> dict[str, Any]:
    # The fields of a named tuple are references to strings.
    texts = {name: getattr(hint, "__forward_arg__", hint) for name, hint in hints.items()}
    found = {name: eval(text, _names(module)) for name, text in texts.items() if SHAPE.search(str(text))}
    return {name: hint for name, hint in found.items() if _has_shape(hint)}


def _has_shape(hint: Any) -> bool:
    if inspect.isclass(hint) and issubclass(hint, AbstractArray):
        return True
    return any(_has_shape(part) for part in typing.get_args(hint))


@functools.cache
def _names(module: ModuleType) -> dict[str, Any]:
    """A module's globals with jaxtyping's shapes, and what it imports under ``TYPE_CHECKING``."""
    path = Path(str(module.__file__))
    blocks = [
        statement
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for statement in node.body
    ]
    names = vars(module) | {kind: getattr(jaxtyping, kind) for kind in KINDS}
    exec(compile(ast.Module(blocks, []), str(path), "exec"), names)
    return names
