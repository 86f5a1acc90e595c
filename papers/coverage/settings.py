"""Settings of the coverage study."""

from __future__ import annotations

from dataclasses import dataclass

ERRORS = (
    "ece",
    "classwise_ece",
    "smce",
    "adaptive_ece",
    "l2_ece",
    "mce",
    "kolmogorov_smirnov",
    "over_confidence_error",
    "under_confidence_error",
    "smooth_ece",
)
"""Keys of the quantities, in the order of the page."""
ASKED_FOR = ("over_confidence_error", "under_confidence_error", "kolmogorov_smirnov", "smooth_ece")
"""What is measured beside the usual quantities."""
RARE = ("kolmogorov_smirnov", "smooth_ece")
"""What is measured on few sets."""
SLOW = "smooth_ece"
"""What takes longer than all others together, and is measured on fewer still."""
AIMED_AT = ("ece", "classwise_ece", "smce")
"""Whose intervals and false alarms are held against the aims."""
LEAST_COVERAGE, MEAN_COVERAGE = 0.91, 0.94
MOST_ALARMS, MEAN_ALARMS = 0.08, 0.055
"""The aims: at least, and at most, in every cell and on average."""

FILES = (
    "logits_eurosat_rgb/eurosat_rgb.npz",
    "logits_netcal_cifar/lenet-5-cifar-10.npz",
    "logits_netcal_cifar/wideresnet-16-4-cifar-100.npz",
    "logits_valtest_noisycal/ham10000.npz",
    "probs_pycalib_small/kitti_1layer_NN.npz",
    "probs_ecg_chagas/ecg_chagas.npz",
)
"""Real predictions, below the folder of the data."""

MOST_PROBABILITIES = 30_000_000
"""Drawn for a true error."""


@dataclass(frozen=True, kw_only=True)
class Method:
    """How a set is made and judged; what is recorded is known by it."""

    spread: float = 1.5
    """Standard deviation of the logits."""
    num_bins: int = 15
    num_draws: int = 400
    level: float = 0.95
    sets: int = 20
    """Test sets of a batch."""
    rarely: int = 5
    """The first set of a batch gets the centred bootstrap and the rare errors too; the slow one in every
    fifth batch only."""
    resamples: int = 200
    truth_samples: int = 1_000_000
    """Fewer where they would have more probabilities than `MOST_PROBABILITIES`."""
    bandwidth: float = 0.5
    """The bandwidth of the kernel that smooths real outcomes, in log-odds."""
    changed_sets: int = 2
    """Test sets of a batch for differences."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """The grid of cells."""

    method: Method = Method()
    classes: tuple[int, ...] = (2, 5, 10, 100)
    samples: tuple[int, ...] = (200, 1000, 5000)
    scales: tuple[float, ...] = (1.0, 1.05, 1.15, 1.3, 1.6)
    files: tuple[str, ...] = FILES
    file_samples: int = 1000
    alarm_sets: int = 60
    """Further test sets of a batch in each cell whose truth is stated, for alarms alone."""
    changed_classes: tuple[int, ...] = (2, 10)
    changes: tuple[tuple[float, float], ...] = ((1.05, 1.0), (1.3, 1.0), (1.6, 1.15), (1.0, 1.3))
    """Scales before and after, on the same samples."""
    compared: tuple[tuple[float, float], ...] = ((1.0, 1.3), (1.3, 1.3), (1.3, 1.0))
    """Scales of one model and of another, on the same samples; not of two classes."""


DEFAULT = Setting()
