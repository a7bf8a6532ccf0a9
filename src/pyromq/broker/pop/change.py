"""Request 200053: a popped message stays invisible for another time, from now on. Answered once the journal has it.

The message moves to a check point of its own; the old receipt's ack is a no-op from then on, as in Java. A change by
the old receipt concerns the message where it is now: who repeats one whose answer was lost gets a receipt that counts.
What is not in flight any more, since it was acknowledged or given again, is refused with Java's code for what is not
there. Java would bring it back, as a second copy.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from ...ambient import Clock
from ...config import Live
from ...errors import RequestRefused
from ...kernel.pops import Ack
from ...model.codes import ResponseCode
from ...model.receipt import Receipt
from ...protocol.headers.pop import ChangeInvisibleTime, ChangeInvisibleTimeAnswer
from ...transport.dispatch import Answer, Reply, Request, RequestOf
from ..config import BrokerConfig
from ..intake.intake import Outcome
from ..intake.put_answers import answer
from .receipts import ReceiptChecks, handed_out, receipt_of
from .rollback import NOT_SET
from .seams import OrderPops, Spill
from .young.lanes import Lanes

NO_FIELDS = {"popTime": "0", "invisibleTime": "0", "reviveQid": "0"}


@dataclass(slots=True, eq=False, repr=False)
class ChangeHandler:
    """Event loop only."""

    live: Live[BrokerConfig]
    clock: Clock
    checks: ReceiptChecks
    lanes: Lanes
    order: OrderPops
    spill: Spill | None = None

    def __call__(self, request: RequestOf[ChangeInvisibleTime, None]) -> Answer:
        header = request.header
        receipt = self._checked(request, header)
        if receipt.is_ordered:
            return self.order.change(request, receipt)
        now_ms = self._change(header, receipt)
        if now_ms is None:
            return self._change_old(request, header, receipt)
        self.lanes.journal.after(partial(self._answer, request, header, receipt, now_ms))
        return None

    def _checked(self, request: Request, header: ChangeInvisibleTime) -> Receipt:
        try:
            self.checks.topic(header, request.peer)
            receipt = receipt_of(header)
        except RequestRefused as refusal:
            raise RequestRefused(str(refusal), refusal.code, dict(NO_FIELDS)) from None
        low, high = self.checks.ends(header.topic, header.queue_id)
        if not low <= header.offset < high:
            raise RequestRefused(NOT_SET, ResponseCode.NO_MESSAGE, dict(NO_FIELDS))
        return receipt

    def _change(self, header: ChangeInvisibleTime, receipt: Receipt) -> int | None:
        """Move the message, and return its new pop time; None: the table does not have it."""
        lane = self.lanes.find(header.consumer_group, header.topic, header.queue_id)
        if lane is None:
            return None
        now_ms = self._move(lane, header, receipt.start, receipt.pop_time)
        if now_ms is None:
            moved_at = self.lanes.table.moved(lane, header.offset)
            if moved_at is None or moved_at < receipt.pop_time:
                return None
            now_ms = self._move(lane, header, header.offset, moved_at)
        self.lanes.settle(lane)
        return now_ms

    def _move(self, lane: int, header: ChangeInvisibleTime, start: int, pop_time: int) -> int | None:
        now_ms = self.clock.now_ms()
        while True:
            outcome = self.lanes.table.change(
                lane, start, pop_time, header.offset, now_ms, header.invisible_time, header.suspend
            )
            if outcome is not Ack.CLASH:
                return now_ms if outcome is Ack.SET else None
            now_ms += 1

    def _change_old(self, request: Request, header: ChangeInvisibleTime, receipt: Receipt) -> Answer:
        """Change one that is not in the table: it left memory, is settled, or was popped before we were started."""
        point = None
        if self.spill is not None:
            point = self.spill.current(handed_out(header.consumer_group, header.topic, receipt), header.offset)
        if self.spill is None or point is None:
            raise RequestRefused(NOT_SET, ResponseCode.NO_MESSAGE, dict(NO_FIELDS))
        # Never the old pop time again: its ack, which follows, would be the new check point's.
        now_ms = max(self.clock.now_ms(), point.pop_time + 1)
        done = partial(self._answer, request, header, receipt, now_ms)
        self.spill.change(point, header.offset, now_ms, header.invisible_time, header.suspend, done)
        return None

    def _answer(
        self, request: Request, header: ChangeInvisibleTime, receipt: Receipt, pop_time: int, outcome: Outcome
    ) -> None:
        if outcome.refusal is not None:
            reply = Reply(outcome.refusal.code, str(outcome.refusal), fields=dict(NO_FIELDS))
        else:
            reply = self._reply(header, receipt, pop_time)
        answer(request, reply)

    def _reply(self, header: ChangeInvisibleTime, receipt: Receipt, pop_time: int) -> Reply:
        answered = ChangeInvisibleTimeAnswer(
            pop_time=pop_time, invisible_time=header.invisible_time, revive_qid=receipt.revive_queue
        )
        return Reply(remark=NOT_SET, header=answered)
