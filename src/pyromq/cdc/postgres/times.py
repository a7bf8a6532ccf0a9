"""PostgreSQL's dates and times, from its text to what Debezium writes in JSON.

A date is days since 1970, a timestamp milliseconds or (with more than three digits) microseconds since 1970, a time
microseconds, a timestamp with time zone a text in UTC. What a number cannot be, `infinity`, stays PostgreSQL's text.
"""

from __future__ import annotations

import re
from datetime import date, datetime

from ...model.wire_text import whole_number

_EPOCH = date(1970, 1, 1).toordinal()
_DAY_S = 86_400
_DATE = re.compile(r"([0-9]{4,7})-([0-9]{2})-([0-9]{2})( BC)?")
_TIME = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,6}))?")
_UTC = "+00"


def days(text: str) -> int | str:
    try:
        return date.fromisoformat(text).toordinal() - _EPOCH
    except ValueError:
        return _far_days(text)


def micros(text: str) -> int | str:
    """Return the microseconds of a time of the day; 24:00:00 is one, too."""
    found = _TIME.fullmatch(text)
    if found is None:
        return text
    hours, minutes, seconds = (whole_number(part) or 0 for part in found.groups()[:3])
    return (hours * 3600 + minutes * 60 + seconds) * 1_000_000 + (whole_number((found[4] or "").ljust(6, "0")) or 0)


def moment_micros(text: str) -> int | str:
    """Return the microseconds since 1970 of a timestamp without time zone."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return _far_moment(text)
    seconds = (moment.toordinal() - _EPOCH) * _DAY_S + moment.hour * 3600 + moment.minute * 60 + moment.second
    return seconds * 1_000_000 + moment.microsecond


def moment_millis(text: str) -> int | str:
    found = moment_micros(text)
    return found // 1000 if isinstance(found, int) else found


def zoned(text: str) -> str:
    """Return a timestamp with time zone as ISO 8601 writes it. The session is in UTC."""
    return text[: -len(_UTC)].replace(" ", "T") + "Z" if text.endswith(_UTC) else text


def _far_moment(text: str) -> int | str:
    """Return the same of years before the first and after the 9999th."""
    is_before = text.endswith(" BC")
    day, _, time = text.removesuffix(" BC").partition(" ")
    of_days, of_time = _far_days(f"{day} BC" if is_before else day), micros(time)
    if not isinstance(of_days, int) or not isinstance(of_time, int):
        return text
    return of_days * _DAY_S * 1_000_000 + of_time


def _far_days(text: str) -> int | str:
    found = _DATE.fullmatch(text)
    if found is None:
        return text
    year, month, day = (whole_number(part) or 0 for part in found.groups()[:3])
    if found[4]:
        year = 1 - year  # 1 BC is the year 0
    eras = (year - 4) // 400  # of 400 years, which all have the same number of days
    return date(year - eras * 400, month, day).toordinal() + eras * 146_097 - _EPOCH
