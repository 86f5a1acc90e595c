"""The tables of the page on shift."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from calibrant.experiments.claims import Claim, above, below
from calibrant.experiments.means import Mean, mean_of, paired_difference, plus_minus
from calibrant.experiments.pages import listed, table
from calibrant.experiments.paired import claims_table, tally_sentence
from calibrant.experiments.published import facts
from calibrant.experiments.studies.shift.claims import PROMISES, TEMPERATURE, claims, led_in_table
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
    IN_SENTENCES,
    LARGEST,
    NUM_CORRUPTIONS,
    SCORES,
    SEVERITIES,
    SHORT,
    STAGES,
    SVHN,
    TABLE_4,
    TITLES,
)


def words(numbers: Mapping[str, Any]) -> dict[str, Any]:
    """What the page needs beyond the numbers."""
    done = sum(len(arm["runs"]) for arm in numbers["arms"])
    per_run = numbers["cpu_seconds"] / done
    counts = [len(arm["runs"]) for arm in numbers["arms"]]
    found = claims(numbers)
    return {
        "done": done,
        "seeds": max(counts),
        "seeds_each": f"{counts[0]} seeds each" if len({*counts}) == 1 else f"up to {max(counts)} seeds",
        "minutes": per_run / 60,
        "hours": numbers["cpu_seconds"] / 3600,
        "left_hours": (numbers["wanted"] - done) * per_run / 3600,
        "corruptions": listed(numbers["corruptions"]),
        "kinds": len(numbers["corruptions"]),
        "all_kinds": len(numbers["corruptions"]) == NUM_CORRUPTIONS,
        "in_table": {rows: _in_table(rows) for rows in (SVHN, CORRUPTED_CIFAR)},
        "highest": {rows: led_in_table(TABLE_4.values(), rows) for rows in (SVHN, CORRUPTED_CIFAR)},
        "in_paper": _exponents_in_paper(),
        "readings": _readings(numbers),
        "promise": {TITLES[arm["loss"]]: _promise(arm["runs"]) for arm in numbers["arms"]},
        "effects": _effects(numbers),
        "repaired": _tally(numbers, TEMPERATURE, AS_TRAINED),
        "left": _said_of(found, "above-clean"),
        "left_without": _left_without(numbers),
        "most": LARGEST,
        "left_under": _said_of(found, "above-clean", each=True),
        "under": _said_of(found, "under-confident"),
        "gaps": _gaps(numbers),
        "sides": _sides(numbers),
        "turned": _turned(numbers),
        "worst": _worst(numbers),
        "told": {title: _told(numbers, score) for score, title in SCORES.items()},
        "tally": tally_sentence(found),
        "claim_table": claims_table(found),
    }


def _promise(runs: Sequence[Mapping[str, Any]]) -> str:
    """ECE of every calibrator on clean images and by severity."""
    rows = [
        [
            title,
            *(
                plus_minus(mean_of([run[clean][stage]["ece"] for run in runs]), 2, 100)
                for clean in ("clean", "clean_shown")
            ),
            *(
                plus_minus(mean_of([run["severities"][stage][place]["ece"] for run in runs]), 2, 100)
                for place in range(len(SEVERITIES))
            ),
        ]
        for stage, title in STAGES.items()
    ]
    errors = [
        mean_of([run[clean][AS_TRAINED]["error"] for run in runs]) for clean in ("clean", "clean_shown")
    ]
    errors += [
        mean_of([run["severities"][AS_TRAINED][place]["error"] for run in runs])
        for place in range(len(SEVERITIES))
    ]
    rows.append(["*error*", *(plus_minus(each, 2, 100) for each in errors)])
    heads = ["ECE %", "clean, all", "clean, the same", *(f"severity {severity}" for severity in SEVERITIES)]
    return table(heads, rows)


def _effects(numbers: Mapping[str, Any]) -> str:
    """The ECE after temperature scaling less that as trained, with and without one corruption."""
    rows: list[list[str]] = []
    for loss, title in TITLES.items():
        runs = runs_of_loss(numbers, loss)
        if not runs:
            continue
        names = [largest(runs, place, TEMPERATURE, AS_TRAINED) for place in range(len(SEVERITIES))]
        for said, without in ((f"{title}", [""] * len(SEVERITIES)), ("… without the largest", names)):
            found = [
                effect(runs, place, TEMPERATURE, AS_TRAINED, without=name)
                for place, name in enumerate(without)
            ]
            cells = [
                f"{plus_minus(each, 2, 100, signed=True)}{f' ({name})' if name else ''}"
                for each, name in zip(found, without, strict=True)
            ]
            rows.append([said, *cells])
    return table(["loss", *(f"severity {severity}" for severity in SEVERITIES)], rows)


def _tally(numbers: Mapping[str, Any], first: str, second: str) -> list[str]:
    """At which severities a calibrator lowers or raises the ECE, loss by loss."""
    said: list[str] = []
    for loss, title in TITLES.items():
        runs = runs_of_loss(numbers, loss)
        if not runs:
            continue
        places = range(len(SEVERITIES))
        names = [largest(runs, place, first, second) for place in places]
        whole = _by_verdict(below(effect(runs, place, first, second)) for place in places)
        less = _by_verdict(
            below(effect(runs, place, first, second, without=name))
            for place, name in zip(places, names, strict=True)
        )
        same = "the same without that corruption"
        said.append(f"{title}: {whole}; {same if less == whole else f'without that corruption {less}'}")
    return said


def _by_verdict(verdicts: Iterable[str]) -> str:
    """At which severities an ECE is lower, higher or undecided."""
    found = dict(zip(SEVERITIES, verdicts, strict=True))
    return ", ".join(
        f"{word} at {', '.join(str(severity) for severity, each in found.items() if each == verdict)}"
        for verdict, word in (("holds", "lower"), ("does not hold", "higher"), ("undecided", "undecided"))
        if verdict in found.values()
    )


def _turned(numbers: Mapping[str, Any]) -> str:
    """How many verdicts on calibrators change if some one corruption is left out."""
    places, changed, of = range(len(SEVERITIES)), dict[str, int](), 0
    for loss in TITLES:
        if not (runs := runs_of_loss(numbers, loss)):
            continue
        for _, first, second in PROMISES:
            for place in places:
                whole = below(effect(runs, place, first, second))
                words = (
                    below(effect(runs, place, first, second, without=name)) for name in corruptions_of(runs)
                )
                pair = f"{IN_SENTENCES[first]} against {IN_SENTENCES[second]}"
                changed[pair] = changed.get(pair, 0) + any(word != whole for word in words)
                of += 1
    each = listed(f"{number} on {pair}" for pair, number in changed.items())
    all_changed = f"{sum(changed.values())} of {of} verdicts on calibrators"
    return f"{all_changed} change if some one corruption is left out: {each}"


def _in_sentence(loss: str) -> str:
    """A loss without the comma of its title.

    Example:
        >>> _in_sentence("focal(gamma=3)"), _in_sentence("brier")
        ('focal (γ = 3)', 'Brier')
    """
    name, _, setting = TITLES[loss].partition(", ")
    return f"{name} ({setting})" if setting else name


def _in_table(rows: str) -> str:
    """In how many such rows of the paper's table 4 FCL is above each other loss."""
    return listed(
        f"{led_in_table([name], rows)[0]} against {_in_sentence(loss)}" for loss, name in TABLE_4.items()
    )


def _exponents_in_paper() -> str:
    """γ and λ of FCL's networks on CIFAR-10, by the paper's table 5."""
    table: dict[str, dict[str, str]] = {}
    for fact in facts("focal-calibration-loss-2025"):
        if (fact.table, fact.dataset) == ("5", "CIFAR-10"):
            table.setdefault(fact.model, {})[fact.metric] = fact.value
    return listed(
        f"γ = {float(each['gamma']):g} and λ = {float(each['lambda']):g} for {model}"
        for model, each in table.items()
    )


def _readings(numbers: Mapping[str, Any]) -> dict[str, str]:
    """How much hangs on the score and the stage by which FCL is compared."""
    whens = {AS_TRAINED: "as trained", TEMPERATURE: "after T"}
    readings = {
        f"{title} {when}": (score, stage) for score, title in SCORES.items() for stage, when in whens.items()
    }
    ours = runs_of_loss(numbers, FCL)
    words: dict[str, list[str]] = {said: [] for said in readings}
    shown: list[str] = []
    for other in TITLES:
        theirs = runs_of_loss(numbers, other)
        shared = [seed for seed in ours if seed in theirs]
        if other == FCL or not shared:
            continue
        for foreign in foreign_sets(len(numbers["corruptions"])):
            for said, (score, stage) in readings.items():
                gap = paired_difference(
                    *(
                        [auroc(runs[seed], foreign, stage, score) for seed in shared]
                        for runs in (ours, theirs)
                    )
                )
                words[said].append(above(gap))
                if (other, foreign) == (CROSS_ENTROPY, CORRUPTED):
                    shown.append(f"{plus_minus(gap, 2, 100, signed=True)} ({said})")
    first, *others = words.items()
    changed = {
        said: sum(one != two for one, two in zip(first[1], found, strict=True)) for said, found in others
    }
    return {
        "changed": listed(f"{number} by the {said}" for said, number in changed.items()),
        "of": str(len(first[1])),
        "shown": listed(shown),
    }


def _said_of(claims: Sequence[Claim], start: str, *, each: bool = False) -> str:
    """The verdicts on claims whose names begin so, with the losses or the corruptions they are about."""
    found: dict[str, list[str]] = {}
    titles = {short: _in_sentence(loss) for loss, short in SHORT.items()}
    for claim in claims:
        name, _, about = claim.key.partition(", ")
        after, _, corruption = about.partition(", ")
        if name == start and bool(corruption) == each:
            found.setdefault(str(claim.verdict), []).append(corruption or titles[after])
    return _told_apart(found, "corruptions" if each else "losses")


def _told_apart(found: Mapping[str, Collection[str]], kind: str = "losses") -> str:
    """Words, each with what it is said of."""
    if len(found) == 1:
        ((word, names),) = found.items()
        return f"*{word}* for all {len(names)} {kind}"
    return "; ".join(f"*{word}* for {listed(names)}" for word, names in found.items())


def _left_without(numbers: Mapping[str, Any]) -> str:
    """Whether the ECE is still above the clean one without the corruptions that differ most."""
    found: dict[str, list[str]] = {}
    for loss in TITLES:
        if runs := runs_of_loss(numbers, loss):
            names = farthest_from_clean(runs, TEMPERATURE, LARGEST)
            found.setdefault(above(rise(runs, TEMPERATURE, names)), []).append(_in_sentence(loss))
    return _told_apart(found)


def _gaps_of(runs: Iterable[Mapping[str, Any]], stage: str) -> list[Mean]:
    """Mean confidence less accuracy when clean and by severity."""
    each = list(runs)
    return [
        mean_of([run["clean_shown"][stage]["gap"] for run in each]),
        *(
            mean_of([run["severities"][stage][place]["gap"] for run in each])
            for place in range(len(SEVERITIES))
        ),
    ]


def _gaps(numbers: Mapping[str, Any]) -> str:
    """Mean confidence less accuracy as trained and after temperature scaling, with the temperature."""
    rows: list[list[str]] = []
    for arm in numbers["arms"]:
        temperature = plus_minus(mean_of([run["temperature"] for run in arm["runs"]]), 2)
        for loss, fitted, stage in (
            (TITLES[arm["loss"]], "–", AS_TRAINED),
            ("… after temperature scaling", temperature, TEMPERATURE),
        ):
            cells = [plus_minus(each, 2, 100, signed=True) for each in _gaps_of(arm["runs"], stage)]
            rows.append([loss, fitted, *cells])
    return table(["loss", "T", "clean", *(f"severity {severity}" for severity in SEVERITIES)], rows)


def _sides(numbers: Mapping[str, Any]) -> list[str]:
    """What a temperature does to mean confidence less accuracy on corrupted images, beyond noise."""
    turns, adds, takes = (dict[str, list[int]]() for _ in range(3))
    for loss in TITLES:
        if not (runs := runs_of_loss(numbers, loss)):
            continue
        soft = above(mean_of([run["temperature"] for run in runs.values()]), 1.0)
        before, after = (_gaps_of(runs.values(), stage)[1:] for stage in (AS_TRAINED, TEMPERATURE))
        for severity, trained, scaled in zip(SEVERITIES, before, after, strict=True):
            if below(trained) == "holds" and soft != "undecided":
                (adds if soft == "holds" else takes).setdefault(loss, []).append(severity)
            elif above(trained) == below(scaled) == "holds":
                turns.setdefault(loss, []).append(severity)
    return [
        listed(f"{_in_sentence(loss)} at {_severities(at)}" for loss, at in of.items())
        for of in (turns, adds, takes)
    ]


def _severities(found: Sequence[int]) -> str:
    """Severities as a sentence names them.

    Example:
        >>> _severities([1, 2, 3, 4, 5]), _severities([1, 2]), _severities([1])
        ('every severity', 'severities 1 and 2', 'severity 1')
    """
    if len(found) == len(SEVERITIES):
        return "every severity"
    return f"{'severity' if len(found) == 1 else 'severities'} {listed(map(str, found))}"


def _worst(numbers: Mapping[str, Any]) -> str:
    """After cross-entropy, corruption by corruption at the highest severity."""
    arm = next(each for each in numbers["arms"] if each["loss"] == CROSS_ENTROPY)
    rows = [
        [
            corruption,
            *(
                plus_minus(
                    mean_of([run["corruptions"][corruption][stage][-1] for run in arm["runs"]]), 2, 100
                )
                for stage in STAGES
            ),
        ]
        for corruption in numbers["corruptions"]
    ]
    return table(["ECE %", *STAGES.values()], rows)


def _told(numbers: Mapping[str, Any], score: str) -> str:
    sets = foreign_sets(len(numbers["corruptions"]))
    heads = ["loss", "n"]
    heads += [f"{title}, {when}" for title in sets.values() for when in ("as trained", "after T")]
    rows = [
        [
            TITLES[arm["loss"]],
            str(len(arm["runs"])),
            *(
                plus_minus(mean_of([auroc(run, name, stage, score) for run in arm["runs"]]), 1, 100)
                for name in sets
                for stage in (AS_TRAINED, "temperature")
            ),
        ]
        for arm in numbers["arms"]
    ]
    return table(heads, rows)
