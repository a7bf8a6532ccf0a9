"""MariaDB's dates and times, as bytes of the log and as Debezium writes them in JSON.

Debezium's usual forms: a date is days since 1970, a DATETIME milliseconds or (with more than three digits)
microseconds since 1970, a TIME microseconds, a TIMESTAMP a text in UTC. What a number cannot be, 0000-00-00 and dates
with a month or day 0, stays the text that MariaDB shows.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta

Read = Callable[[bytes, int], tuple[object, int]]

_EPOCH = date(1970, 1, 1).toordinal()
_DAY_S = 86_400
_MICROS = (1, 10_000, 100, 1)  # of the last unit, by the bytes of the fraction


def read_date(data: bytes, at: int) -> tuple[object, int]:
    packed = int.from_bytes(data[at : at + 3], "little")
    year, month, day = packed >> 9, packed >> 5 & 15, packed & 31
    try:
        return date(year, month, day).toordinal() - _EPOCH, at + 3
    except ValueError:
        return f"{year:04d}-{month:02d}-{day:02d}", at + 3


def read_year(data: bytes, at: int) -> tuple[object, int]:
    return (data[at] + 1900 if data[at] else 0), at + 1


def time_reader(digits: int) -> Read:
    """Return the reader of a TIME: microseconds, below 0 too."""
    width = (digits + 1) // 2
    length, shift, unit = 3 + width, 8 * width, _MICROS[width]
    zero = 1 << (8 * length - 1)

    def read(data: bytes, at: int) -> tuple[object, int]:
        value = int.from_bytes(data[at : at + length], "big") - zero
        packed = abs(value)
        whole, micros = packed >> shift, (packed & (1 << shift) - 1) * unit
        seconds = (whole >> 12 & 0x3FF) * 3600 + (whole >> 6 & 63) * 60 + (whole & 63)
        total = seconds * 1_000_000 + micros
        return (total if value >= 0 else -total), at + length

    return read


def datetime_reader(digits: int) -> Read:
    """Return the reader of a DATETIME, which has no zone."""
    width = (digits + 1) // 2
    unit, is_fine = _MICROS[width], digits > 3

    def read(data: bytes, at: int) -> tuple[object, int]:
        packed = int.from_bytes(data[at : at + 5], "big") - (1 << 39)
        micros = int.from_bytes(data[at + 5 : at + 5 + width], "big") * unit
        year, month = divmod(packed >> 22 & 0x1FFFF, 13)
        day, hour, minute, second = packed >> 17 & 31, packed >> 12 & 31, packed >> 6 & 63, packed & 63
        at += 5 + width
        try:
            days = date(year, month, day).toordinal() - _EPOCH
        except ValueError:
            fraction = f".{micros:06d}"[: digits + 1] if digits else ""
            return f"{year:04d}-{month:02d}-{day:02d} {hour:02d}:{minute:02d}:{second:02d}{fraction}", at
        total = (days * _DAY_S + hour * 3600 + minute * 60 + second) * 1_000_000 + micros
        return (total if is_fine else total // 1000), at

    return read


def timestamp_reader(digits: int) -> Read:
    """Return the reader of a TIMESTAMP, which is a moment: the log has it in UTC whatever the session's zone was."""
    width = (digits + 1) // 2
    unit = _MICROS[width]

    def read(data: bytes, at: int) -> tuple[object, int]:
        seconds = int.from_bytes(data[at : at + 4], "big")
        micros = int.from_bytes(data[at + 4 : at + 4 + width], "big") * unit
        return moment_text(seconds, micros, digits), at + 4 + width

    return read


def moment_text(seconds: int, micros: int, digits: int) -> str:
    if not seconds and not micros:
        return "0000-00-00 00:00:00"
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds, microseconds=micros)
    fraction = f".{micros:06d}"[: digits + 1] if digits else ""
    return f"{moment:%Y-%m-%dT%H:%M:%S}{fraction}Z"
