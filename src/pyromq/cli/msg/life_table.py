"""The life of one message for people. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..terminal.tables import moment

_ENDED = {"recalled", "rolled back", "given up"}  # no group gets it any more


def lines(found: Mapping[str, Any]) -> Iterator[str]:
    facts = {
        "message": found["id"],
        "topic": found["topic"],
        "broker": found["broker"],
        "state": _state(found),
        "keys": found.get("keys"),
        "tags": found.get("tags"),
        "born": _time(found.get("bornMs")),
        "bytes": found.get("bytes"),
        "stays until": "" if _is_carried(found) else _time(found.get("leavesMs")),
    }
    for name, value in facts.items():
        if value not in (None, ""):
            yield f"{name:12} {value}"
    for one in found.get("groups", ()):
        never = found["state"] in _ENDED and one["state"] == "not there yet"
        yield f"{'group':12} {one['group']}: {'does not get it' if never else _state(one)}"
    for one in found.get("history", ()):
        until = f", until {_time(one['untilMs'])}" if one.get("untilMs") else ""
        place = f"{one['topic']} queue {one['queue']} offset {one['offset']}"
        yield f"{_time(one['atMs']):24} {one['what']}{until}: {place} ({one['offsetId']})"


def _is_carried(found: Mapping[str, Any]) -> bool:
    """Return whether the message waits longer than its log file stays: it is then copied into a new file."""
    return found["state"] == "timed" and (found.get("untilMs") or 0) > (found.get("leavesMs") or 0)


def _state(one: Mapping[str, Any]) -> str:
    """Return the state in words, as `in retry 3 until 2026-11-16 10:00:00.000`."""
    words = [f"{one['state']}: {one['reason']}" if one.get("reason") else str(one["state"])]
    if one.get("retry") and one["state"] == "dead":
        words.append(f"after {one['retry']} attempt{'s' * (one['retry'] > 1)}")
    elif one.get("retry"):
        words.append(f"{'' if one['state'] == 'in retry' else 'at retry '}{one['retry']}")
    if "checks" in one:
        words.append(f"with {one['checks']} checks")
    if one.get("untilMs"):
        words.append(f"until {_time(one['untilMs'])}" + (" (overdue)" if one.get("overdue") else ""))
    if one.get("atMs"):
        words.append(f"since {_time(one['atMs'])}")
    return " ".join(words)


def _time(ms: int | None) -> str:
    return "" if ms is None else moment(ms)
