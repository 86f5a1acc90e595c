"""Calibrators, and models with their calibrators, as ONNX files."""

from __future__ import annotations

import importlib.util
import json
import logging
import os
import warnings
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import torch
from torch import Tensor, nn

import calibrant
from calibrant._math.checks import check_choice
from calibrant._math.errors import ConvergenceError, InputError
from calibrant._math.files import atomic_write
from calibrant.calibrators import CalibratedModel, Calibrator, GroupCalibrator

if TYPE_CHECKING:
    from torch.onnx import ONNXProgram

Output: TypeAlias = Literal["probs", "scores"]

ENDING = ".onnx"
TOLERANCE = 1e-6
_NUM_ROWS = 7  # of the example; a number that no graph would take for a constant


@dataclass(frozen=True, kw_only=True)
class Exported:
    """Result of :func:`export_onnx`."""

    path: Path
    inputs: tuple[str, ...]
    """Names of the graph's inputs."""
    output: str
    """Name of its output: ``probs``, ``log_probs`` or ``log_odds``."""
    largest_difference: float | None
    """Between onnxruntime's output for the example and ours; None if onnxruntime is not installed."""


def export_onnx(
    calibrator_or_model: Calibrator | CalibratedModel,
    path: str | os.PathLike[str],
    *,
    example: Tensor | tuple[Tensor, ...] | None = None,
    output: Output = "probs",
    dtype: torch.dtype = torch.float32,
    opset: int | None = None,
) -> Exported:
    """Write a fitted calibrator, or a model with its calibrator, as an ONNX file.

    Every calibrator can be written; of those by group each in a file of its own. The file is complete or
    not there, takes any number of samples, and where onnxruntime is installed is run and compared with this
    process before it gets its name.
    The calibrator's part computes in float64 whatever the logits are, as ONNX has no operators that are
    accurate where probabilities come near one. The metadata name the calibrator and the classes.

    Args:
        calibrator_or_model: Fitted. The input of the graph is ``logits`` for a calibrator and whatever the
            model takes for a model.
        path: The file to write; the name ends in ``.onnx``.
        example: An input of the model, a tensor or a tuple of them with at least two samples in the first
            dimension; not needed for a calibrator.
        output: ``"probs"`` for probabilities, ``"scores"`` for log-probabilities (log-odds of binary and
            multilabel predictions).
        dtype: The dtype of a calibrator's ``logits`` and of its output where no example is given: float32 or
            float64.
        opset: Version of ONNX's operators; by default torch's choice.

    Returns:
        The names of inputs and output, and the difference from this process.

    Raises:
        InputError: If the name has another ending, calibrators come by group, a model comes without an
            example, or torch cannot express the model's own part.
        ConvergenceError: If onnxruntime's probabilities differ from ours by more than 1e-6 (with a model,
            whose own part is float32, 1e-4).
        NotFittedError: If the calibrator is not fitted.
        ImportError: If onnx and onnxscript are not installed.
        OSError: If the folder is missing or not writable.

    Note:
        Logits of minus infinity count as they do in calibrant, but NaN is not refused: it comes out as NaN.
        float16 models are exported with their own types inside.

    Example:
        >>> import tempfile
        >>> from calibrant.calibrators import TemperatureScaling
        >>> calibrator = TemperatureScaling().fit([4.0] * 10, [1] * 7 + [0] * 3)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     exported = export_onnx(calibrator, f"{folder}/calibrator.onnx")
        >>> exported.inputs, exported.output
        (('logits',), 'probs')
    """
    check_choice("output", output, get_args(Output))
    if Path(path).suffix != ENDING:
        raise InputError(f"`path` must end in {ENDING}; got {os.fspath(path)!r}.")
    missing = [name for name in ("onnx", "onnxscript") if importlib.util.find_spec(name) is None]
    if missing:
        raise ImportError(f"{' and '.join(missing)} must be installed: pip install 'calibrant[onnx]'.")
    if isinstance(calibrator_or_model, GroupCalibrator):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InputError(
            "calibrators of groups need a file for each: export `by_group[name]` for every name, and "
            "`pooled` for groups that are not known."
        )
    if not isinstance(calibrator_or_model, (Calibrator, CalibratedModel)):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(
            "`calibrator_or_model` must be a calibrator, or a CalibratedModel, which joins a network and a "
            f"calibrator; got {type(calibrator_or_model).__name__}."
        )
    inputs = _inputs(calibrator_or_model, example, dtype)
    if isinstance(calibrator_or_model, CalibratedModel):
        calibrator, allowed = calibrator_or_model.calibrator, 100 * TOLERANCE
        names = tuple(f"inputs_{number}" for number in range(len(inputs))) if len(inputs) > 1 else ("inputs",)
    else:
        calibrator, allowed, names = calibrator_or_model, TOLERANCE, ("logits",)
    out = {"probs": "probs"}.get(output, "log_probs" if calibrator.kind_ == "multiclass" else "log_odds")
    graph = _Graph(calibrator_or_model, probs=output == "probs").eval()
    program = _program(graph, inputs, names, out, opset)
    program.model.metadata_props.update(_metadata(calibrator))
    with atomic_write(path) as temporary:
        program.save(temporary, external_data=False)
        difference = _difference(temporary, graph, inputs, names)
        if difference is not None and not difference <= allowed:
            half = any(each.dtype in {torch.float16, torch.bfloat16} for each in inputs)
            remedy = "; export a float32 copy, `model.float()`" if half else ""
            raise ConvergenceError(
                f"{os.fspath(path)} was not written: onnxruntime's output differs from ours by "
                f"{difference:.1e}{remedy}."
            )
    return Exported(path=Path(path), inputs=names, output=out, largest_difference=difference)


class _Graph(nn.Module):
    """Module to export: the calibrator in float64, with output in the dtype of the logits."""

    def __init__(self, source: Calibrator | CalibratedModel, *, probs: bool) -> None:
        super().__init__()
        self.source = source
        self.probs = probs

    def forward(self, *inputs: Tensor) -> Tensor:
        if isinstance(self.source, CalibratedModel):
            logits, calibrator = self.source.logits(*inputs), self.source.calibrator
        else:
            logits, calibrator = inputs[0], self.source
        one_column = calibrator.kind_ == "binary" and logits.ndim == 2 and logits.shape[1] == 1
        wide = (logits[:, 0] if one_column else logits).to(torch.float64)
        found = calibrator(wide)
        if self.probs:
            found = found.exp() if calibrator.kind_ == "multiclass" else found.sigmoid()
        return (found[:, None] if one_column else found).to(logits.dtype)


def _inputs(
    source: Calibrator | CalibratedModel, example: Tensor | tuple[Tensor, ...] | None, dtype: torch.dtype
) -> tuple[Tensor, ...]:
    if isinstance(source, CalibratedModel):
        source.calibrator.kind_  # noqa: B018 (an unfitted calibrator is refused first)
        if example is None:
            raise InputError("`example` must be given for a model: the tensor, or tensors, that it takes.")
    elif example is None:
        if dtype not in {torch.float32, torch.float64}:
            raise InputError(f"`dtype` must be torch.float32 or torch.float64; got {dtype}.")
        shape = (_NUM_ROWS,) if source.kind_ == "binary" else (_NUM_ROWS, source.num_classes_)
        example = 4 * torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        example = example.to(dtype)
    inputs = (example,) if isinstance(example, Tensor) else tuple(example)
    if not all(isinstance(each, Tensor) for each in inputs):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(
            f"`example` must be a torch.Tensor, or a tuple of them; got {type(example).__name__}."
        )
    if any(each.ndim == 0 or len(each) < 2 for each in inputs):
        raise InputError("`example` must hold at least two samples, in the first dimension of every tensor.")
    return inputs


def _program(
    graph: nn.Module, inputs: tuple[Tensor, ...], names: Sequence[str], out: str, opset: int | None
) -> ONNXProgram:
    batch = torch.export.Dim.DYNAMIC
    try:
        with _quiet_exporter():
            program = torch.onnx.export(
                graph,
                inputs,
                dynamo=True,
                dynamic_shapes=(tuple({0: batch} for _ in inputs),),
                input_names=list(names),
                output_names=[out],
                opset_version=opset,
                verbose=False,
            )
    except (InputError, ImportError):
        raise
    except Exception as error:  # torch documents no type for what it cannot express
        cause = error.__cause__ or error
        first = str(cause).strip().splitlines()[0] if str(cause).strip() else type(cause).__name__
        raise InputError(f"torch cannot express the model in ONNX: {first}") from error
    if program is None:
        raise InputError("torch cannot express the model in ONNX.")
    _name_axes(program)
    return program


def _name_axes(program: ONNXProgram) -> None:
    """Name the first axis ``batch``; the others have a fixed length."""
    graph: Any = program.model.graph
    numbered = {str(value.shape[0]) for value in graph.inputs if not isinstance(value.shape[0], int)}
    for value in (*graph.inputs, *(output for node in graph.all_nodes() for output in node.outputs)):
        for place, size in enumerate(value.shape or ()):
            if str(size) in numbered:
                value.shape[place] = "batch"


@contextmanager
def _quiet_exporter() -> Generator[None]:
    """Silence the warnings and errors that torch logs besides raising them."""
    logger = logging.getLogger("torch")
    level = logger.level
    logger.setLevel(logging.CRITICAL)  # what fails is raised as well
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def _difference(
    path: Path, graph: nn.Module, inputs: tuple[Tensor, ...], names: Sequence[str]
) -> float | None:
    if importlib.util.find_spec("onnxruntime") is None:
        return None
    from onnxruntime import InferenceSession

    session = InferenceSession(path.read_bytes(), providers=["CPUExecutionProvider"])
    feed = {name: each.detach().cpu().numpy() for name, each in zip(names, inputs, strict=True)}
    (found,) = session.run(None, feed)
    with torch.no_grad():
        ours = graph(*inputs).cpu()
    return float((torch.from_numpy(found).double() - ours.double()).abs().max())


def _metadata(calibrator: Calibrator) -> dict[str, str]:
    told: dict[str, Any] = {
        "version": calibrant.__version__,
        "name": calibrator.name,
        "settings": calibrator.settings,
        "kind": calibrator.kind_,
        "class_names": calibrator.class_names_,
    }
    return {"calibrant": json.dumps(told)}
