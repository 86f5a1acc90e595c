"""What the figures without bins draw."""

import numpy as np
import pytest

from calibrant import InputError
from calibrant import metrics as m
from calibrant.evaluation.result import Band, Witness
from calibrant.reports import (
    corp_diagram,
    risk_coverage_diagram,
    roc_diagram,
    smooth_diagram,
    witness_diagram,
)

PROBS, LABELS = [0.25, 0.5, 0.625, 0.875], [0, 1, 0, 1]


def lines(ax) -> list[list[tuple[float, float]]]:
    return [[(float(x), float(y)) for x, y in line.get_xydata()] for line in ax.lines]


def test_the_corp_diagram_draws_the_steps() -> None:
    """The line goes through both ends of every step; bars count the samples; the band is filled."""
    curve = m.corp_reliability_curve(PROBS, LABELS)
    ax = corp_diagram(curve, band=Band(positions=(0.2, 0.8), low=(0.1, 0.6), high=(0.3, 0.9)))
    assert lines(ax)[1] == [(0.25, 0), (0.25, 0), (0.5, 0.5), (0.625, 0.5), (0.875, 1), (0.875, 1)]
    heights = [bar.get_height() for bar in ax.patches]
    assert np.allclose(np.array(heights) / max(heights), [0.5, 1, 0.5])
    assert len(ax.collections) == 1
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert texts == ["calibrated", "band: noise", "found"]


def test_several_models_are_named_and_drawn_apart() -> None:
    for diagram, curve in (
        (corp_diagram, m.corp_reliability_curve(PROBS, LABELS)),
        (smooth_diagram, m.smooth_reliability_curve(PROBS, LABELS)),
        (risk_coverage_diagram, m.risk_coverage_curve(PROBS, LABELS)),
        (roc_diagram, m.roc_curve(PROBS, LABELS)),
    ):
        ax = diagram({"_a": curve, "b $x$": curve})
        drawn = [line for line in ax.lines if line.get_color() != "#808080"]
        assert len({line.get_color() for line in drawn}) == 2
        shown = " ".join(text.get_text() for text in ax.get_legend().get_texts())
        assert "_a" in shown
        assert "b $x$" in shown
        with pytest.raises(InputError, match="at least one curve"):
            diagram({})
    curves = dict.fromkeys("ab", m.corp_reliability_curve(PROBS, LABELS))
    with pytest.raises(InputError, match="`band` belongs to one curve"):
        corp_diagram(curves, band=Band(positions=(), low=(), high=()))


def test_the_witness_is_filled_from_zero() -> None:
    """What lies above zero and what lies below are filled apart, and meet where the function crosses."""
    ax = witness_diagram(Witness(value=0.2, points=(0.1, 0.9), values=(0.4, -0.4)))
    above, below = (collection.get_paths()[0].vertices for collection in ax.collections)
    assert (above[:, 1].min(), above[:, 1].max()) == (0, 0.4)
    assert (below[:, 1].min(), below[:, 1].max()) == (-0.4, 0)
    assert above[above[:, 1] == 0, 0].min() == pytest.approx(0.1)
    assert any(np.isclose(above[:, 0], 0.5))
    assert ax.get_title() == "smCE 0.2000"


def test_risk_against_coverage_shows_the_best_order() -> None:
    """The dotted line is at zero while right answers last, and ends at the overall error rate."""
    ax = risk_coverage_diagram(m.selective_risk_curve([0.9, 0.8, 0.7, 0.6], [0, 1, 0, 0]))
    found, best = lines(ax)
    assert found == [(0, 0), (0.25, 0), (0.5, 0.5), (0.75, 1 / 3), (1, 0.25)]
    assert best[1] == (0.75, 0)
    assert best[-1] == pytest.approx((1, 0.25))


def test_the_roc_diagram_draws_the_rates() -> None:
    curve = m.roc_curve([0.1, 0.4, 0.4, 0.8], [0, 0, 1, 1])
    assert lines(roc_diagram(curve))[1] == [(0, 0), (0, 0.5), (0.5, 1), (1, 1)]
    ax = roc_diagram(m.roc_curve(PROBS, LABELS))
    assert witness_diagram(m.smooth_calibration_witness(PROBS, LABELS), ax=ax) is ax
