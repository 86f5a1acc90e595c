"""Whether repairs keep their promise under shift, and which losses tell foreign images."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from calibrant.experiments.claims import NOT_CLAIMED, OWN, Claim, above, all_of, below, compared
from calibrant.experiments.means import mean_of, paired_difference, plus_minus
from calibrant.experiments.pages import listed
from calibrant.experiments.published import facts
from calibrant.experiments.studies.shift.numbers import (
    auroc,
    corruptions_of,
    effect,
    farthest_from_clean,
    foreign_sets,
    largest,
    rise,
    runs_of_loss,
)
from calibrant.experiments.studies.shift.settings import (
    AS_TRAINED,
    CORRUPTED,
    CORRUPTED_CIFAR,
    CROSS_ENTROPY,
    FCL,
    FLSD,
    IN_SENTENCES,
    LARGEST,
    PAPER_FCL,
    SEVERITIES,
    SHORT,
    SVHN,
    TABLE_4,
    TITLES,
)

TEMPERATURE = "temperature"
PROMISES = (
    (OWN, TEMPERATURE, AS_TRAINED),
    (OWN, "vector", TEMPERATURE),
    (NOT_CLAIMED, "focal-temperature", TEMPERATURE),
)
"""Source, and the calibrator that is claimed to have the lower ECE."""
_TELLS = (("flsd", FLSD, CROSS_ENTROPY), *(("fcl", FCL, other) for other in TITLES if other != FCL))
"""The loss that is claimed to tell foreign images better."""


def claims(numbers: Mapping[str, Any]) -> list[Claim]:
    """Calibrators after every loss, what shift does to them, and losses."""
    runs = {loss: runs_of_loss(numbers, loss) for loss in TITLES}
    known = {loss: found for loss, found in runs.items() if found}
    return [
        *(claim for loss, found in known.items() for claim in _promises(loss, found)),
        *(claim for loss, found in known.items() for claim in _shifted(loss, found)),
        *(_corrupted(known[CROSS_ENTROPY]) if CROSS_ENTROPY in known else ()),
        *_tells(numbers),
    ]


def key_of(first: str, second: str, loss: str, severity: int) -> str:
    """The name of a claim about two calibrators after a loss."""
    after = "" if loss == CROSS_ENTROPY else f", after {SHORT[loss]}"
    return f"{first} against {second}, severity {severity}{after}"


def _promises(loss: str, runs: Mapping[int, Mapping[str, Any]]) -> Iterator[Claim]:
    """Two calibrators after a loss, at every severity."""
    for source, first, second in PROMISES:
        for place, severity in enumerate(SEVERITIES):
            gap, words = compared(
                *(
                    (IN_SENTENCES[stage], [run["severities"][stage][place]["ece"] for run in runs.values()])
                    for stage in (first, second)
                ),
                scale=100,
                unit=" %",
            )
            one = largest(runs, place, first, second)
            others = plus_minus(effect(runs, place, first, second, without=one), 2, 100, signed=True)
            yield Claim(
                key=key_of(first, second, loss, severity),
                source=source,
                statement=f"Fitted on clean images after {TITLES[loss]}, {IN_SENTENCES[first]} has a lower "
                f"ECE than {IN_SENTENCES[second]} on corrupted ones (severity {severity})",
                verdict=below(gap),
                evidence=f"{words} ({others} without {one}, which differs most), n = {gap.n} seeds",
                arms=(first, second),
            )


def _shifted(loss: str, runs: Mapping[int, Mapping[str, Any]]) -> Iterator[Claim]:
    """What is left of temperature scaling after a loss, and on which side it errs."""
    title, most = TITLES[loss], SEVERITIES[-1]
    shifted = [run["severities"][TEMPERATURE][-1]["ece"] for run in runs.values()]
    clean = [run["clean_shown"][TEMPERATURE]["ece"] for run in runs.values()]
    yield Claim(
        key=f"above-clean, {SHORT[loss]}",
        source=OWN,
        statement=f"After {title} and temperature scaling the ECE at severity {most}, mean over corruptions, "
        "is above that of the same images when clean",
        verdict=above(paired_difference(shifted, clean)),
        evidence=f"{_against(shifted, clean)} ({_without(runs)})",
    )
    gaps = [
        mean_of([run["severities"][TEMPERATURE][place]["gap"] for run in runs.values()])
        for place in range(len(SEVERITIES))
    ]
    said = ", ".join(plus_minus(each, 2, 100, signed=True) for each in gaps)
    yield Claim(
        key=f"under-confident, {SHORT[loss]}",
        source=OWN,
        statement=f"After {title} and temperature scaling networks are under-confident on corrupted images "
        "at every severity",
        verdict=all_of(below(each) for each in gaps),
        evidence=f"mean confidence less accuracy at severities {SEVERITIES[0]} to {most}, mean over "
        f"corruptions: {said} points, n = {len(runs)} seeds",
    )


def _corrupted(runs: Mapping[int, Mapping[str, Any]]) -> Iterator[Claim]:
    """Each corruption by itself, after cross-entropy and temperature scaling."""
    clean = [run["clean_shown"][TEMPERATURE]["ece"] for run in runs.values()]
    for name in corruptions_of(runs):
        found = [run["corruptions"][name][TEMPERATURE][-1] for run in runs.values()]
        yield Claim(
            key=f"above-clean, {SHORT[CROSS_ENTROPY]}, {name}",
            source=OWN,
            statement=f"After {TITLES[CROSS_ENTROPY]} and temperature scaling the ECE under {name}, severity "
            f"{SEVERITIES[-1]}, is above that of the same images when clean",
            verdict=above(paired_difference(found, clean)),
            evidence=_against(found, clean),
        )


def _without(runs: Mapping[int, Mapping[str, Any]]) -> str:
    """The rise above clean without the corruption that differs most, and without several."""
    names = farthest_from_clean(runs, TEMPERATURE, LARGEST)
    one, several = (
        plus_minus(rise(runs, TEMPERATURE, names[:number]), 2, 100, signed=True) for number in (1, LARGEST)
    )
    return f"{one} without {names[0]}, {several} without {listed(names)}, which differ most"


def _against(shifted: Sequence[float], clean: Sequence[float]) -> str:
    gap = paired_difference(shifted, clean)
    return (
        f"{plus_minus(mean_of(shifted), 2, 100)} % against {plus_minus(mean_of(clean), 2, 100)} % when "
        f"clean, difference {plus_minus(gap, 2, 100, signed=True)}, n = {gap.n} seeds"
    )


def _tells(numbers: Mapping[str, Any]) -> Iterator[Claim]:
    for key, first, second in _TELLS:
        for foreign, title in foreign_sets(len(numbers["corruptions"])).items():
            ours, theirs = runs_of_loss(numbers, first), runs_of_loss(numbers, second)
            shared = [seed for seed in ours if seed in theirs]
            if not shared:
                continue
            source, of_table = in_table(second, foreign) if first == FCL else (OWN, "")
            gap, words = compared(
                *(
                    (TITLES[loss], [auroc(runs[seed], foreign, AS_TRAINED) for seed in shared])
                    for loss, runs in ((first, ours), (second, theirs))
                ),
                scale=100,
            )
            yield Claim(
                key=f"foreign, {key} against {second}, {foreign}",
                source=source,
                statement=f"{TITLES[first]} tells {title} from test images better than {TITLES[second]} "
                "(AUROC of the top probability, as trained)",
                verdict=above(gap),
                evidence=f"AUROC × 100: {words}, n = {gap.n} seeds{of_table}",
                arms=(first, second),
            )


def in_table(other: str, foreign: str) -> tuple[str, str]:
    """Who says that FCL is the better one, and the rows of table 4 that do, or do not."""
    if other not in TABLE_4:
        return OWN, ""
    rows = CORRUPTED_CIFAR if foreign == CORRUPTED else SVHN
    led, of = led_in_table([TABLE_4[other]], rows)
    said = f"; in the paper's table 4 FCL is above it in {led} of {of} rows of {rows}, as trained"
    return (PAPER_FCL if led > of / 2 else OWN), said


def led_in_table(others: Collection[str], rows: str) -> tuple[int, int]:
    """In how many of such rows of table 4 FCL's AUROC as trained is above all these, and of how many.

    Example:
        >>> led_in_table(["label-smoothing"], SVHN), led_in_table(["brier"], SVHN)
        ((4, 4), (2, 4))
    """
    table: dict[str, dict[str, float]] = {}
    for fact in facts("focal-calibration-loss-2025"):
        if (fact.table, fact.stage, fact.dataset) == ("4", "pre", rows):
            table.setdefault(fact.model, {})[fact.method] = float(fact.value)
    led = [row["focal-calibration"] > max(row[other] for other in others) for row in table.values()]
    return sum(led), len(led)
