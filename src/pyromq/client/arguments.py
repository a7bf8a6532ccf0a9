"""Arguments of the wrong kind are refused in words where they are given, rather than by a fault deep inside.

No awaits, and no knowledge of brokers: what a name or an expression may hold is decided elsewhere.
"""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

from ..model import names
from ..model.group import ConsumeFromWhere
from .core.retry import Retry
from .errors import BadMessage, Error
from .subscription import Filter

Seconds = float | timedelta


def kind_fault(what: str, value: object, kind: type, wanted: str) -> str | None:
    """Return what is wrong with the value in words; None if it is of the kind."""
    return None if isinstance(value, kind) else f"{what} is {_shown(value)}, and not {wanted}"


def topic_fault(topic: object) -> str | None:
    return names.topic_fault(topic) if isinstance(topic, str) else kind_fault("the topic", topic, str, "a string")


def group_fault(group: object) -> str | None:
    return names.group_fault(group) if isinstance(group, str) else kind_fault("the group", group, str, "a string")


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
    if (fault := kind_fault(what, value, str, "a string")) is not None:
        raise BadMessage(fault)


def check_filter_kind(wanted: object) -> None:
    if (fault := kind_fault("the filter", wanted, Filter, "made by tag(...) or sql(...)")) is not None:
        raise Error(fault, hint='Write filter=pyromq.tag("paid"), or filter=pyromq.sql("total > 10")')


def check_begin(begin: Any, begin_ms: Any) -> None:
    if not isinstance(begin, ConsumeFromWhere):
        allowed = ", ".join(each.name for each in ConsumeFromWhere)
        raise Error(
            f"begin={begin!r} is no place to begin", hint=f"Give a pyromq.ConsumeFromWhere: one of its {allowed}"
        )
    if begin_ms is not None and not isinstance(begin_ms, int):
        raise Error(f"begin_ms={begin_ms!r} is no whole number of milliseconds since 1970")
    by_time = begin is ConsumeFromWhere.TIMESTAMP
    if by_time and begin_ms is None:
        raise Error(
            "begin=TIMESTAMP does not say from which time on", hint="Give begin_ms, too: milliseconds since 1970"
        )
    if not by_time and begin_ms is not None:
        raise Error(
            f"begin_ms={begin_ms} says nothing with begin={begin.name}",
            hint="Give begin=pyromq.ConsumeFromWhere.TIMESTAMP with it, or leave it out",
        )


def check_count(name: str, value: object, most: int | None = None, *, least: int = 1, example: int = 20) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least or (most is not None and value > most):
        wanted = f"{least} or more" if most is None else f"{least} to {most}"
        raise Error(f"{name}={_shown(value)} is no whole number of {wanted}", hint=f"Write {name}={most or example}")


def check_length(name: str, value: object, *, may_be_zero: bool = False, example: float = 30) -> None:
    """Raise Error unless the option is a number of seconds."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not is_number or value < 0 or (value == 0 and not may_be_zero):  # type: ignore[operator]
        wanted = "of 0 or more" if may_be_zero else "above 0"
        raise Error(
            f"{name}={_shown(value)} is no number of seconds {wanted}", hint=f"Write {name}={example}, or leave it out"
        )


def check_part(name: str, value: object, kind: type, example: str) -> None:
    """Raise Error unless the option is an object of this kind, or left out."""
    if value is not None and (fault := kind_fault(name, value, kind, f"a pyromq.{kind.__name__}")) is not None:
        raise Error(fault, hint=f"Write {name}=pyromq.{kind.__name__}({example})")


def check_retry(retry: object) -> None:
    if retry is not None and (fault := kind_fault("retry", retry, Retry, "a pyromq.Retry")) is not None:
        times = retry if isinstance(retry, int) and retry >= 0 else 3
        raise Error(fault, hint=f"Write retry=pyromq.Retry(times={times})")


def check_strategy(strategy: object) -> None:
    if not callable(strategy) or isinstance(strategy, type):
        name = strategy.__name__ if isinstance(strategy, type) else "Average"
        raise Error(
            f"strategy={_shown(strategy)} cannot share out queues",
            hint=f"Write strategy=pyromq.{name}(), or give a function of (member, queues, members)",
        )


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 64 else text[:64] + "..."
