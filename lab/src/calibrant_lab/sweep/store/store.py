"""The store of runs, one folder each, finished once it has a result; and an index."""

from __future__ import annotations

import datetime
import json
import math
import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from calibrant._math.errors import CalibrantWarning, InputError
from calibrant_lab.sweep.matching import Wanted, matches
from calibrant_lab.sweep.store import places
from calibrant_lab.sweep.store.places import INDEX, README, RESULT_FILE, RUNS, SPENT
from calibrant_lab.sweep.tasks.task import Fingerprints, Item, Outcome, RunResult, Task

FORMAT = 1
"""The version of the format of ``result.json``, which ``docs/reference/run-result.schema.json`` describes."""
_SUMMARY = tuple(each.name for each in fields(RunResult) if each.name[0] != "_")


def result_content(item: Item, outcome: Outcome, spent: Mapping[str, Any]) -> dict[str, Any]:
    task, more = item.task, dict(outcome.more)
    found = {**vars(item), **vars(outcome), **spent, "format": FORMAT, "more": more}
    found |= {"task": task.name, "version": task.version, "measures": task.measures}
    found |= {name: round(spent[name], 3) for name in ("wall_seconds", "cpu_seconds")}
    found |= {"inputs": more.pop("inputs", item.inputs), "environment": more.pop("environment", {})}
    found["ended"] = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    return {name: found[name] for name in ("format", *_SUMMARY, "rows")}


def amended(content: Mapping[str, Any], item: Item, outcome: Outcome) -> dict[str, Any]:
    again = {name: getattr(outcome, name) for name in ("metrics", "undefined", "parameters")}
    more = {**content["more"], **outcome.more}
    return {**content, **again, "measures": item.task.measures, "settings": item.settings, "more": more}


class DamagedResultError(InputError):
    """Invalid result file of a run, in any version."""


def summary_of(content: bytes, source: str) -> dict[str, Any]:
    """Return a result without rows, for the index; refuse a damaged one, and one of another format."""
    try:
        found = json.loads(content)
        written = found["format"]
        summary = {name: found[name] for name in _SUMMARY if written == FORMAT}
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedResultError(
            f"{source} is not the result of a run, so it is left out; the next sweep does that run again."
        ) from error
    if written != FORMAT:
        raise InputError(f"{source} is of format {written}; this version of calibrant reads format {FORMAT}.")
    return summary


def finite(value: Any) -> Any:
    """Replace numbers that JSON lacks by None, and tuples by lists."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [finite(each) for each in value]
    return value


Summary: TypeAlias = dict[str, Any]


_README = """A store of runs, made by `calibrant sweep`; `calibrant runs` lists what is in it.

- runs/         finished runs, a folder each, named by a hash of their settings
- work/         unfinished runs, which a sweep resumes
- leases/       which process works on which run
- index.jsonl   summaries of all results, for quick reading; rebuilt if missing
"""
_RUN_README = """A run of the task `{task}`, {status}: {label}

{files}
`calibrant runs` shows it among the others of its store.
"""
_RESULT_SAYS = "settings, status, numbers and what was recorded after each epoch"
_TEMPORARY = ("checkpoint.pt", "metrics.jsonl", SPENT)  # files needed only until a run is finished
_NOTE_EVERY, _KEEP_EVERY = 5.0, 60.0
"""Seconds between notes of the time, and between saves of an unfinished run for other machines."""
_KEEPING = 0.05  # the largest share of the time that goes into those saves


class Store:
    """Runs in a folder, or at any fsspec address such as ``s3://bucket/store``.

    ``create`` makes it where it is missing; a folder with other things is refused.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     list(Store(folder).results())
        []
    """

    def __init__(self, address: str | os.PathLike[str], *, create: bool = True) -> None:
        self.place = places.place_at(address, create=create)
        self.address = self.place.address
        self.leases = places.Leases(self.place)
        self._known: dict[str, tuple[str, Summary | None]] | None = None  # no summary: the result is damaged
        if create and self.place.read(README) is None:
            self.place.write(README, _README.encode())

    # Reading

    def __contains__(self, run: str) -> bool:
        return self._content(run) is not None

    def done(self) -> set[str]:
        return set(self.place.stamps())

    def results(
        self, where: Wanted | None = None, *, status: str | None = "finished", task: str | None = None
    ) -> Iterator[RunResult]:
        """Yield results by name, filtered by settings, status and task.

        ``where`` has values or patterns: ``{"loss": "focal*", "seed": [0, 1]}``.
        """
        for summary in sorted(self._summaries(), key=lambda each: str(each["run"])):
            if status not in {None, summary["status"]} or task not in {None, summary["task"]}:
                continue
            if where is None or matches(summary["settings"], where):
                yield self._result(summary)

    def result(self, run: str) -> RunResult:
        content = self._content(run)
        if content is None:
            raise InputError(f"{self.address} holds no result of a run {run}.")
        return self._result(summary_of(content, f"{self.address}/{RUNS}/{run}/{RESULT_FILE}"))

    def sizes(self) -> dict[str, int]:
        return self.place.sizes()

    def unfinished(self) -> dict[str, places.Holder | None]:
        held = self.leases.held()
        runs = {*self.place.unfinished(), *held} - self.done()
        return {run: held.get(run) for run in sorted(runs)}

    def fingerprints(self) -> Fingerprints:
        content = self.place.read("fingerprints.json")
        known: dict[str, str] = {}
        with suppress(ValueError):
            known = json.loads(content or b"{}")
        return Fingerprints(
            known, lambda all_: self.place.write("fingerprints.json", json.dumps(all_, indent=1).encode())
        )

    def _summaries(self) -> list[Summary]:
        """Return the summaries of all valid results, with a warning for others; update the index."""
        stamps, known = self.place.stamps(), self._stored() if self._known is None else self._known
        self._known = {run: known[run] for run in known if run in stamps}
        stale = [run for run, stamp in stamps.items() if run not in known or known[run][0] != stamp]
        for run in stale:
            name = f"{RUNS}/{run}/{RESULT_FILE}"
            content = self.place.read(name)
            if content is None:  # removed since they were listed
                continue
            try:
                self._known[run] = stamps[run], summary_of(content, f"{self.place.address}/{name}")
            except DamagedResultError as error:
                self._known[run] = stamps[run], None
                warnings.warn(str(error), CalibrantWarning, stacklevel=2)
        valid = [(stamp, summary) for stamp, summary in self._known.values() if summary is not None]
        if stale or len(self._known) < len(known):
            lines = [{"format": FORMAT}, *({"stamp": each[0], "summary": each[1]} for each in valid)]
            text = "".join(f"{json.dumps(line, allow_nan=False, ensure_ascii=False)}\n" for line in lines)
            with suppress(OSError):  # a store that may only be read is read without one
                self.place.write(INDEX, text.encode())
        return [summary for _, summary in valid]

    def _stored(self) -> dict[str, tuple[str, Summary | None]]:
        found: dict[str, tuple[str, Summary | None]] = {}
        head, *lines = (self.place.read(INDEX) or b"{}").splitlines() or [b"{}"]
        with suppress(ValueError):
            lines = lines if json.loads(head) == {"format": FORMAT} else []
            for line in lines:
                with suppress(ValueError, KeyError, TypeError):
                    entry = json.loads(line)
                    found[entry["summary"]["run"]] = entry["stamp"], entry["summary"]
        return found

    def _result(self, summary: Summary) -> RunResult:
        run = summary["run"]
        return RunResult(**summary, _rows=partial(self._rows, run), _file=partial(self.place.local, run))

    def _rows(self, run: str) -> list[Mapping[str, Any]]:
        content = self._content(run)
        if content is None:
            raise InputError(f"{self.address} no longer holds the result of run {run}.")
        rows: list[Mapping[str, Any]] = json.loads(content)["rows"]
        return rows

    def _content(self, run: str) -> bytes | None:
        return self.place.read(f"{RUNS}/{run}/{RESULT_FILE}")

    # Writing

    def claim(self, run: str, *, lost: Callable[[], None] = lambda: None) -> places.Lease | None:
        return self.leases.claim(run, lost=lost)

    def begin(self, run: str) -> RunSession:
        self.place.bring(run)
        return RunSession(self.place.work(run), keep=partial(self.place.keep, run))

    def finish(self, item: Item, session: RunSession, outcome: Outcome) -> RunResult:
        session.spend()
        text = _as_text(result_content(item, outcome, session.spent))
        readme = _readme(item.task, outcome.status, item.label, session.folder)
        (session.folder / "README.txt").write_text(readme, encoding="utf-8")
        aside = session.folder / f".calibrant-{RESULT_FILE}"
        aside.write_text(text, encoding="utf-8")
        aside.replace(session.folder / RESULT_FILE)
        self.publish(item.run)
        return self._result(summary_of(text.encode(), item.run))

    def amend(self, item: Item, outcome: Outcome) -> RunResult:
        text = _as_text(amended(json.loads(self._content(item.run) or b"{}"), item, outcome))
        self.place.write(f"{RUNS}/{item.run}/{RESULT_FILE}", text.encode())
        return self._result(summary_of(text.encode(), item.run))

    def publish(self, run: str) -> None:
        folder = self.place.work(run)
        for name in _TEMPORARY:
            (folder / name).unlink(missing_ok=True)
        for left_over in folder.glob(".calibrant-*"):
            left_over.unlink()
        self.place.publish(run)

    def remove(self, run: str) -> None:
        self.place.delete(f"{RUNS}/{run}")

    def remove_file(self, run: str, name: str) -> None:
        if name == RESULT_FILE:
            raise InputError(f"{RESULT_FILE} makes the run; remove the run instead.")
        self.place.delete(f"{RUNS}/{run}/{name}")

    def abandon(self, run: str) -> bool:
        """Remove an unfinished run's progress; return False if a process works on it."""
        lease = self.claim(run)
        if lease is None:
            return False
        with lease:
            self.place.abandon(run)
        return True


class RunSession:
    """One process's work on a run in ``folder``; ``keep`` saves it for other machines."""

    def __init__(self, folder: Path, *, keep: Callable[[], None] = lambda: None) -> None:
        self.folder, self._keep = folder, keep
        folder.mkdir(parents=True, exist_ok=True)
        self._file = folder / SPENT
        self._before: dict[str, float] = {}
        with suppress(OSError, ValueError):
            self._before = json.loads(self._file.read_text(encoding="utf-8"))
        self._wall, self._cpu = time.monotonic(), time.process_time()
        self._noted, self._kept, self._pause = self._wall, self._wall, _KEEP_EVERY
        self.spent: dict[str, Any] = {}
        self.spend()

    @property
    def is_complete(self) -> bool:
        """True if the result exists and only lacks its move to the finished runs."""
        return (self.folder / RESULT_FILE).is_file()

    def spend(self) -> None:
        """Record the time spent, so that little is lost if the process is killed."""
        self._noted = time.monotonic()
        self.spent = {
            "wall_seconds": self._before.get("wall_seconds", 0.0) + self._noted - self._wall,
            "cpu_seconds": self._before.get("cpu_seconds", 0.0) + time.process_time() - self._cpu,
            "sessions": int(self._before.get("sessions", 0)) + 1,
        }
        self._file.write_text(json.dumps(self.spent), encoding="utf-8")

    def keep(self) -> None:
        """Record the time, and save progress for other machines; a failure waits for the next time."""
        self.spend()
        with suppress(OSError):
            self._keep()
        self._kept = time.monotonic()
        self._pause = max(_KEEP_EVERY, (self._kept - self._noted) / _KEEPING)

    def go_on(self) -> None:
        """Record time and save progress between steps, each after a minimum delay."""
        now = time.monotonic()
        if now - self._kept > self._pause:
            self.keep()
        elif now - self._noted > _NOTE_EVERY:
            self.spend()


def _as_text(content: Mapping[str, Any]) -> str:
    return json.dumps(finite(content), indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def _readme(task: Task, status: str, label: str, folder: Path) -> str:
    known = {RESULT_FILE: _RESULT_SAYS, **task.files}
    there = {name: said for name, said in known.items() if name == RESULT_FILE or (folder / name).exists()}
    width = max(map(len, there))
    lines = "".join(f"{name:<{width}}  {said}\n" for name, said in there.items())
    return _RUN_README.format(task=task.name, status=status, label=label, files=lines)
