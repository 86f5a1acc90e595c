"""Options for reading predictions, and checks before slow imports."""

from __future__ import annotations

import contextlib
import functools
import inspect
import re
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import Field, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

import typer

from calibrant._math.errors import InputError
from calibrant._math.machine import bounded_memory
from calibrant.cli.help import INPUT, SPACES
from calibrant.evaluation.read_options import ReadOptions, told

if TYPE_CHECKING:
    from calibrant.predictions import ColumnNames, Predictions
    from calibrant.predictions.files import TimedPredictions

LmScore = Literal["acc", "acc_norm", "acc_bytes", "recorded", "logprobs", "stated", "agreement"]
FREQUENCY = "predicted-frequency"
STDIN = frozenset({"-", "/dev/stdin", "/proc/self/fd/0", "/dev/fd/0"})
AnyKind = Literal["binary", "multiclass", "multilabel", "top_label"]

COMMAS = "; separate columns with commas, as in --prob-columns cat,dog, and give each option its value"
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")  # addresses for fsspec


@dataclass(frozen=True, kw_only=True)
class Reading(ReadOptions):
    """Options for reading files."""

    APART = frozenset({"positive_class"})

    score_columns: tuple[str, ...] = told(
        "Columns of raw scores, one per class (fit and apply only).", (), "NAMES"
    )
    bands: tuple[str, ...] = told(
        "Bin a numeric column into groups: position (8 equal bins) or position:0:128:512; also "
        "predicted-frequency, and for boxes x, y, width or height.",
        (),
        "NAMES",
    )
    annotations: Path | None = told("COCO annotations, if FILE holds COCO detections.")
    iou: float = told("Smallest overlap (IoU) at which a detection is correct.", 0.5, "SHARE")
    percent: bool = told("Treat probabilities as percentages (auto-detected if unambiguous).", False)
    scale: str | None = told("Ends of the scale if it isn't 0 to 1, such as 1:5.", None, "RANGE")
    kind: AnyKind | None = told(
        "Kind of predictions, if ambiguous: binary, multiclass, multilabel or top_label.", None, "KIND"
    )
    lm_score: LmScore = told(
        "Score of lm-evaluation-harness: acc, acc_norm (per character) or acc_bytes (per byte); or "
        "confidence of inspect-ai: recorded, logprobs, stated or agreement.",
        "acc",
        "SCORE",
    )
    positive_class: str | None = None
    """An option of the command itself."""

    def open(
        self, path: Path, *, labels: Path | None = None, stream: bool | None = None, name: str | None = None
    ) -> Predictions:
        from calibrant.predictions import load_detections, open_predictions
        from calibrant.predictions.top_k import by_frequency

        if self.annotations is not None:
            plain = replace(self, logit_columns=self.logit_columns or self.score_columns)
            of_tables = ("prob_columns", "logit_columns", "weight_column", "group_column", "cluster")
            if given := next((each for each in ("label_column", *of_tables) if getattr(plain, each)), None):
                option = given.replace("_", "-")
                raise InputError(f"--{option} is for tables; leave it out with --annotations.")
            return load_detections(path, self.annotations, iou=self.iou).predictions(bands=self.bands)
        if self.iou != Reading.iou:
            raise InputError("--iou is for COCO detections; leave it out, or name their --annotations.")
        file, form = path, self.format
        if is_pipe(path):
            file, form, name = kept_of(path, form)
        found = open_predictions(
            file,
            labels=labels,
            stream=stream,
            kind=self.kind,
            lm_score=self.lm_score,
            format=form,
            name=name,
            **self._meaning,
        )
        if FREQUENCY in self.bands:
            found = by_frequency(found)
        return self._in_clusters(found, path)

    def refuse_other_class(self, found: object) -> None:
        """Refuse a positive class other than the one whose score was read."""
        if self.positive_class not in {None, *(getattr(found, "class_names", None) or ())[1:]}:
            raise InputError(
                f"--positive-class must be the class whose score is given, where labels are words; got "
                f"{self.positive_class!r}; leave it out."
            )

    def _in_clusters(self, found: Predictions, path: Path) -> Predictions:
        if not self.clusters_are_groups:
            return found
        if found.groups is None:
            raise InputError(f"--cluster {self.cluster} needs groups in {path}, and there are none.")
        return found.with_clusters(found.groups)

    def refuse(self, *names: str, remedy: str) -> None:
        for name in names:
            if name == "group_column" and "cluster" not in names and self.clusters_are_groups:
                continue
            if getattr(self, name) != getattr(Reading, name):
                raise InputError(f"--{name.replace('_', '-')} is not used here: {remedy}")

    @property
    def _meaning(self) -> dict[str, Any]:
        """Arguments of the library that say what the columns of a table mean."""
        from calibrant.predictions.scale import scale_of

        return {
            "columns": self.columns,
            "percent": self.percent or None,
            "scale": None if self.scale is None else scale_of(self.scale),
            "positive_class": self.positive_class,
        }

    @property
    def columns(self) -> ColumnNames | None:
        from calibrant.predictions import ColumnNames

        if self.score_columns:
            raise InputError(
                "--score-columns names scores without a scale, which aren't probabilities until a calibrator "
                f"is fitted: calibrant fit FILE --score-columns {','.join(self.score_columns)}, then "
                "calibrant apply, and use the calibrated file."
            )
        bands = tuple(each for each in self.bands if each != FREQUENCY)
        return replace(super().columns or ColumnNames(), bands=bands) or None

    def load(self, path: Path, *, name: str | None = None) -> Predictions:
        return self.open(path, stream=False, name=name)

    def of_new(self, *, groups: bool) -> Reading:
        """Return the options for new predictions, whose annotations only name classes."""
        found = replace(self.of_fit(groups=groups), iou=0.5, label_column=None, weight_column=None)
        return found if groups else replace(found, annotations=None)

    def of_scores(self) -> Reading:
        """Return the options for fitting and applying; scores without a scale are logits."""
        if self.score_columns and (self.prob_columns or self.logit_columns):
            raise InputError("--score-columns excludes --prob-columns and --logit-columns; pass one of them.")
        return replace(self, logit_columns=self.logit_columns or self.score_columns, score_columns=())

    def of_fit(self, *, groups: bool) -> Reading:
        """Return the options for fitting a chosen calibrator: no clusters, groups only if needed."""
        found = replace(self, cluster=None)
        return found if groups else replace(found, group_column=(), bands=())

    def load_other(self, path: Path) -> Predictions:
        """Read predictions whole, accepting the column names that ``apply`` writes."""
        try:
            return self.load(path)
        except InputError:
            if self.columns:
                plain = replace(self, label_column=None, prob_columns=(), logit_columns=(), group_column=())
                with contextlib.suppress(InputError):
                    return replace(plain, weight_column=None, cluster=None, bands=()).load(path)
            raise

    def load_timed(self, path: Path, time: str) -> TimedPredictions:
        from calibrant.predictions.files import load_timed

        others = ("bands", "annotations", "iou", "kind", "lm_score")
        self.refuse(*others, remedy="a stream is a table of its columns as they are.")
        found = load_timed(path, time=time, format=self.format, **self._meaning)
        return replace(found, predictions=self._in_clusters(found.predictions, path))


_KEYWORD = inspect.Parameter.KEYWORD_ONLY


def options_of(kind: Any, *first: str, panel: str | None = None) -> list[inspect.Parameter]:
    """Return the :func:`told` fields of a dataclass as options, after ``first``."""
    kinds, told_of = get_type_hints(kind), {each.name: each for each in fields(kind) if each.metadata}
    names = dict.fromkeys((*first, *told_of))
    return [option(name, kinds[name], told_of[name], panel) for name in names]


def option(name: str, typed: Any, told: Field[Any], panel: str | None = None) -> inspect.Parameter:
    """Return a :func:`told` field as an option."""
    long, default, how = f"--{name.replace('_', '-')}", told.default, dict(told.metadata)
    names = how.pop("names") or (long,)
    if default == ():
        default, typed = None, list[str] | None
    elif typed in (tuple[str, ...] | None, tuple[float, ...] | None):
        typed = str | None
    annotation = Annotated[typed, typer.Option(*names, rich_help_panel=panel, **how)]
    return inspect.Parameter(name, _KEYWORD, default=default, annotation=annotation)


def with_options(
    command: Callable[..., None], name: str = "", options: Sequence[inspect.Parameter] = ()
) -> inspect.Signature:
    """Return a command's signature with options for :func:`told` ones and for the named parameter."""
    signature = inspect.signature(command, eval_str=True)
    parameters: list[inspect.Parameter] = []
    for each in signature.parameters.values():
        if isinstance(each.default, Field):
            parameters.append(option(each.name, each.annotation, each.default))
        else:
            parameters += options if each.name == name else [each.replace(kind=_KEYWORD)]
    return signature.replace(parameters=parameters)


_SEVERAL = tuple(each.name for each in fields(Reading) if each.default == ())
_OPTIONS = options_of(
    Reading, "format", "label_column", "prob_columns", "logit_columns", "score_columns", panel=INPUT
)


def reads(command: Callable[..., None]) -> Callable[..., None]:
    """Replace the parameter ``reading`` of a command by these options."""

    @functools.wraps(command)
    def run(**values: Any) -> None:
        given = {each.name: values.pop(each.name) for each in _OPTIONS}
        for name in _SEVERAL:
            given[name] = tuple(part.strip() for text in given[name] or () for part in text.split(","))
        given["group_column"] = tuple(filter(None, given["group_column"]))
        with bounded_memory():
            command(**values, reading=Reading(**given, positive_class=values.get("positive_class")))

    vars(run)["__signature__"] = with_options(command, "reading", _OPTIONS)
    return run


def check_inputs(*paths: Path | None) -> None:
    missing: dict[Path, None] = {}  # each once, however often it is named
    for path in paths:
        if path is None or is_pipe(path) or _ADDRESS.match(str(path)):
            continue
        try:
            path.stat()
        except FileNotFoundError:
            missing[path] = None
        except OSError:
            continue  # said by who opens it
    if missing:
        what = "no such file" if len(missing) == 1 else "no such files"
        raise FileNotFoundError(f"{', '.join(map(str, missing))}: {what}{_how_to_type(list(missing))}.")


def _how_to_type(missing: Sequence[Path]) -> str:
    """Explain what may have split a name or a list into several words."""
    commas = COMMAS if any(not path.suffix for path in missing) else ""
    if len(missing) == 1:
        return commas
    return SPACES + commas if any(path.suffix for path in missing) else commas + SPACES


def is_pipe(path: Path) -> bool:
    if str(path) in STDIN:
        return True
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or (stat.S_ISCHR(mode) and str(path).startswith("/dev/fd/"))


_FOLDERS: list[tempfile.TemporaryDirectory[str]] = []


def kept_of(path: Path, form: str | None) -> tuple[Path, str, str]:
    """Save a pipe to a temporary file of this process; return it with its format and name."""
    folder = tempfile.TemporaryDirectory(prefix="calibrant-")
    _FOLDERS.append(folder)
    file = Path(folder.name) / "stdin"
    with file.open("wb") as kept:
        if str(path) in STDIN:
            if sys.stdin is None or sys.stdin.isatty():
                raise InputError(
                    "- reads predictions from a pipe, but there is none: cat FILE | calibrant ..."
                )
            shutil.copyfileobj(sys.stdin.buffer, kept)
        else:
            with path.open("rb") as piped:
                shutil.copyfileobj(piped, kept)
    return file, form or _guessed(file), "stdin" if str(path) in STDIN else path.name


def _guessed(file: Path) -> str:
    with file.open("rb") as opened:
        start = opened.read(64)
    if not start:
        raise InputError("nothing came through the pipe.")
    marks = {b"PK": "npz", b"PAR1": "parquet", b"\x1f\x8b": "csv.gz", b"{": "jsonl", b"[": "json"}
    stripped = start.lstrip(b"\xef\xbb\xbf \r\n")
    found = next((form for mark, form in marks.items() if stripped.startswith(mark)), None)
    if found is None and b"\0" in start:
        raise InputError("name the format of the pipe with --format.")
    return found or "csv"
