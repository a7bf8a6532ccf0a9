"""One message for people: its life as a broker tells it, its trace as clients wrote it (for programs, too). Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...model.message_trace import Delivery, MessageTrace, Recalled, Sent, TransactionEnded
from ...text.values import moment, plural

_ENDED = {"recalled", "rolled back", "given up"}  # no group gets it any more
_COLUMNS = ("time", "what", "group", "took", "result", "details")


def life_lines(found: Mapping[str, Any]) -> Iterator[str]:
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
    reason, is_dead = one.get("reason"), one["state"] == "dead"
    words = [f"{one['state']}: {reason}" if reason and not is_dead else str(one["state"])]
    if one.get("retry") and is_dead:
        words.append(f"after {plural(one['retry'], 'attempt')}")
    elif one.get("retry"):
        words.append(f"{'' if one['state'] == 'in retry' else 'at retry '}{one['retry']}")
    if "checks" in one:
        words.append(f"with {one['checks']} checks")
    if one.get("untilMs"):
        words.append(f"until {_time(one['untilMs'])}" + (" (overdue)" if one.get("overdue") else ""))
    if one.get("atMs"):
        words.append(f"since {_time(one['atMs'])}")
    return " ".join(words) + (f": {reason}" if reason and is_dead else "")


def _time(ms: int | None) -> str:
    return "" if ms is None else moment(ms)


def trace_lines(trace: MessageTrace) -> Iterator[str]:
    """Yield a table of all events, in order of time."""
    topic = next((one.topic for one in _of_producers(trace)), "")
    yield f"message {trace.message_id}" + (f" of {topic}" if topic else "")
    events: list[Sent | TransactionEnded | Recalled | Delivery] = [*_of_producers(trace), *trace.deliveries]
    rows = [_COLUMNS, *(_row(one) for one in sorted(events, key=lambda one: one.time_ms))]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS))]
    for row in rows:
        yield "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()


def _of_producers(trace: MessageTrace) -> list[Sent | TransactionEnded | Recalled]:
    return [*trace.sent, *trace.ends, *trace.recalls]


def _row(one: Sent | TransactionEnded | Recalled | Delivery) -> tuple[str, ...]:
    match one:
        case Sent():
            words = [f"{one.kind.name.lower()}, {one.body_length} bytes", _named("to", one.store_host)]
            words.append(_named("keys", one.keys))
            return _cells(one.time_ms, "sent", one.group, one.cost_ms, _result(one.success), *words)
        case TransactionEnded():
            words = ["asked by the broker" if one.from_check else "", _named("keys", one.keys)]
            return _cells(one.time_ms, "transaction", one.group, None, one.state.lower(), *words)
        case Recalled():
            return _cells(one.time_ms, "recalled", one.group, None, _result(one.success))
        case Delivery():
            took = None if one.after is None else one.after.cost_ms
            retry = f"retry {one.before.retries}" if one.before is not None and one.before.retries else ""
            return _cells(one.time_ms, "consumed", one.group, took, _outcome(one), retry)
    raise TypeError(f"no event of a trace: {one!r}")


def _cells(time_ms: int, what: str, group: str, cost_ms: int | None, result: str, *details: str) -> tuple[str, ...]:
    time = moment(time_ms) if time_ms else "?"
    took = "" if cost_ms is None else f"{cost_ms} ms"
    return time, what, group, took, result, ", ".join(filter(None, details))


def _result(success: bool) -> str:
    return "ok" if success else "failed"


def _named(name: str, value: str) -> str:
    return f"{name} {value}" if value else ""


def _outcome(one: Delivery) -> str:
    """Return how the delivery ended; `running` while its client is at work, or if that has died."""
    if one.after is None:
        return "running"
    return "ok" if one.after.success else one.after.outcome.name.lower().replace("_", " ")


def trace_json(trace: MessageTrace) -> dict[str, Any]:
    return {
        "messageId": trace.message_id,
        "sent": [_sent(one) for one in trace.sent],
        "transactionEnds": [
            {"atMs": one.time_ms, "group": one.group, "topic": one.topic, "state": one.state}
            | {"fromCheck": one.from_check, "transactionId": one.transaction_id}
            for one in trace.ends
        ],
        "recalls": [{"atMs": one.time_ms, "group": one.group, "success": one.success} for one in trace.recalls],
        "deliveries": [_delivery(one) for one in trace.deliveries],
    }


def _sent(one: Sent) -> dict[str, Any]:
    who = {"atMs": one.time_ms, "group": one.group, "topic": one.topic, "tags": one.tags, "keys": one.keys}
    where = {"region": one.region, "storeHost": one.store_host, "offsetId": one.offset_id}
    how = {"kind": one.kind.name.lower(), "bytes": one.body_length, "costMs": one.cost_ms, "success": one.success}
    return who | where | how


def _delivery(one: Delivery) -> dict[str, Any]:
    """Return a delivery as JSON; `costMs` is null while its end is unknown."""
    return {
        "atMs": one.time_ms,
        "group": one.group,
        "retries": None if one.before is None else one.before.retries,
        "costMs": None if one.after is None else one.after.cost_ms,
        "result": _outcome(one),
    }
