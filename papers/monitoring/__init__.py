"""How often a monitor raises an alarm where nothing is wrong, and how soon where something is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from papers.claims import OWN, Claim
from papers.monitoring import settings
from papers.study import OUT, TABLE, Page, Session, Study

NAMES = ("evidence", "test at each look")


def numbers_of(records: Sequence[Mapping[str, Any]], setting: settings.Setting) -> dict[str, Any]:
    """Alarms without a change, and delays after one."""
    from papers.monitoring.measure import samples_of_fixed_test

    quiet: dict[str, list[int | None]] = {name: [] for name in NAMES}
    changed: dict[tuple[float, float, int], list[int | None]] = {}
    for record in records:
        if record["slope"] == 1 and record["shift"] == 0:
            for name in NAMES:
                quiet[name] += record["alarms"][name]
        else:
            key = record["slope"], record["shift"], record["at"]
            changed.setdefault(key, []).extend(record["alarms"]["evidence"])
    rows: list[dict[str, Any]] = []
    for (slope, shift, at), alarms in changed.items():
        change = settings.Change(slope=slope, shift=shift)
        delays = sorted((alarm - at) * setting.batch for alarm in alarms if alarm is not None and alarm >= at)
        kept = sum(alarm is None or alarm >= at for alarm in alarms)
        rows.append(
            {
                "change": change.formula,
                "at": at,
                "streams": len(alarms),
                "before": sum(alarm is not None and alarm < at for alarm in alarms),
                "found": len(delays),
                "median_delay": _median(delays, kept),
                "median_interval": interval_of_median(delays, kept),
                "fixed_test": samples_of_fixed_test(setting, change),
            }
        )
    return {
        "batch": setting.batch,
        "looks": setting.looks,
        "looks_of_window": setting.looks_of_window,
        "spread": setting.spread,
        "false_alarms": setting.false_alarms,
        "quiet": {
            name: {"streams": len(found), "alarms": sum(each is not None for each in found)}
            for name, found in quiet.items()
        },
        "changed": rows,
    }


def _median(delays: Sequence[int], streams: int) -> int | None:
    """The delay by which half of the streams have raised an alarm; None where fewer have."""
    return delays[(streams - 1) // 2] if len(delays) > (streams - 1) // 2 else None


def interval_of_median(delays: Sequence[int], streams: int) -> tuple[int | None, int | None]:
    """The delays between which the median of all such streams lies, with 95 % confidence, by their order.

    Less than 2.5 % of binomial counts with one half lie below the rank of the first, and as few above that of
    the second; None where so many streams have not raised an alarm, or are not there.

    Example:
        >>> interval_of_median(range(1, 41), 40)
        (14, 27)
        >>> interval_of_median([1, 2, 3], 4)
        (None, None)
    """
    from scipy.stats import binom

    rank = int(binom.ppf(0.025, streams, 0.5))  # P(count < rank) <= 2.5 %
    if rank < 1:
        return None, None
    low, high = rank - 1, streams - rank
    return (
        delays[low] if low < len(delays) else None,
        delays[high] if high < len(delays) else None,
    )


def claims(numbers: Mapping[str, Any]) -> Sequence[Claim]:
    """The promise of the monitor."""
    from calibrant.evaluation.resampling.intervals import wilson_interval

    found = numbers["quiet"]["evidence"]
    share = found["alarms"] / found["streams"]
    low, high = wilson_interval(share, found["streams"], 0.95)
    limit = numbers["false_alarms"]
    return [
        Claim(
            key="few-false-alarms-ever",
            source=OWN,
            statement=f"A calibrated model raises an alarm with probability {limit:g} at most, ever",
            verdict="holds" if high <= limit else "does not hold" if low > limit else "undecided",
            evidence=f"{found['alarms']} of {found['streams']} streams, {numbers['looks']:,} looks each "
            f"({low:.3f} to {high:.3f})",
        )
    ]


PAGE = Page(name="monitoring", template=Path(__file__).with_name("page.md.j2"), claims=claims)


def _run(
    session: Session, setting: settings.Setting = settings.DEFAULT, *, out: Path, table: Path | None
) -> Sequence[Path]:
    from papers.monitoring.measure import run_monitoring
    from papers.records import Records

    if table is not None:
        records = Records(out / "monitoring-runs.jsonl").all()
        return PAGE.write(numbers_of(records, setting), table)
    return PAGE.write(numbers_of(run_monitoring(out, setting, session.tell), setting), out)


def _small() -> settings.Setting:
    return settings.Setting(
        batch=10,
        looks=40,
        looks_of_window=10,
        changes=(settings.Change(slope=0.5),),
        change_at=(20,),
        quiet_streams=4,
        changed_streams=2,
        streams_of_record=2,
    )


MONITORING = Study(
    name="monitoring",
    summary="Measure false alarms of the monitor and its delay in detecting changes.",
    run=_run,
    options=(OUT, TABLE),
    pages=(PAGE,),
    records=("monitoring-runs.jsonl",),
    small=_small,
)
