"""Draw the README's picture: the demo's classifier before and after repair.

Run: ``python docs/images/demo.py``.
"""

from __future__ import annotations

from pathlib import Path

from matplotlib.figure import Figure

import calibrant
from calibrant.demo.run import train_on_digits
from calibrant.reports import reliability_diagram


def main() -> None:
    """Train, evaluate, draw."""
    evaluation = calibrant.evaluate(train_on_digits(seed=0))
    arms = (evaluation.arm("uncalibrated"), evaluation.arm(evaluation.verdict.recommended))
    figure = Figure(figsize=(9.6, 5.6), layout="constrained", dpi=110)
    for arm, ax in zip(arms, figure.subplots(1, 2), strict=True):
        reliability_diagram(arm.curves[0], ax=ax, legend=arm is arms[0])
        legend = ax.get_legend()
        if legend is not None:  # below both diagrams, where it covers no interval
            labels = [text.get_text() for text in legend.get_texts()]
            figure.legend(legend.legend_handles, labels, loc="outside lower center", ncols=4, frameon=False)
            legend.remove()
        ece = arm.metrics["ece"]
        ax.set_title(
            f"{arm.title}\ncalibration error {ece.value:.3f} ({ece.low:.3f} to {ece.high:.3f})", pad=8
        )
    figure.savefig(Path(__file__).with_suffix(".png"), facecolor="white")


if __name__ == "__main__":
    main()
