"""Modules of the losses: a function with its settings, as in ``torch.nn.CrossEntropyLoss``.

A class names its function, the check of the settings if there is one, and each setting with type and default;
``__init__``, ``forward`` and the printed form follow from these.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, Signature, get_annotations, signature
from typing import Any, ClassVar, Literal, ParamSpec, TypeVar, dataclass_transform

from torch import Tensor, nn

from calibrant._math.text_form import meant, suggesting
from calibrant.losses._rows import Reduction, check_mean, check_reduction

Given = ParamSpec("Given")
Result = TypeVar("Result")

_COMMON = ("weight", "ignore_index", "reduction")


def properness(statement: str) -> Callable[[Callable[Given, Result]], Callable[Given, Result]]:
    """State whether a loss is proper, and why; :func:`calibrant.theory.properness` reports it."""

    def state(function: Callable[Given, Result]) -> Callable[Given, Result]:
        vars(function)["properness"] = statement
        return suggesting()(function)

    return state


def _accept(**_settings: object) -> None:
    """Check of a loss whose settings are always valid."""


@dataclass_transform(kw_only_default=True, eq_default=False)
class _Bound(nn.Module):
    """A function of logits and labels, bound to the settings that the class declares."""

    function: ClassVar[Callable[..., Tensor]]
    properness: ClassVar[str]
    shown: ClassVar[tuple[str, ...]] = ()  # names in the printed form, if not the settings
    _check: ClassVar[Callable[..., None]] = staticmethod(_accept)
    _checked: ClassVar[tuple[str, ...]] = ()  # settings that the check takes
    _settings: ClassVar[dict[str, Parameter]] = {}
    _passed: ClassVar[tuple[str, ...]] = ()  # attributes that the function takes as keywords
    _soft: ClassVar[bool] = False  # True if the function takes distributions as labels
    _instead: ClassVar[str] = (
        "pass one class per sample as `labels`, or choose a loss of soft targets, such as `FocalLoss`"
    )

    def __init_subclass__(
        cls, *, function: Callable[..., Tensor] | None = None, check: Callable[..., None] = _accept
    ) -> None:
        super().__init_subclass__()
        if function is not None:
            takes = signature(function).parameters.values()
            names = [each.name for each in takes if each.kind is each.KEYWORD_ONLY]
            cls._passed = tuple(dict.fromkeys([*(name for name in names if name != "targets"), *_COMMON]))
            cls._soft = "targets" in names
            cls._checked = tuple(get_annotations(cls))
            cls.function, cls._check = staticmethod(function), staticmethod(check)
            if "properness" not in vars(cls):
                cls.properness = vars(function)["properness"]
        if "__init__" not in vars(cls):
            cls._make_init()

    @classmethod
    def _make_init(cls) -> None:
        own = {
            name: Parameter(name, Parameter.KEYWORD_ONLY, default=vars(cls)[name], annotation=annotation)
            for name, annotation in get_annotations(cls).items()
            if name in vars(cls) and not str(annotation).startswith("ClassVar")
        }
        settings = own | {name: each for name, each in cls._settings.items() if name not in own}
        for name in own:
            delattr(cls, name)  # each module holds its own, the weight as a buffer

        def init(self: _Bound, *unnamed: object, **given: Any) -> None:
            if unnamed:
                raise TypeError(
                    f"{cls.__name__} must be given its settings by name, as {next(iter(settings))}=...; "
                    f"got {unnamed[0]!r} without a name."
                )
            for name in given.keys() - settings.keys():
                end = meant(name, settings) or f"; it has {', '.join(settings)}."
                raise TypeError(f"{cls.__name__} has no setting {name!r}{end}")
            nn.Module.__init__(self)
            values = {name: given.get(name, each.default) for name, each in settings.items()}
            check_reduction(values["reduction"])
            self.register_buffer("weight", values.pop("weight"))
            vars(self).update(values)
            self._check(**{name: values[name] for name in self._checked})
            self._start()

        init.__name__, init.__qualname__ = "__init__", f"{cls.__qualname__}.__init__"
        parameters = [Parameter("self", Parameter.POSITIONAL_OR_KEYWORD), *settings.values()]
        vars(init)["__signature__"] = Signature(parameters, return_annotation="None")
        type.__setattr__(cls, "__init__", init)
        cls._settings = settings

    def _start(self) -> None:
        """Derive attributes from the checked settings."""

    @suggesting()
    def forward(
        self, logits: Tensor, labels: Tensor | None = None, *, targets: Tensor | None = None
    ) -> Tensor:
        """Compute the loss; see the function it wraps."""
        settings = {name: getattr(self, name) for name in self._passed}
        if targets is None:
            return self.function(logits, labels, **settings)
        if not self._soft:
            raise TypeError(f"{type(self).__name__} takes no `targets`; {self._instead}.")
        return self.function(logits, labels, targets=targets, **settings)

    def extra_repr(self) -> str:
        names = self.shown or [name for name in self._settings if name not in _COMMON]
        settings = {name: vars(self)[name] for name in names}
        usual = {"ignore_index": -100, "reduction": "mean"}
        settings |= {name: vars(self)[name] for name, value in usual.items() if vars(self)[name] != value}
        return ", ".join(f"{name}={value!r}" for name, value in settings.items())


class LossModule(_Bound):
    """A loss with a value for each sample."""

    weight: Tensor | None = None
    ignore_index: int = -100
    reduction: Reduction = "mean"


class MultilabelLossModule(LossModule):
    """A loss of one logit per label."""

    _instead = "pass fractions as floating-point `labels`"


class BatchLossModule(_Bound):
    """A loss of the batch as a whole."""

    weight: Tensor | None = None
    ignore_index: int = -100
    reduction: Literal["mean"] = "mean"

    def _start(self) -> None:
        check_mean(type(self).__name__, self.reduction)
