"""What the papers claim, asked of the convolutional network on texts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from papers.arms import ArmRuns
from papers.claims import NOT_CLAIMED, OWN, Claim, Departure
from papers.losses.claims import (
    OF_IMAGES,
    asked,
    at_the_kept_epoch,
    row_question,
)
from papers.losses.settings import FCL, KULL
from papers.paired import Asked, Quantity, enough, in_words
from papers.texts.numbers import arms_of
from papers.texts.settings import (
    BEYOND,
    DECAYED,
    FEWER_EPOCHS,
    NEWSGROUPS,
    SETTINGS,
    Setting,
)


def claims(numbers: Mapping[str, Any]) -> list[Claim]:
    """Those of the study of losses, of each set of texts, where enough seeds are finished."""
    found: list[Claim] = []
    for setting in SETTINGS:
        arms = enough(arms_of(numbers, setting))
        printed = numbers["published"][setting.key]
        found += [
            replace(
                claim,
                key=f"{claim.key}, {setting.key}",
                source=_source(claim),
                statement=_statement(claim, setting),
                evidence=claim.evidence + setting.row.said(printed, row_question(claim)),
                departures=(*claim.departures, *_cut_short(claim, setting), *_beyond(claim, setting)),
            )
            for claim in [*asked(arms), *_decayed(arms), *_at_the_end(arms)]
            if not claim.key.startswith(OF_IMAGES)
        ]
    return found


def _source(claim: Claim) -> str:
    """The paper on FCL compares with cross-entropy that has weight decay, not with that which has none."""
    return OWN if claim.source == FCL and "cross-entropy" in claim.arms else claim.source


def _decayed(arms: Mapping[str, ArmRuns]) -> Iterator[Claim]:
    """What is claimed of cross-entropy with weight decay, which is the cross-entropy of the paper on FCL."""
    names = {DECAYED: "cross-entropy", "cross-entropy": "cross-entropy-no-decay"}
    kept = {*names, "focal-calibration"}
    for claim in asked({names.get(key, key): arm for key, arm in arms.items() if key in kept}):
        if claim.key == "weight-decay" or (claim.source == FCL and claim.key.endswith("-cross-entropy")):
            back = {new: old for old, new in names.items()}
            yield replace(
                claim,
                key=claim.key.replace("-cross-entropy", f"-{DECAYED}"),
                arms=tuple(back.get(key, key) for key in claim.arms),
            )


def _cut_short(claim: Claim, setting: Setting) -> tuple[Departure, ...]:
    """Where training ends early, levels and comparisons of networks as trained may change with more epochs.

    That cross-entropy is over-confident does not: its temperature rises with them. Nor is a comparison after
    temperature scaling left open, which undoes most of what epochs do to a network's confidence.
    """
    rests = claim.key.startswith(("no-cost-", "temperature-", "best-gamma-")) or "-before" in claim.key
    is_theirs = claim.source not in {OWN, NOT_CLAIMED}
    return (FEWER_EPOCHS,) if setting is NEWSGROUPS and rests and is_theirs else ()


def _beyond(claim: Claim, setting: Setting) -> Iterator[Departure]:
    """Where the paper does not have the texts."""
    for paper, departure in BEYOND.items():
        if claim.source.startswith(paper) and (paper == KULL or setting is not NEWSGROUPS):
            yield departure


def _statement(claim: Claim, setting: Setting) -> str:
    """With the texts, and cross-entropy's weight decay behind them."""
    said = at_the_kept_epoch(claim)
    if claim.key.endswith(f"-{DECAYED}"):
        said = said.replace("cross-entropy, weight decay", "cross-entropy")
        return f"{said} (on {setting.title}, against weight decay)"
    return f"{said} (on {setting.title})"


_LAST = Quantity(pick=lambda run: run["temperatures"][-1], digits=3)


def _at_the_end(arms: Mapping[str, ArmRuns]) -> Iterator[Claim]:
    """Temperatures after the last epoch: the epoch that is kept differs by run, and T changes with it."""
    plain = arms.get("cross-entropy")
    for key in ("focal-3", "sample-focal", "focal-calibration"):
        if key in arms:
            title = in_words(arms[key].title)
            statement = f"After the last epoch {title} needs a lower temperature than cross-entropy"
            yield from Asked(key=f"end-{key}", source=OWN, statement=statement).lower(arms[key], plain, _LAST)
    if plain is not None and any(run["kept_epoch"] < len(run["temperatures"]) for run in plain.runs.values()):
        yield from Asked(
            key="end-over-confident",
            source=OWN,
            statement="After the last epoch cross-entropy needs a temperature above 1",
        ).between(plain, _LAST, low=1.0)
