"""What a client does, with trace events around it: sends, handler calls, ends of transactions, recalls.

Producers and consumers of a client with a tracer use these, in place of the plain ones or besides. Messages of the
trace topic are never traced, nor those of a broker that says so (`traceOn=false`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from ...model.message import KEY_SEPARATOR, Property, SysFlag
from ...model.message_trace import (
    Consumed,
    ConsumeOutcome,
    ConsumeStarted,
    MessageKind,
    Recalled,
    Sent,
    TransactionEnded,
)
from ...protocol.batch import decode_batch
from ...protocol.properties import decode_properties
from ...protocol.requests import RequestCode
from ..consume.attempts import Attempt
from ..consume.handlers import Outcomes
from ..core.retry import Reject, RetryLater
from ..errors import Error
from ..produce.outgoing import Outgoing
from ..produce.queue_choice import QueueChoice
from ..produce.sending import SendResult, SendStatus
from ..received import Received
from .trace_writer import Tracer

_DELAYS = (Property.DELAY, Property.TIMER_DELAY_SEC, Property.TIMER_DELAY_MS, Property.TIMER_DELIVER_MS)


class MessageSender(Protocol):
    """What a producer asks of its sender."""

    async def send(
        self, message: Outgoing, choose: QueueChoice | None = None, timeout_s: float | None = None
    ) -> list[SendResult]: ...

    async def send_oneway(self, message: Outgoing, choose: QueueChoice | None = None) -> None: ...


class TracingSender:
    """A sender whose answered sends are traced, the failed ones too. One-way sends are not, as in Java."""

    def __init__(self, sends: MessageSender, tracer: Tracer, group: str) -> None:
        self._sends = sends
        self._tracer = tracer
        self._group = group
        self._is_on = True  # what the brokers said last; nobody answers a send that fails

    async def send_oneway(self, message: Outgoing, choose: QueueChoice | None = None) -> None:
        await self._sends.send_oneway(message, choose)

    async def send(
        self, message: Outgoing, choose: QueueChoice | None = None, timeout_s: float | None = None
    ) -> list[SendResult]:
        clock = self._tracer.clock
        time_ms, began = clock.now_ms(), clock.monotonic()
        try:
            results = await self._sends.send(message, choose, timeout_s)
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
        for place, (message_id, (size, properties)) in enumerate(zip(message.ids, _parts(message), strict=True)):
            found: dict[str, Any] = _of_result(self._tracer, results[place]) if results else {"success": False}
            kind = _kind(message, properties)
            sent = Sent(
                message_id=message_id,
                topic=message.topic,
                body_length=size,
                kind=kind,
                **_words(properties),
                **about,
                **found,
            )
            self._tracer.note(sent)


def _parts(message: Outgoing) -> Iterator[tuple[int, Mapping[str, str]]]:
    """Yield body length and properties of each message of a request."""
    if message.code != RequestCode.SEND_BATCH_MESSAGE:
        yield len(message.body), decode_properties(message.properties)
        return
    for entry in decode_batch(message.body):
        yield len(entry.body), decode_properties(entry.properties)


def _words(properties: Mapping[str, str]) -> dict[str, Any]:
    return {"tags": properties.get(Property.TAGS, ""), "keys": properties.get(Property.KEYS, "")}


def _of_result(tracer: Tracer, result: SendResult) -> dict[str, Any]:
    return {
        "region": result.region,
        "store_host": tracer.store_host(result),
        "offset_id": result.offset_message_id,
        "success": result.status is SendStatus.OK,
    }


def _kind(message: Outgoing, properties: Mapping[str, str]) -> MessageKind:
    if message.sys_flag & SysFlag.TRANSACTION_PREPARED:
        return MessageKind.HALF
    if any(name in properties for name in _DELAYS):
        return MessageKind.DELAYED
    return MessageKind.ORDERED if Property.SHARDING_KEY in properties else MessageKind.NORMAL


def traced_attempts(attempt: Attempt, tracer: Tracer, group: str) -> Attempt:
    """Return a handler's call with an event before and one after it for each message.

    A call that is cancelled has no end.
    """

    async def traced(messages: Sequence[Received]) -> Outcomes:
        clock, began = tracer.clock, tracer.clock.monotonic()
        noted = {place: _started(tracer, each, group) for place, each in enumerate(messages) if _wanted(tracer, each)}
        outcomes = await attempt(messages)
        cost_ms = round((clock.monotonic() - began) * 1000)
        for place, about in noted.items():
            fault = outcomes[place]
            about |= {
                "time_ms": clock.now_ms(),
                "cost_ms": cost_ms,
                "success": fault is None,
                "outcome": _outcome(fault),
            }
            tracer.note(Consumed(**about))
        return outcomes

    return traced


def trace_pulled(tracer: Tracer, messages: Sequence[Received], group: str) -> None:
    """Trace both events at once, as Java's lite pull consumer does: how the caller's work ends is not known."""
    for each in messages:
        if _wanted(tracer, each):
            about = _started(tracer, each, group)
            about |= {
                "time_ms": tracer.clock.now_ms(),
                "cost_ms": 0,
                "success": True,
                "outcome": ConsumeOutcome.SUCCESS,
            }
            tracer.note(Consumed(**about))


def _wanted(tracer: Tracer, received: Received) -> bool:
    return received.wire_topic != tracer.topic and received.properties.get(Property.TRACE_ON) != "false"


def _started(tracer: Tracer, received: Received, group: str) -> dict[str, Any]:
    about: dict[str, Any] = {"message_id": received.id, "group": group, "request_id": tracer.next_id()}
    about["keys"] = KEY_SEPARATOR.join(received.keys)
    about["region"] = received.properties.get(Property.MSG_REGION, "")
    tracer.note(ConsumeStarted(**about, time_ms=tracer.clock.now_ms(), retries=received.attempt - 1))
    return about


def _outcome(fault: Exception | None) -> ConsumeOutcome:
    if fault is None:
        return ConsumeOutcome.SUCCESS
    if isinstance(fault, TimeoutError):
        return ConsumeOutcome.TIME_OUT
    return ConsumeOutcome.FAILED if isinstance(fault, Reject | RetryLater) else ConsumeOutcome.EXCEPTION


def trace_end(tracer: Tracer, *, group: str, state: str, half: SendResult, properties: Mapping[str, str]) -> None:
    """Trace that the producer ends a transaction, or leaves it open."""
    if half.is_traced and half.queue.topic != tracer.topic:
        address = tracer.store_host(half)
        about: dict[str, Any] = {
            "message_id": half.message_id,
            "topic": half.queue.topic,
            "store_host": address,
            "group": group,
        }
        tracer.note(_ended(tracer, about | {"region": half.region, "state": state}, properties))


def trace_answer(tracer: Tracer, *, group: str, state: str, half: Received, address: str) -> None:
    """Trace the state that answers a broker's question after a transaction."""
    if _wanted(tracer, half):
        about: dict[str, Any] = {"message_id": half.id, "topic": half.wire_topic, "store_host": address, "group": group}
        region = half.properties.get(Property.MSG_REGION, "")
        ended = about | {"region": region, "state": state, "from_check": True}
        tracer.note(_ended(tracer, ended, half.properties))


def _ended(tracer: Tracer, about: dict[str, Any], properties: Mapping[str, str]) -> TransactionEnded:
    about |= {"time_ms": tracer.clock.now_ms(), "transaction_id": about["message_id"]}
    return TransactionEnded(**about, **_words(properties))


def trace_recall(tracer: Tracer, *, group: str, result: SendResult, success: bool) -> None:
    if result.is_traced and result.queue.topic != tracer.topic:
        about: dict[str, Any] = {
            "message_id": result.message_id,
            "topic": result.queue.topic,
            "region": result.region,
            "group": group,
        }
        tracer.note(Recalled(**about, time_ms=tracer.clock.now_ms(), success=success))
