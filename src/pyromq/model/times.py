"""Times as people write them: `-1h`, `yesterday 00:00`, 2026-11-16T08:30, and the table messageDelayLevel. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, time, timedelta
from typing import TypeAlias

from ..errors import ConfigError
from .wire_text import LONG_MAX, whole_number

_UNIT_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_FROM_NOW = re.compile(r"([+-])([0-9]{1,9})([smhdw])")
_DAYS_BACK = {"today": 0, "yesterday": 1}


def parse_time(text: str, now_ms: int) -> int:
    """Return milliseconds since 1970 of a time; without a zone of its own it is a local one. ValueError: it is none.

    Milliseconds themselves, `now`, `-1h` (s, m, h, d, w), `today` or `yesterday` with or without a time, ISO 8601.
    """
    word, _, rest = text.strip().partition(" ")
    if (number := whole_number(text)) is not None:
        return number
    if text == "now":
        return now_ms
    if (found := _FROM_NOW.fullmatch(text)) is not None:
        length_ms = (whole_number(found[2]) or 0) * _UNIT_S[found[3]] * 1000
        return now_ms + (length_ms if found[1] == "+" else -length_ms)
    try:
        if word in _DAYS_BACK:
            day = datetime.fromtimestamp(now_ms / 1000).date() - timedelta(days=_DAYS_BACK[word])
            moment = datetime.combine(day, time.fromisoformat(rest.strip()) if rest else time())
        else:
            moment = datetime.fromisoformat(text)
        return round(moment.timestamp() * 1000)
    except (OverflowError, OSError) as fault:  # a year that this machine's clock cannot count
        raise ValueError(f"{text!r} is out of range") from fault


# --- the table of delay levels: brokers deliver by it, clients choose from it -----------------------------------------

DelayLevels: TypeAlias = Mapping[int, int]  # level -> milliseconds

_LEVEL_UNIT_MS = {unit: seconds * 1000 for unit, seconds in _UNIT_S.items() if unit != "w"}


def parse_delay_levels(text: str) -> DelayLevels:
    """Read `1s 5s 10s ...` as messageDelayLevel has it. ConfigError names the word that is no duration."""
    levels: dict[int, int] = {}
    for level, word in enumerate(text.split(), 1):
        count = whole_number(word[:-1], high=LONG_MAX // _LEVEL_UNIT_MS["d"])
        if count is None or word[-1] not in _LEVEL_UNIT_MS:
            raise ConfigError(f"messageDelayLevel: {word!r} is not a number followed by s, m, h or d")
        levels[level] = count * _LEVEL_UNIT_MS[word[-1]]
    return levels
