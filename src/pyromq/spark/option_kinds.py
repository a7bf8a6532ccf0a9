"""How the texts of options become values. Each reader raises ValueError with what is allowed; options.py says where."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from ..errors import ConfigError
from ..transport.address import parse_address

_UNITS_S = {"ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}


def text(value: str) -> str:
    if not value.strip():
        raise ValueError("a text that is not empty")
    return value.strip()


def words(value: str) -> tuple[str, ...]:
    found = tuple(word.strip() for word in value.split(",") if word.strip())
    if not found:
        raise ValueError("names with commas between them")
    return found


def addresses(value: str) -> tuple[str, ...]:
    found = tuple(word.strip() for word in value.replace(",", ";").split(";") if word.strip())
    allowed = "host:port, such as 127.0.0.1:9876, several with ; between them"
    for each in found:
        try:
            parse_address(each)
        except ConfigError:
            raise ValueError(allowed if len(found) == 1 else f"{allowed}; {each!r} is none") from None
    if not found:
        raise ValueError(allowed)
    return found


def whole(least: int, most: int = 2**62) -> Callable[[str], int]:
    def read(value: str) -> int:
        if not re.fullmatch(r"[+-]?\d+", value.strip()) or not least <= int(value) <= most:
            raise ValueError(f"a whole number of at least {least}" + (f" and at most {most}" if most < 2**62 else ""))
        return int(value)

    return read


def yes_or_no(value: str) -> bool:
    if value.strip().lower() not in ("true", "false"):
        raise ValueError("true or false")
    return value.strip().lower() == "true"


def one_of(*choices: str) -> Callable[[str], str]:
    def read(value: str) -> str:
        found = next((choice for choice in choices if choice.lower() == value.strip().lower()), None)
        if found is None:
            raise ValueError(" or ".join(choices))
        return found

    return read


def pattern(value: str) -> str:
    try:
        re.compile(value)
    except re.error as fault:
        raise ValueError(f"a regular expression ({fault})") from None
    return value


def duration_s(value: str) -> float:
    """Read `15m`, `30s` or `500ms`."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|m|min|h|d)\s*", value)
    if found is None:
        raise ValueError("a number and a unit (ms, s, m, h, d), such as 15m")
    return float(found[1]) * _UNITS_S[found[2]]


def time_ms(value: str) -> int:
    """Read milliseconds since 1970, or ISO 8601; without a zone it is UTC."""
    if value.strip().isdigit():
        return int(value)
    try:
        found = datetime.fromisoformat(value.strip())
    except ValueError:
        raise ValueError("milliseconds since 1970, or a time such as 2026-11-15T00:00:00Z") from None
    return round((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1000)


def json_object(value: str, like: str) -> dict[str, Any]:
    try:
        found = json.loads(value)
    except ValueError as fault:
        raise ValueError(f"{like} ({fault})") from None
    if not isinstance(found, dict) or not found:
        raise ValueError(like)
    return found
