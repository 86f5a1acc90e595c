"""Evaluations and comparisons that look like real ones, and a strict reader of pages."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser

import numpy as np
import pytest

from calibrant.evaluation.result import (
    SCHEMA_VERSION,
    Arm,
    ClassRow,
    ComparedModel,
    Comparison,
    Curve,
    Estimate,
    Evaluation,
    Fit,
    Kind,
    NullError,
    Settings,
    Source,
    Verdict,
)

SETTINGS = Settings(
    num_bins=15,
    bootstrap=1000,
    level=0.95,
    seed=7,
    null_draws=1000,
    calibration="The file's own calibration split.",
    calibrators=("temperature", "focal-temperature"),
)
SOURCE = Source(name="model.npz", sha256="0123456789abcdef" * 4, format="npz with logits")
VERSIONS = {"calibrant": "0.1.0", "torch": "2.13.0", "numpy": "2.3.0"}
TITLES = {
    "uncalibrated": "Uncalibrated",
    "temperature": "Temperature scaling",
    "focal-temperature": "Focal temperature scaling",
    "platt": "Platt scaling",
}
ESTIMATES = {
    "accuracy": 0.7527,
    "mean_confidence": 0.8046,
    "gap": 0.0519,
    "nll": 0.7311,
    "brier": 0.3523,
    "ece": 0.0519,
    "adaptive_ece": 0.0507,
    "l2_ece": 0.0612,
    "mce": 0.1331,
    "classwise_ece": 0.0171,
    "auroc": 0.9312,
    "entropy": 0.4711,
    "entropy_correct": 0.3712,
    "entropy_incorrect": 0.7753,
    "high_confidence_share": 0.2511,
    "high_confidence_accuracy": 0.9712,
}
COMMANDS = (
    "calibrant fit model.npz --method temperature --out temperature.safetensors",
    "calibrant apply temperature.safetensors",
)
NEXT_STEP = f"Next: `{COMMANDS[0]}`, then `{COMMANDS[1]}` with new predictions."
TOP_LABEL_LACKS = {
    "nll",
    "brier",
    "classwise_ece",
    "auroc",
    "entropy",
    "entropy_correct",
    "entropy_incorrect",
}


def make_curve(name: str, rng: np.random.Generator, *, sharpness: float, num_samples: int = 2000) -> Curve:
    """A curve of a model that is over-confident by ``sharpness`` (1 is calibrated), with empty bins."""
    low = 0.21 if name == "top label" else 0.0
    true = low + (1 - low) * rng.beta(4, 1.5 if name == "top label" else 4, num_samples)
    odds = true / (1 - true)
    stated = odds**sharpness / (1 + odds**sharpness)
    happened = rng.random(num_samples) < true
    edges = np.linspace(0, 1, 16)
    index = np.clip(np.searchsorted(edges, stated, side="left") - 1, 0, 14)
    counts = np.bincount(index, minlength=15)

    def per_bin(values: np.ndarray) -> list[float | None]:
        sums = np.bincount(index, values, minlength=15)
        return [None if size == 0 else float(total / size) for total, size in zip(sums, counts, strict=True)]

    def around(centre: Sequence[float | None], sign: int) -> tuple[float | None, ...]:
        return tuple(
            None if c is None else min(max(c + sign * 1.96 * math.sqrt(c * (1 - c) / size), 0.0), 1.0)
            for c, size in zip(centre, counts, strict=True)
        )

    confidence, accuracy = per_bin(stated), per_bin(happened.astype(float))
    fine = np.linspace(0, 1, 31)
    return Curve(
        name=name,
        edges=tuple(edges.tolist()),
        counts=tuple(counts.tolist()),
        confidence=tuple(confidence),
        accuracy=tuple(accuracy),
        low=around(accuracy, -1),
        high=around(accuracy, 1),
        expected_low=around(confidence, -1),
        expected_high=around(confidence, 1),
        histogram_edges=tuple(fine.tolist()),
        histogram_correct=tuple(np.histogram(stated[happened], fine)[0].tolist()),
        histogram_incorrect=tuple(np.histogram(stated[~happened], fine)[0].tolist()),
    )


def class_names(number: int) -> tuple[str, ...]:
    """Names as users have them: long ones, mathematics, HTML, other scripts, and many."""
    special = (
        '<script>alert("x")</script> & co',
        "a class with a very long name that was written out in full by somebody careful, twice over",
        "price in $ and $x^2$",
        "_hidden",
        "меланома 黑色素瘤",
    )
    return (special + tuple(f"class {index}" for index in range(number)))[:number]


def make_metrics(kind: Kind, factor: float) -> dict[str, Estimate]:
    """Estimates with intervals; calibration errors shrink with ``factor``."""
    metrics: dict[str, Estimate] = {}
    for key, value in ESTIMATES.items():
        scaled = value * (factor if key.endswith("ece") or key == "gap" else 1 - 0.04 * (1 - factor))
        metrics[key] = Estimate(value=scaled, low=scaled * 0.9, high=scaled * 1.12)
    if kind == "top_label":
        for key in TOP_LABEL_LACKS:
            metrics[key] = Estimate(value=None, reason="needs the probabilities of all classes")
    if kind == "binary":
        for key in ("ece", "adaptive_ece"):
            metrics[f"event_{key}"] = Estimate(value=0.2931 * factor, low=0.27 * factor, high=0.31 * factor)
    if kind in {"binary", "multilabel"}:
        metrics["mean_probability"] = Estimate(value=0.317 * factor, low=0.3 * factor, high=0.33 * factor)
        metrics["prevalence"] = Estimate(value=0.0504, low=0.0471, high=0.0533)
    if kind == "multiclass":
        metrics["nll"] = Estimate(value=None, reason="infinite: 3 samples have probability 0 for their label")
        metrics["mce"] = Estimate(value=0.1331 * factor, reason="too few samples for an interval")
    return metrics


def make_change(after: dict[str, Estimate], before: dict[str, Estimate]) -> dict[str, Estimate]:
    """Paired changes, some of which are more than chance."""
    change: dict[str, Estimate] = {}
    for key, estimate in after.items():
        other = before[key].value
        if estimate.value is None or other is None:
            change[key] = Estimate(value=None, reason="one of the two is missing")
        else:
            difference = estimate.value - other
            spread = abs(difference) * (0.3 if key.endswith("ece") else 1.4) + 0.001
            change[key] = Estimate(value=difference, low=difference - spread, high=difference + spread)
    return change


def make_evaluation(
    kind: Kind = "multiclass",
    *,
    num_classes: int = 8,
    arms: Sequence[str] = ("uncalibrated", "temperature", "focal-temperature"),
    recommended: str | None = None,
    source: Source | None = SOURCE,
    command: str | None = "calibrant evaluate model.npz --report report.html",
) -> Evaluation:
    names = (
        None
        if kind == "top_label"
        else ("negative", "positive")
        if kind == "binary"
        else class_names(num_classes)
    )
    curves = {
        "binary": ("positive class", "top label"),
        "multilabel": ("all labels", *(names or ())),
        "multiclass": ("top label",),
        "top_label": ("top label",),
    }[kind]
    made: list[Arm] = []
    for place, name in enumerate(arms):
        factor = (1.0, 0.3, 0.2, 0.5, 0.6)[place]
        rng = np.random.default_rng(place)
        metrics = make_metrics(kind, factor)
        made.append(
            Arm(
                name=name,
                title=TITLES.get(name, name),
                parameters={}
                if place == 0
                else {"temperature": 1.31 + place / 10, "biases": tuple(range(9))},
                fit=None
                if place == 0
                else Fit(
                    converged=place != 2,
                    steps=12,
                    objective="nll",
                    before=0.8112,
                    after=0.7443 - place / 100,
                    message="gradient norm 3e-9",
                    warnings=("samples are few", *(("gamma lies on its bound",) if place == 2 else ())),
                ),
                metrics=metrics,
                change={} if place == 0 else make_change(metrics, made[0].metrics),
                null=tuple(
                    NullError(metric=key, mean=0.0121, upper=0.0173, p_value=1 / 1001, num_draws=1000)
                    for key in ("event_ece", "ece", "adaptive_ece")
                    if key in metrics
                ),
                curves=tuple(make_curve(curve, rng, sharpness=1 + factor) for curve in curves),
                classes=tuple(
                    ClassRow(
                        name=label,
                        count=0 if index == 2 else 100 + 7919 * index % 5000,
                        mean_probability=0.02 + 0.9 / (index + 2),
                        prevalence=0.0 if index == 2 else 0.01 + 0.9 / (index + 3),
                        ece=factor * (0.01 + 0.0003 * (7 * index % 101)),
                        auroc=None if index == 2 else 0.9 - 0.3 / (index + 1),
                        accuracy=None if index == 2 else 0.8 - 0.2 / (index + 1),
                        noise_floor=0.01 + 0.02 / (index + 1),
                    )
                    for index, label in enumerate(names or ())
                ),
            )
        )
    best = recommended or arms[min(len(arms), 2) - 1]
    return Evaluation(
        schema_version=SCHEMA_VERSION,
        kind=kind,
        num_classes=2 if kind == "binary" else None if kind == "top_label" else num_classes,
        class_names=names,
        num_calibration=0 if len(arms) == 1 else 2341,
        num_test=2341,
        source=source,
        settings=SETTINGS,
        arms=tuple(made),
        verdict=Verdict(
            direction="over-confident",
            headline="Overconfident: average confidence 80.5%, accuracy 75.3%.",
            sentences=(
                "ECE is 0.0519, far above the noise floor.",
                "Temperature scaling lowers it to 0.0156, & the difference is beyond noise (<b>).",
                NEXT_STEP,
            ),
            short="Overconfident: average confidence 80.5%, accuracy 75.3%.",
            line="Best fix: temperature scaling. ECE falls from 0.0519 to 0.0156.",
            recommended=best,
            commands=COMMANDS,
        ),
        notes=(
            "12 rows missed a sum of one by up to 3e-4 and were renormalised.",
            "Names hold <b>markup</b> & more.",
        ),
        versions=VERSIONS,
        command=command,
    )


def make_comparison(kind: Kind = "multiclass", *, num_models: int = 3, paired: bool = True) -> Comparison:
    """Several models, the first the worst calibrated."""
    curves = {"binary": ("positive class", "top label"), "multilabel": ("all labels", *class_names(6))}.get(
        kind, ("top label",)
    )
    models: list[ComparedModel] = []
    for place in range(num_models):
        factor = 1 / (1 + place)
        rng = np.random.default_rng(place)
        metrics = make_metrics(kind, factor)
        models.append(
            ComparedModel(
                name=(
                    "<resnet> & 50",
                    "_wide_resnet",
                    "densenet-$121$-trained-with-focal-loss-and-a-long-name",
                )[place]
                if place < 3
                else f"model {place}",
                source=SOURCE if place else None,
                num_test=10000 - place,
                metrics=metrics,
                difference={} if place == 0 else make_change(metrics, models[0].metrics),
                null=(NullError(metric="ece", mean=0.0121, upper=0.0173, p_value=0.4126, num_draws=1000),),
                curves=tuple(make_curve(curve, rng, sharpness=1 + factor) for curve in curves),
            )
        )
    return Comparison(
        schema_version=SCHEMA_VERSION,
        kind=kind,
        paired=paired,
        settings=SETTINGS,
        models=tuple(models),
        verdict="_wide_resnet is better calibrated than <resnet> & 50: its ECE is lower by 0.0260.",
        notes=("The models agree on 81.2% of the samples.",),
        versions=VERSIONS,
        command="calibrant compare a.npz b.npz c.npz --report comparison.html",
    )


VOID = {"meta", "link", "br", "hr", "img", "input"}


@dataclass
class Element:
    tag: str
    attributes: dict[str, str]
    children: list[Element | str] = field(default_factory=list)

    def all(self, *tags: str, **attributes: str) -> list[Element]:
        """The elements inside this one, in order, of certain tags and attributes (``class_`` is a class)."""
        wanted = {key.rstrip("_").replace("_", "-"): value for key, value in attributes.items()}
        return [
            element
            for element in self.walk()
            if element is not self
            and (not tags or element.tag in tags)
            and all(value in element.attributes.get(key, "").split() for key, value in wanted.items())
        ]

    def walk(self) -> Iterator[Element]:
        waiting = [self]
        while waiting:
            yield (element := waiting.pop())
            waiting += [child for child in reversed(element.children) if isinstance(child, Element)]

    @property
    def text(self) -> str:
        parts = [child if isinstance(child, str) else child.text for child in self.children]
        return " ".join("".join(f" {part} " for part in parts).split())


class PageReader(HTMLParser):
    """Reads a page into elements; a tag that is not closed where it should be is an error."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Element("document", {})
        self.open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"<{tag}> has an attribute twice"
        element = Element(tag, {name: value or "" for name, value in attrs})
        self.open[-1].children.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take an element without content, which only SVG may have."""
        assert any(element.tag == "svg" for element in self.open) or tag == "svg", f"<{tag}/> outside SVG"
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        """Close the element that was opened last."""
        assert self.open[-1].tag == tag, f"</{tag}> closes <{self.open[-1].tag}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        """Add text to the element that is open."""
        self.open[-1].children.append(data)


def read_page(text: str) -> Element:
    reader = PageReader()
    reader.feed(text.replace("<wbr>", ""))  # where a name may be broken
    reader.close()
    assert reader.open == [reader.root], f"<{reader.open[-1].tag}> is not closed"
    return reader.root


@pytest.fixture(scope="session")
def page_of() -> Callable[[str], Element]:
    return read_page


@pytest.fixture(scope="session")
def evaluation_of() -> Callable[..., Evaluation]:
    return make_evaluation


@pytest.fixture(scope="session")
def comparison_of() -> Callable[..., Comparison]:
    return make_comparison


@pytest.fixture
def curve() -> Curve:
    """A top-label curve with empty bins, points below the band and points within."""
    return make_curve("top label", np.random.default_rng(1), sharpness=1.6)
