"""Which studies there are, in the order of the list that people see: a line each."""

from __future__ import annotations

from calibrant._math.rosters import instances
from calibrant._math.text_form import named
from papers.study import Study

STUDIES = instances(globals(), Study)


def study_named(name: str) -> Study:
    """The study of that name.

    Raises:
        InputError: If there is none.

    Example:
        >>> study_named("losses").name
        'losses'
    """
    return named(
        name, {each.name: each for each in STUDIES}, "study", remedy=" `python -m papers --list` says more."
    )
