"""Networks, losses, data and tasks of your own, named as ``module:factory``."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any

from torch import nn

from calibrant._math.errors import InputError, clause
from calibrant._math.text_form import nearest, parse_call

ELSEWHERE = re.compile(r"\s*([A-Za-z_][\w.]*):(.+)", flags=re.DOTALL)


def imported(text: str, given: Mapping[str, object]) -> Any:
    """Call ``module:factory(setting=value)`` with the entries of ``given`` that it accepts.

    Raises:
        InputError: If the module or the factory does not exist or does not take a setting.

    Example:
        >>> imported("fractions:Fraction(numerator=3)", {"denominator": 4, "colour": "red"})
        Fraction(3, 4)
    """
    match = ELSEWHERE.fullmatch(text)
    if match is None:
        raise InputError(f"must have the form module:factory or module:factory(setting=value); got {text!r}.")
    module_name, call = match.groups()
    name, settings = parse_call(call)
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise InputError(f"the module of {text!r} cannot be imported: {error}.") from error
    except Exception as error:
        raise InputError(f"the module of {text!r} cannot be imported: {clause(error)}.") from error
    factory: Callable[..., Any] | None = getattr(module, name, None)
    if not callable(factory):
        known = [each for each in vars(module) if not each.startswith("_")]
        raise InputError(f"{module_name} has no function {name!r}{nearest(name, known)}")
    signature = _signature(factory, f"{module_name}:{name}")
    parameters = signature.parameters
    passed = {key: value for key, value in given.items() if key in parameters}
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        # Such as torchvision's models; all of them take the number of classes.
        passed |= {key: value for key, value in given.items() if key == "num_classes"}
    else:
        for setting in settings:
            if setting not in parameters:
                known = nearest(setting, parameters)
                raise InputError(f"{module_name}:{name} has no setting {setting!r}{known}")
    passed |= settings
    try:
        signature.bind(**passed)
    except TypeError as error:
        raise InputError(f"{module_name}:{name} cannot be called with these settings: {error}.") from error
    try:
        return factory(**passed)
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"{module_name}:{name} fails: {clause(error)}.") from error


def _signature(factory: Callable[..., Any], name: str) -> inspect.Signature:
    if isinstance(factory, type) and factory.__init__ is nn.Module.__init__:  # which takes anything and fails
        return inspect.Signature()
    try:
        return inspect.signature(factory)
    except ValueError as error:  # some built-in functions have none
        raise InputError(f"{name} has no signature to read, so it cannot be called.") from error
