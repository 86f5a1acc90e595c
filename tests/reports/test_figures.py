"""What the figures draw."""

import dataclasses

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.figure import Figure
from matplotlib.patches import StepPatch

from calibrant.evaluation.result import Arm, ClassRow, Curve, Estimate, Evaluation, NullError
from calibrant.reports import (
    class_errors,
    class_shifts,
    confidence_histogram,
    error_intervals,
    figures,
    reliability_comparison,
    reliability_diagram,
)
from calibrant.reports.figures import place, series


def points(ax: Axes) -> set[tuple[float, float]]:
    """Everything that is drawn as a point, rounded."""
    clouds = [artist for artist in ax.collections if isinstance(artist, PathCollection)]
    offsets = [np.ma.filled(cloud.get_offsets(), np.nan) for cloud in clouds]
    return {(round(x, 9), round(y, 9)) for pairs in offsets for x, y in pairs if not np.isnan(x)}


def segments(ax: Axes) -> set[tuple[float, float, float]]:
    return {
        tuple(np.round([piece[0][0], piece[0][1], piece[1][1]], 9))
        for artist in ax.collections
        if isinstance(artist, LineCollection)
        for piece in artist.get_segments()
    }


def steps(ax: Axes) -> list[StepPatch]:
    return [patch for patch in ax.patches if isinstance(patch, StepPatch)]


def expected_points(curve: Curve) -> set[tuple[float, float]]:
    return {
        (round(x, 9), round(y, 9))
        for x, y in zip(curve.confidence, curve.accuracy, strict=True)
        if x is not None and y is not None
    }


def test_the_diagram_draws_every_bin_that_holds_samples(curve) -> None:
    """Points are (stated, found) of the bins with samples, bars their intervals, the band is the data's."""
    assert 0 in curve.counts, "the curve of this test must have an empty bin"
    ax = reliability_diagram(curve)
    assert points(ax) == expected_points(curve)
    bars = zip(curve.confidence, curve.low, curve.high, strict=True)
    assert segments(ax) == {tuple(np.round(bar, 9)) for bar in bars if None not in bar}
    band = steps(ax)[0].get_data()
    np.testing.assert_array_equal(band.edges, curve.edges)
    np.testing.assert_array_equal(band.values, np.array(curve.expected_high, dtype=float))
    np.testing.assert_array_equal(band.baseline, np.array(curve.expected_low, dtype=float))
    assert ax.get_xlim() == ax.get_ylim() == (0, 1)


def test_points_outside_the_band_have_shapes_of_their_own() -> None:
    """Below, within and above the band are told apart by marker, not by colour alone, and are counted so."""
    made = Curve(
        name="positive class",
        edges=(0, 0.25, 0.5, 0.75, 1),
        counts=(10, 20, 30, 0),
        confidence=(0.2, 0.4, 0.6, None),
        accuracy=(0.5, 0.4, 0.1, None),
        low=(0.4, 0.3, 0.05, None),
        high=(0.6, 0.5, 0.2, None),
        expected_low=(0.1, 0.3, 0.5, None),
        expected_high=(0.3, 0.5, 0.7, None),
        histogram_edges=(0, 0.5, 1),
        histogram_correct=(13, 3),
        histogram_incorrect=(17, 27),
    )
    ax = reliability_diagram(made)
    shapes = [artist.get_paths()[0] for artist in ax.collections if isinstance(artist, PathCollection)]
    assert len({shape.vertices.tobytes() for shape in shapes}) == 3
    assert place(made) == (1, 1, 1)
    assert ax.get_ylabel() == "actual rate"
    entries = [text.get_text() for text in ax.get_legend().get_texts()]
    assert len(entries) == 5


def test_larger_bins_have_larger_points(curve) -> None:
    ax = reliability_diagram(curve)
    sizes: dict[float, float] = {}
    for cloud in ax.collections:
        if isinstance(cloud, PathCollection):
            sizes |= dict(
                zip(np.asarray(cloud.get_offsets())[:, 0].tolist(), cloud.get_sizes().tolist(), strict=True)
            )
    counted = [
        (size, sizes[x]) for size, x in zip(curve.counts, curve.confidence, strict=True) if x is not None
    ]
    assert [area for _, area in sorted(counted)] == sorted(area for _, area in counted)
    assert len({area for _, area in counted}) > 3


def test_a_curve_without_a_band_or_intervals_is_drawn(curve) -> None:
    nothing = (None,) * len(curve.counts)
    bare = dataclasses.replace(curve, low=nothing, high=nothing, expected_low=nothing, expected_high=nothing)
    ax = reliability_diagram(bare)
    assert points(ax) == expected_points(curve)
    assert segments(ax) == set()
    ax.figure.canvas.draw()
    # Without samples: empty axes, not an error.
    none = (0,) * len(curve.histogram_correct)
    empty = dataclasses.replace(
        curve,
        counts=(0,) * len(curve.counts),
        histogram_correct=none,
        histogram_incorrect=none,
        **dict.fromkeys(("confidence", "accuracy", "low", "high", "expected_low", "expected_high"), nothing),
    )
    for draw in (reliability_diagram, confidence_histogram):
        draw(empty).figure.canvas.draw()


def test_the_histogram_draws_the_counts(curve) -> None:
    ax = confidence_histogram(curve)
    right, wrong = (patch.get_data() for patch in steps(ax))
    np.testing.assert_array_equal(right.values, curve.histogram_correct)
    np.testing.assert_array_equal(-np.asarray(wrong.values), curve.histogram_incorrect)
    np.testing.assert_array_equal(right.edges, curve.histogram_edges)
    ticks = [label.get_text() for label in ax.get_yticklabels()]
    assert ticks == [f"{max(curve.histogram_incorrect)}", "0", f"{max(curve.histogram_correct)}"]
    words = {text.get_text() for text in ax.texts}
    assert words == {f"{sum(curve.histogram_correct):,} correct", f"{sum(curve.histogram_incorrect):,} wrong"}
    top, middle, bottom = (
        ax.transData.transform((0.5, y))[1]
        for y in (max(curve.histogram_correct), 0, -max(curve.histogram_incorrect))
    )
    ratio = max(curve.histogram_correct) / max(curve.histogram_incorrect)
    assert ((top - middle) / (middle - bottom)) ** 2 == pytest.approx(ratio, rel=1e-9)


def test_the_comparison_draws_every_curve_under_its_name(curve) -> None:
    """One line per model with its bins; names are shown as they are, mathematics and underscores included."""
    shifted = dataclasses.replace(curve, accuracy=tuple(None if y is None else y / 2 for y in curve.accuracy))
    names = {"_resnet": curve, "$x$ & <b>": shifted}
    ax = reliability_comparison(names)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [
        "calibrated",
        *names,
        "too few samples to tell",
    ]
    assert not any(text.get_parse_math() for text in ax.get_legend().get_texts())
    for line, drawn in zip(ax.lines[1:], names.values(), strict=True):
        joined = [
            (x, y)
            for x, y, low, high in zip(drawn.confidence, drawn.accuracy, drawn.low, drawn.high, strict=True)
            if y is not None and (low is None or high is None or high - low <= 0.3)
        ]
        np.testing.assert_array_equal(np.column_stack(line.get_data()), np.array(joined))
        assert len(joined) < sum(y is not None for y in drawn.accuracy)  # the others are hollow dots
    first, second = ax.lines[1:]
    assert first.get_color() != second.get_color()
    assert points(ax) == expected_points(curve) | expected_points(shifted)
    shapes = [artist.get_paths()[0] for artist in ax.collections if isinstance(artist, PathCollection)]
    assert len({shape.vertices.tobytes() for shape in shapes}) == 2
    with pytest.raises(ValueError, match=r"`curves` must hold at least one curve"):
        reliability_comparison({})
    # Colour, shape and dashes together differ for 42 curves.
    assert len({series(position) for position in range(42)}) == 42


def test_error_intervals_draw_errors_and_chance(evaluation_of) -> None:
    """Each arm's error stands at its value, its interval and its chance band at theirs."""
    arms = evaluation_of().arms
    ax = error_intervals(arms)
    assert [label.get_text() for label in ax.get_yticklabels()] == [arm.title for arm in arms]
    marks = [line.get_xdata()[0] for line in ax.lines]
    assert marks == [arm.metrics["ece"].value for arm in arms]
    assert [bar.get_width() for bar in ax.patches] == [0.0173] * 3
    spans = [
        (piece[0][0], piece[1][0])
        for artist in ax.collections
        if isinstance(artist, LineCollection)
        for piece in artist.get_segments()
        if piece[0][1] == piece[1][1]
    ]
    assert spans == [(arm.metrics["ece"].low, arm.metrics["ece"].high) for arm in arms]
    assert ax.get_ylim()[0] > ax.get_ylim()[1]


def test_error_intervals_take_models_and_missing_values(comparison_of) -> None:
    """Models of a comparison are named, and an unknown error is said rather than drawn."""
    ax = error_intervals(comparison_of(num_models=4).models)
    assert len(ax.get_yticklabels()) == 4
    arm = Arm(
        name="a",
        title="A",
        parameters={},
        fit=None,
        metrics={"ece": Estimate(value=None, reason="none")},
        change={},
        null=(NullError(metric="ece", mean=0.01, upper=0.02, p_value=0.5, num_draws=9),),
        curves=(),
        classes=(),
    )
    ax = error_intervals([arm])
    assert [text.get_text().strip() for text in ax.texts] == ["not known"]
    assert not ax.lines


def test_class_errors_draw_the_worst(evaluation_of) -> None:
    rows = evaluation_of(num_classes=40).arms[0].classes
    ax = class_errors(rows, most=5)
    worst = sorted(rows, key=lambda row: -row.ece)[:5]
    assert [bar.get_width() for bar in ax.patches] == [row.ece for row in worst]
    names = [ClassRow(**{**dataclasses.asdict(rows[0]), "name": "$x$_1"})]
    assert class_errors(names).get_yticklabels()[0].get_text() == "$x$_1"


def test_class_shifts_are_coloured_beyond_the_noise_floor() -> None:
    """Hollow before, filled after, in points; bands are noise floors; a shift beyond its own is coloured."""
    row = ClassRow(
        name="cat", count=9, mean_probability=0.2, prevalence=0.1, ece=0.1, auroc=None, accuracy=None,
        noise_floor=0.03,
    )  # fmt: skip
    ax = class_shifts([row], [dataclasses.replace(row, mean_probability=0.12)])
    marks = {
        (line.get_fillstyle(), line.get_color() == figures.VERMILLION): line.get_xdata().tolist()
        for line in ax.lines
        if line.get_marker() == "o" and len(line.get_xdata())
    }
    assert {key: np.round(at, 9).tolist() for key, at in marks.items()} == {
        ("none", True): [10.0],
        ("full", False): [2.0],
    }
    assert [bar.get_width() for bar in ax.patches] == [6.0, 6.0]
    assert ax.get_xlim()[0] < -3 < 10 < ax.get_xlim()[1]


def every_figure(ax: Axes | None, curve: Curve, evaluation: Evaluation) -> list[Axes]:
    """Each figure once, into ``ax``."""
    return [
        reliability_diagram(curve, ax=ax),
        reliability_comparison({"a": curve}, ax=ax),
        confidence_histogram(curve, ax=ax),
        error_intervals(evaluation.arms, ax=ax),
        class_errors(evaluation.arms[0].classes, ax=ax),
        class_shifts(evaluation.arms[0].classes, ax=ax),
    ]


def test_figures_leave_the_world_alone(curve, evaluation_of) -> None:
    import matplotlib.pyplot as plt

    before, known = dict(mpl.rcParams), plt.get_fignums()
    for ax in every_figure(None, curve, evaluation_of()):
        ax.figure.canvas.draw()
    assert plt.get_fignums() == known
    assert dict(mpl.rcParams) == before
    ax = Figure().add_subplot()
    assert all(drawn is ax for drawn in every_figure(ax, curve, evaluation_of()))
