"""What a client does, with trace events around it: sends, handler calls, ends of transactions, recalls.

Producers and consumers of a client with a tracer use these, in place of the plain ones or besides. Messages of the
trace topic are never traced, nor those of a broker that says so (`traceOn=false`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...model import message_trace as events
from ...model.message import KEY_SEPARATOR, Property, SysFlag
from ...protocol.batch import decode_batch
from ...protocol.properties import decode_properties
from ...protocol.requests import RequestCode
from ..connect.session import Session
from ..core.retry import Reject, RetryLater
from ..errors import Error
from ..handle.attempts import Attempt
from ..handle.handlers import Outcomes
from ..produce.outgoing import Outgoing
from ..produce.queue_choice import QueueChoice
from ..produce.sending import Sender, SendPolicy, SendResult, SendStatus
from ..received import Received
from .trace_writer import Tracer

_DELAYS = (Property.DELAY, Property.TIMER_DELAY_SEC, Property.TIMER_DELAY_MS, Property.TIMER_DELIVER_MS)


class TracingSender(Sender):
    """A sender whose answered sends are traced, the failed ones too. One-way sends are not, as in Java."""

    def __init__(self, session: Session, group: str, policy: SendPolicy, tracer: Tracer) -> None:
        super().__init__(session, group, policy)
        self._group, self._tracer = group, tracer
        self._is_on = True  # what the brokers said last; nobody answers a send that fails

    async def send(
        self, message: Outgoing, choose: QueueChoice | None = None, timeout_s: float | None = None
    ) -> list[SendResult]:
        clock = self._tracer.clock
        time_ms, began = clock.now_ms(), clock.monotonic()
        try:
            results = await super().send(message, choose, timeout_s)
        except Error:
            self._note(message, [], time_ms, clock.monotonic() - began)
            raise
        self._is_on = results[0].is_traced
        self._note(message, results, time_ms, clock.monotonic() - began)
        return results

    def _note(self, message: Outgoing, results: list[SendResult], time_ms: int, took_s: float) -> None:
        if not self._is_on or message.topic == self._tracer.topic:
            return
        about: dict[str, Any] = {"time_ms": time_ms, "cost_ms": round(took_s * 1000), "group": self._group}
        about["topic"] = message.topic
        for place, (message_id, (size, properties)) in enumerate(zip(message.ids, _parts(message), strict=True)):
            found: dict[str, Any] = self._of_result(results[place]) if results else {"success": False}
            found |= {"body_length": size, "kind": _kind(message, properties)} | _words(properties)
            self._tracer.note(events.Sent(message_id=message_id, **about, **found))

    def _of_result(self, result: SendResult) -> dict[str, Any]:
        return {
            "region": result.region,
            "store_host": self._tracer.store_host(result),
            "offset_id": result.offset_message_id,
            "success": result.status is SendStatus.OK,
        }


def _parts(message: Outgoing) -> Iterator[tuple[int, Mapping[str, str]]]:
    """Yield body length and properties of each message of a request."""
    if message.code != RequestCode.SEND_BATCH_MESSAGE:
        yield len(message.body), decode_properties(message.properties)
        return
    for entry in decode_batch(message.body):
        yield len(entry.body), decode_properties(entry.properties)


def _words(properties: Mapping[str, str]) -> dict[str, Any]:
    return {"tags": properties.get(Property.TAGS, ""), "keys": properties.get(Property.KEYS, "")}


def _kind(message: Outgoing, properties: Mapping[str, str]) -> events.MessageKind:
    if message.sys_flag & SysFlag.TRANSACTION_PREPARED:
        return events.MessageKind.HALF
    if any(name in properties for name in _DELAYS):
        return events.MessageKind.DELAYED
    return events.MessageKind.ORDERED if Property.SHARDING_KEY in properties else events.MessageKind.NORMAL


def traced_attempts(attempt: Attempt, tracer: Tracer, group: str) -> Attempt:
    """Return a handler's call with an event before and one after it for each message. A cancelled call has no end."""

    async def traced(messages: Sequence[Received]) -> Outcomes:
        clock, began = tracer.clock, tracer.clock.monotonic()
        noted = {place: _started(tracer, each, group) for place, each in enumerate(messages) if _wanted(tracer, each)}
        outcomes = await attempt(messages)
        cost_ms = round((clock.monotonic() - began) * 1000)
        for place, about in noted.items():
            _note_end(tracer, about, cost_ms, outcomes[place])
        return outcomes

    return traced


def trace_pulled(tracer: Tracer, messages: Sequence[Received], group: str) -> None:
    """Trace both events at once, as Java's lite pull consumer does: how the caller's work ends is not known."""
    for each in messages:
        if _wanted(tracer, each):
            _note_end(tracer, _started(tracer, each, group), 0, None)


def _wanted(tracer: Tracer, received: Received) -> bool:
    return received.wire_topic != tracer.topic and received.properties.get(Property.TRACE_ON) != "false"


def _started(tracer: Tracer, received: Received, group: str) -> dict[str, Any]:
    about: dict[str, Any] = {"message_id": received.id, "group": group, "request_id": tracer.session.ids.next()}
    about["keys"] = KEY_SEPARATOR.join(received.keys)
    about["region"] = received.properties.get(Property.MSG_REGION, "")
    tracer.note(events.ConsumeStarted(**about, time_ms=tracer.clock.now_ms(), retries=received.attempt - 1))
    return about


def _note_end(tracer: Tracer, about: dict[str, Any], cost_ms: int, fault: Exception | None) -> None:
    about |= {"time_ms": tracer.clock.now_ms(), "cost_ms": cost_ms, "success": fault is None}
    tracer.note(events.Consumed(**about, outcome=_outcome(fault)))


def _outcome(fault: Exception | None) -> events.ConsumeOutcome:
    if fault is None:
        return events.ConsumeOutcome.SUCCESS
    if isinstance(fault, TimeoutError):
        return events.ConsumeOutcome.TIME_OUT
    return events.ConsumeOutcome.FAILED if isinstance(fault, Reject | RetryLater) else events.ConsumeOutcome.EXCEPTION


def trace_end(tracer: Tracer, group: str, state: str, half: SendResult, properties: Mapping[str, str]) -> None:
    """Trace that the producer ends a transaction, or leaves it open."""
    if half.is_traced and half.queue.topic != tracer.topic:
        about = {"store_host": tracer.store_host(half), "region": half.region, "group": group, "state": state}
        _note_transaction(tracer, half.message_id, half.queue.topic, properties, **about)


def trace_answer(tracer: Tracer, group: str, state: str, half: Received, address: str) -> None:
    """Trace the state that answers a broker's question after a transaction."""
    if _wanted(tracer, half):
        region = half.properties.get(Property.MSG_REGION, "")
        about = {"store_host": address, "region": region, "group": group, "state": state, "from_check": True}
        _note_transaction(tracer, half.id, half.wire_topic, half.properties, **about)


def _note_transaction(tracer: Tracer, message_id: str, topic: str, properties: Mapping[str, str], **about: Any) -> None:
    about |= {"message_id": message_id, "transaction_id": message_id, "topic": topic} | _words(properties)
    tracer.note(events.TransactionEnded(**about, time_ms=tracer.clock.now_ms()))


def trace_recall(tracer: Tracer, group: str, result: SendResult, success: bool) -> None:
    if result.is_traced and result.queue.topic != tracer.topic:
        about = {"message_id": result.message_id, "topic": result.queue.topic, "region": result.region}
        tracer.note(events.Recalled(**about, group=group, time_ms=tracer.clock.now_ms(), success=success))
