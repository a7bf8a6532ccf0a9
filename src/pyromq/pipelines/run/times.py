"""Times as people say them: `yesterday 00:00`, `2h ago`, `2026-11-15`, milliseconds. UTC unless a zone is given."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TypedDict

from ...errors import ConfigError
from ...spark import option_kinds as kinds


class Times(TypedDict, total=False):
    """Between which store times messages are meant, in milliseconds since 1970; the end is not included."""

    since_ms: int | None
    until_ms: int | None


_DAYS = {"today": 0, "yesterday": -1}
_LIKE = "2026-11-15, 2026-11-15T08:30:00Z, milliseconds, now, today, yesterday 00:00 or 2h ago"


def moment(name: str, text: str, now_ms: int) -> int:
    """Return milliseconds since 1970. ConfigError names the option and what is allowed."""
    words = text.strip().lower()
    try:
        if words == "now":
            return now_ms
        if words.endswith(" ago"):
            return now_ms - round(kinds.duration_s(words.removesuffix(" ago")) * 1000)
        day, _, hour = words.partition(" ")
        if day in _DAYS:
            return _day(now_ms, _DAYS[day], hour.strip() or "00:00")
        return kinds.time_ms(text)
    except ValueError:
        raise ConfigError(f"{name} = {text!r}: allowed is {_LIKE}") from None


def span_s(name: str, text: str) -> float:
    """Read `15m`, `2 hours` or `30 seconds`."""
    short = re.sub(r"\s*(second|minute|hour|day)s?\s*$", lambda found: found[1][0], text.strip().lower())
    try:
        seconds = kinds.duration_s(short)
    except ValueError as fault:
        raise ConfigError(f"{name} = {text!r}: allowed is {fault}") from None
    if seconds <= 0:
        raise ConfigError(f"{name} = {text!r}: it must be more than nothing")
    return seconds


def interval(name: str, text: str) -> str:
    """Return a duration in Spark's words."""
    return f"{round(span_s(name, text) * 1000)} milliseconds"


def _day(now_ms: int, days: int, hour: str) -> int:
    found = re.fullmatch(r"(\d{1,2}):(\d{2})(?::(\d{2}))?", hour)
    if found is None:
        raise ValueError(hour)
    hours, minutes, seconds = (int(part or 0) for part in found.groups())
    midnight = datetime.fromtimestamp(now_ms / 1000, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    at = (midnight + timedelta(days=days)).replace(hour=hours, minute=minutes, second=seconds)
    return round(at.timestamp() * 1000)
