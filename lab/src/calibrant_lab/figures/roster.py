"""The laboratory's figures by name: panels of the papers' theory, or of a file."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from calibrant.reports.figures.drawing import drawing_style
from calibrant.reports.file_figures import DrawnFigure, FigureRequest, FileFigure
from calibrant_lab.figures import curves
from calibrant_lab.figures.curves import boundary_figure


@dataclass(frozen=True, kw_only=True)
class TheoryFigure:
    """A figure that one command draws."""

    name: str
    summary: str
    panels: tuple[Callable[[Axes], None], ...] = ()
    whole: Callable[[], Figure] | None = None  # draws it where it has no panels
    note: str = ""  # the exact values, where those of the published caption cannot be reproduced

    def draw(self) -> Figure:
        if self.whole is not None:
            return self.whole()
        rows = -(-len(self.panels) // 2)
        with drawing_style():
            figure = Figure(figsize=(8.4, 3.6 * rows), layout="constrained")
            for place, panel in enumerate(self.panels, 1):
                panel(figure.add_subplot(rows, 2, place))
        return figure


def _by_gamma(panel: Callable[..., None], *gammas: float) -> tuple[Callable[..., None], ...]:
    return tuple(functools.partial(panel, gamma=gamma) for gamma in gammas)


def _draw_landscape(request: FigureRequest) -> DrawnFigure:
    from calibrant_lab.figures.landscape_heat_map import draw_landscape  # its searches take time to import

    return draw_landscape(request)


_MUKHOTI = "Mukhoti et al. 2020, figure"
_PAPER = "Komisarenko and Kull 2024, figure"
_FCL = "focal calibration loss 2025, figure"

FIGURES = (
    TheoryFigure(
        name="gradient-factor",
        summary=f"Focal loss's gradient over cross-entropy's, and where it is 1 ({_MUKHOTI} 4a).",
        panels=(curves.gradient_factors, curves.gradient_thresholds),
        note="g(0.19, 5), which the text takes for 1, is 1.028; g(0.19, gamma) = 1 at gamma = 5.34.",
    ),
    TheoryFigure(
        name="focal-minimisers",
        summary=f"The probability that focal loss elicits, and the entropy it adds ({_MUKHOTI} 7).",
        panels=(curves.elicited_probabilities, curves.entropy_shifts),
        note="The text says that focal loss's minimiser always has the higher entropy: so it is for two "
        "classes, but not for a low top probability among twenty or a hundred.",
    ),
    TheoryFigure(
        name="focal-decomposition",
        summary=f"The proper part of focal loss, and the focal calibration map ({_PAPER} 1).",
        panels=(curves.proper_part_curves, curves.focal_map_curves),
    ),
    TheoryFigure(
        name="temperature-binary",
        summary=f"The closest temperature of two classes, and the map beside it ({_PAPER} 2).",
        panels=(
            functools.partial(curves.temperature_line, num_classes=2, num_gammas=20, published=(0.95, 0.85)),
            curves.log_odds_maps,
        ),
        note="The caption's T = 0.76 and 0.36 for gamma = 0.5 and 3 are not the closest of two classes: "
        "those are 0.731 and 0.276. The published line gives 0.755 and 0.364 for gamma = 0.5 and 2. The line "
        "depends on the range of gamma.",
    ),
    TheoryFigure(
        name="temperature-bounds",
        summary=f"Temperatures between which the binary map lies ({_PAPER} 3).",
        panels=(curves.temperature_bound_curves, curves.temperature_bound_widths),
        note="The published tight bounds (gamma = 4: 0.206) are those of log-odds up to 10, drawn here, not "
        "of 20 (0.203).",
    ),
    TheoryFigure(
        name="proper-isolines",
        summary=f"Lines of equal expected loss around (0.55, 0.30, 0.15) ({_PAPER} 4).",
        panels=(
            functools.partial(curves.risk_isolines, loss="brier"),
            functools.partial(curves.risk_isolines, loss="cross-entropy"),
            *_by_gamma(curves.risk_isolines, 1.0, 3.0),
        ),
    ),
    TheoryFigure(
        name="focal-arrows",
        summary=f"Where the focal map and its closest temperature take three probabilities ({_PAPER} 5).",
        panels=(
            *_by_gamma(curves.map_arrows, 1.0, 3.0),
            *_by_gamma(curves.closest_temperature_arrows, 1.0, 3.0),
        ),
        note="The caption's T = 0.81 and 0.46 are what the published line gives for gamma = 0.5 and 2; the "
        "closest for 1 and 3 are 0.658 and 0.357.",
    ),
    TheoryFigure(
        name="temperature-ternary",
        summary=f"The closest temperature of three classes and its error ({_PAPER} 6).",
        panels=(
            functools.partial(curves.temperature_line, num_classes=3, num_gammas=10, published=(0.64, 0.91)),
            curves.temperature_errors,
        ),
        note="Over gamma up to 10 the line is 0.650 gamma + 0.85; the published one is nearer to that of "
        "gamma up to 5.",
    ),
    TheoryFigure(
        name="temperature-differences",
        summary=f"Focal map against its closest temperature over the triangle ({_PAPER} 7).",
        panels=_by_gamma(curves.temperature_differences, 0.5, 3.0),
        note="The text sees the largest differences near the corners; they lie along the sides and around "
        "the centre, and vanish at the corners.",
    ),
    TheoryFigure(
        name="confidence-regions",
        summary="Top probabilities that the focal map raises or lowers, by the number of classes.",
        panels=_by_gamma(curves.confidence_regions, 1.0, 3.0),
        note="The published proposition 5 says that every top probability is raised.",
    ),
    TheoryFigure(
        name="fcl-phi",
        summary=f"Focal calibration loss: phi and its root, and what the loss elicits ({_FCL} 5).",
        panels=(curves.phi_curves, curves.elicited_by_weight),
        note="A root is claimed for all options; for gamma = 0 there is none up to a weight of 1/2. Strict "
        "properness is claimed for every positive weight; no curve on the right reaches the truth.",
    ),
    TheoryFigure(
        name="fcl-boundaries",
        summary=f"What a small network learns with focal and with focal calibration loss ({_FCL} 7).",
        whole=boundary_figure,
        note="The paper does not name its points beyond two classes and noise 0.2; these are half-moons. "
        "With gamma = 10 focal loss leaves the network unsure (mean confidence about 0.7, accuracy 0.96). "
        "The squared distance makes it as sure as it is right; the boundary among the points is much the "
        "same.",
    ),
    FileFigure(
        name="landscape",
        summary="The objective of focal temperature scaling over exponent and temperature, for a FILE of "
        "predictions.",
        draw_files=_draw_landscape,
        options=frozenset({"objective", "label", "every_row", "resamples", "seed"}),
    ),
)
