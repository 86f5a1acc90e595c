"""The day that a report is dated."""

from __future__ import annotations

import os
from datetime import UTC, date, datetime

from calibrant._math.errors import InputError


def report_date() -> date:
    """Today, or the day of ``SOURCE_DATE_EPOCH``, which makes reports reproducible to the byte.

    Raises:
        InputError: If the variable is set to anything but a number of seconds.
    """
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    if not epoch:
        return datetime.now(tz=UTC).astimezone().date()
    try:
        return datetime.fromtimestamp(int(epoch), tz=UTC).date()
    except (ValueError, OverflowError, OSError) as error:
        msg = f"`SOURCE_DATE_EPOCH` must be a number of seconds since 1970; got {epoch!r}."
        raise InputError(msg) from error
