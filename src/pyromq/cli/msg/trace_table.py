"""One message's trace for people and for programs: who sent it, who got it, when, and how that ended. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...model.message_trace import Delivery, MessageTrace, Recalled, Sent, TransactionEnded
from ..terminal.tables import moment

_COLUMNS = ("time", "what", "group", "took", "result", "details")


def lines(trace: MessageTrace) -> Iterator[str]:
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


def as_json(trace: MessageTrace) -> dict[str, Any]:
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
