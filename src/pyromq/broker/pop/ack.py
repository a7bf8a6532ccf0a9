"""Acknowledging popped messages: requests 200051 (one) and 200151 (several of some check points).

An ack sets a bit of a young check point. One that belongs to no check point of the table may be for one that has left
memory; beyond that it changes nothing and is answered with success, as in Java. Answered once the journal has it.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from ...config import Live
from ...errors import RequestRefused
from ...kernel.pops import Ack
from ...model.codes import ResponseCode
from ...model.pop_names import popped_topic
from ...model.receipt import ORDER_REVIVE_QUEUE
from ...protocol.bodies.offsets import BatchAck, BatchAckMessageRequestBody
from ...protocol.headers.pop import AckMessage
from ...transport.dispatch import Answer, Reply, Request, RequestOf
from ..config import BrokerConfig
from ..intake.intake import Outcome
from ..intake.put_answers import answer, reply_to_put
from .receipts import ReceiptChecks, handed_out, receipt_of
from .seams import HandedOut, OrderPops, Spill
from .young.lanes import Lanes

MOST_BATCHED = 64  # offsets of one entry: no check point has more


@dataclass(slots=True, eq=False, repr=False)
class AckHandler:
    """Event loop only."""

    live: Live[BrokerConfig]
    checks: ReceiptChecks
    lanes: Lanes
    order: OrderPops
    spill: Spill | None = None
    acked: int = 0
    unknown: int = 0  # acks that belong to no check point

    def __call__(self, request: RequestOf[AckMessage, None]) -> Answer:
        header = request.header
        self.checks.topic(header, request.peer)
        receipt = receipt_of(header)
        low, high = self.checks.ends(header.topic, header.queue_id)
        if not low <= header.offset <= high:
            raise RequestRefused(
                f"offset is illegal, key:{header.topic}@{header.queue_id}, commit:{header.offset}, store:{low}~{high}",
                ResponseCode.NO_MESSAGE,
            )
        if receipt.is_ordered:
            return self.order.ack(request, receipt)
        point = handed_out(header.consumer_group, header.topic, receipt)
        answers = _Answers(request, self.live)
        self._ack(point, (header.offset,), answers)
        answers.close()
        return None

    def batch(self, request: RequestOf[None, BatchAckMessageRequestBody]) -> Answer:
        """Acknowledge the entries of a body; what is outside of its queue is left out."""
        body = request.body if request.raw_body else None
        if body is None or not body.acks:
            return Reply(ResponseCode.NO_MESSAGE)
        answers = _Answers(request, self.live)
        for entry in body.acks:
            self._ack_entry(entry, answers)
        answers.close()
        return None

    def _ack_entry(self, entry: BatchAck, answers: _Answers) -> None:
        topic = popped_topic(entry.t, entry.c, entry.r)
        low, high = self.checks.ends(topic, entry.q)
        offsets = [entry.so + bit for bit in set_bits(entry.b) if low <= entry.so + bit <= high]
        if not offsets:
            return
        if entry.rq == ORDER_REVIVE_QUEUE:
            self.order.ack_offsets(entry.c, topic, entry.q, entry.pt, offsets)
            self.lanes.journal.after(answers.part())
            return
        self._ack(HandedOut(entry.c, topic, entry.q, entry.so, entry.pt, entry.it, entry.rq), offsets, answers)

    def _ack(self, point: HandedOut, offsets: Sequence[int], answers: _Answers) -> None:
        lane = self.lanes.find(point.group, point.topic, point.queue_id)
        unknown: list[int] = []
        is_changed = False
        for offset in offsets:
            outcome = Ack.UNKNOWN if lane is None else self.lanes.table.ack(lane, point.start, point.pop_time, offset)
            if outcome is Ack.UNKNOWN:
                unknown.append(offset)
            elif outcome is Ack.SET:
                is_changed = True
                self.acked += 1
        if lane is not None and is_changed:
            self.lanes.settle(lane)
        if len(unknown) < len(offsets):
            self.lanes.journal.after(answers.part())
        if unknown:
            self.unknown += len(unknown)
            if self.spill is not None:
                self.spill.ack(point, unknown, answers.part())


@dataclass(slots=True)
class _Answers:
    """Answers one request when all its parts are done; the first refusal or lateness is what it says."""

    request: Request
    live: Live[BrokerConfig]
    _open: int = 1
    _worst: Outcome = field(default_factory=Outcome)

    def part(self) -> partial[None]:
        self._open += 1
        return partial(self._done)

    def close(self) -> None:
        """Say that there are no more parts."""
        self._done(Outcome())

    def _done(self, outcome: Outcome) -> None:
        if self._worst.refusal is None and (outcome.refusal is not None or outcome.late):
            self._worst = outcome
        self._open -= 1
        if self._open == 0:
            answer(self.request, reply_to_put(self._worst, self.live.config))


def set_bits(text: str) -> list[int]:
    """Return the bits that are set in the base64 text of a Java BitSet, the lowest first. Malformed text has none."""
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise RequestRefused(f"the bits of an entry are no base64 text: {text[:80]!r}") from None
    bits = int.from_bytes(raw[: MOST_BATCHED * 128], "little")
    found = []
    while bits:
        lowest = bits & -bits
        found.append(lowest.bit_length() - 1)
        bits ^= lowest
    return found
