"""Arguments of the wrong kind are refused in words where they are given, rather than by a fault deep inside.

No awaits, and no knowledge of brokers: what a name or an expression may hold is decided elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from ..model import names
from ..model.group import ConsumeFromWhere
from ..model.times import parse_time
from .core.retry import Retry
from .errors import BadMessage, Error
from .subscription import Filter

Seconds = float | timedelta


def check_kind(
    what: str, value: object, kind: type, wanted: str, *, hint: str = "", error: type[Error] = Error
) -> None:
    """Raise the error unless the value is of the kind."""
    if not isinstance(value, kind):
        raise error(f"{what} is {_shown(value)}, and not {wanted}", hint=hint)


def check_topic(topic: Any) -> None:
    _check_name("the topic", topic, names.topic_fault, "Choose another name", Error)


def check_group(group: Any, hint: str = "Choose another name", error: type[Error] = Error) -> None:
    _check_name("the group", group, names.group_fault, hint, error)


def _check_name(what: str, name: Any, fault_of: Callable[[str], str | None], hint: str, error: type[Error]) -> None:
    check_kind(what, name, str, "a string", hint=hint, error=error)
    if (fault := fault_of(name)) is not None:
        raise error(fault, hint=hint)


def seconds(value: Seconds) -> float:
    try:
        if isinstance(value, str | bool):
            raise TypeError  # float would take them: 3 s for "3", 1 s for True
        found = value.total_seconds() if isinstance(value, timedelta) else float(value)
    except (TypeError, ValueError):
        found = math.nan
    if math.isnan(found):
        raise Error(f"{_shown(value)} is no number of seconds", hint="Give a number or a timedelta")
    return found


def time_limit(name: str, value: Seconds) -> float:
    """Return how long a call may take, in seconds."""
    try:
        found = seconds(value)
    except Error:
        found = 0.0
    hint = f"Write {name}=3, give a timedelta, or leave it out"
    if found <= 0:
        raise Error(f"{name}={_shown(value)} is no number of seconds above 0", hint=hint)
    if math.isinf(found):
        raise Error(f"{name}={_shown(value)} has no end", hint=hint)
    return found


def milliseconds(what: str, value: Seconds) -> int:
    """Return a time that travels with a message, in milliseconds. Raise BadMessage for what is none."""
    try:
        length_s = seconds(value)
    except Error as fault:
        raise BadMessage(f"{what}: {fault}") from None
    if length_s < 0:
        raise BadMessage(f"{what} {value} lies in the past", hint="Give 0 seconds or more")
    if math.isinf(length_s * 1000):
        raise BadMessage(f"{what} {value} has no end", hint="Give a number of seconds")
    return round(length_s * 1000)


def check_text(what: str, value: object) -> None:
    check_kind(what, value, str, "a string", error=BadMessage)


def check_filter_kind(wanted: object) -> None:
    hint = 'Write filter=pyromq.tag("paid"), or filter=pyromq.sql("total > 10")'
    check_kind("the filter", wanted, Filter, "made by tag(...) or sql(...)", hint=hint)


_BEGINS = {"first": ConsumeFromWhere.FIRST_OFFSET, "last": ConsumeFromWhere.LAST_OFFSET}
_BEGIN_HINT = 'Give "first", "last", a time ("2026-11-16T08:30", "-1h", "yesterday 00:00", a datetime), or one of '


def read_begin(options: Mapping[str, Any], now_ms: int) -> dict[str, Any]:
    """Return the options of a consumer with `begin` as a ConsumeFromWhere, a time that it named as `begin_ms`."""
    begin = options.get("begin")
    if not isinstance(begin, str | datetime):
        return dict(options)
    if isinstance(begin, str) and begin in _BEGINS:
        return {**options, "begin": _BEGINS[begin]}
    try:
        begin_ms = parse_time(begin, now_ms) if isinstance(begin, str) else round(begin.timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        raise _no_begin(begin) from None
    if options.get("begin_ms") is not None:
        raise Error(f"begin={begin!r} names a time, and so does begin_ms", hint="Give one of them")
    return {**options, "begin": ConsumeFromWhere.TIMESTAMP, "begin_ms": begin_ms}


def _no_begin(begin: object) -> Error:
    allowed = ", ".join(each.name for each in ConsumeFromWhere)
    return Error(f"begin={begin!r} is no place to begin", hint=f"{_BEGIN_HINT}pyromq.ConsumeFromWhere: {allowed}")


def check_begin(begin: Any, begin_ms: Any) -> None:
    if not isinstance(begin, ConsumeFromWhere):
        raise _no_begin(begin)
    if begin_ms is not None and not isinstance(begin_ms, int):
        raise Error(f"begin_ms={begin_ms!r} is no whole number of milliseconds since 1970")
    by_time = begin is ConsumeFromWhere.TIMESTAMP
    if by_time and begin_ms is None:
        hint = "Give begin_ms, too: milliseconds since 1970"
        raise Error("begin=TIMESTAMP does not say from which time on", hint=hint)
    if not by_time and begin_ms is not None:
        hint = "Give begin=pyromq.ConsumeFromWhere.TIMESTAMP with it, or leave it out"
        raise Error(f"begin_ms={begin_ms} says nothing with begin={begin.name}", hint=hint)


def check_count(name: str, value: object, most: int | None = None, *, least: int = 1, example: int = 20) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least or (most is not None and value > most):
        wanted = f"{least} or more" if most is None else f"{least} to {most}"
        usual = example if most is None else min(example, most)
        raise Error(f"{name}={_shown(value)} is no whole number of {wanted}", hint=f"Write {name}={usual}")


def check_length(name: str, value: object, *, may_be_zero: bool = False, example: float = 30) -> None:
    """Raise Error unless the option is a number of seconds."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not is_number or value < 0 or (value == 0 and not may_be_zero):  # type: ignore[operator]
        wanted = "of 0 or more" if may_be_zero else "above 0"
        hint = f"Write {name}={example}, or leave it out"
        raise Error(f"{name}={_shown(value)} is no number of seconds {wanted}", hint=hint)


def check_part(name: str, value: object, kind: type, example: str) -> None:
    """Raise Error unless the option is an object of this kind, or left out."""
    if value is not None:
        wanted = f"pyromq.{kind.__name__}"
        check_kind(name, value, kind, f"a {wanted}", hint=f"Write {name}={wanted}({example})")


def check_retry(retry: object) -> None:
    times = retry if isinstance(retry, int) and retry >= 0 else 3
    check_part("retry", retry, Retry, f"times={times}")


def check_strategy(strategy: object) -> None:
    if not callable(strategy) or isinstance(strategy, type):
        name = strategy.__name__ if isinstance(strategy, type) else "Average"
        hint = f"Write strategy=pyromq.{name}(), or give a function of (member, queues, members)"
        raise Error(f"strategy={_shown(strategy)} cannot share out queues", hint=hint)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 64 else text[:64] + "..."
