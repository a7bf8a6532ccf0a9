"""Messages that a consumer has for a time, without a broker: acks that leave together, failures, cancellation."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from pyromq.client.errors import Error, ReceiptExpired, Unreachable
from pyromq.client.pop.kept_pops import KeptPops
from pyromq.client.pop.leases import Leases
from pyromq.client.pop.pop_calls import ANY_QUEUE, Handed, PopRequest
from pyromq.client.pop.popped import Popped
from pyromq.client.subscription import Filter
from pyromq.protocol.bodies.keyed import MessageQueue
from pyromq.testing.clock import ManualClock
from tests.client.messages import stored

PLACE = MessageQueue(broker_name="b", queue_id=ANY_QUEUE, topic="T")


class Broker:
    """Answers as the test says, and notes what it was asked."""

    is_cancellable = is_renewing = False

    def __init__(self) -> None:
        self.acked: list[list[int]] = []
        self.receipts: list[str] = []  # which were acknowledged
        self.changed: list[tuple[int, float, bool]] = []
        self.popped: list[PopRequest] = []
        self.faults: list[Error] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def places(self, topic: str) -> list[MessageQueue]:
        return [PLACE]

    async def begin(self, request: PopRequest) -> list[Handed]:
        return await self.pop(request)

    async def pop(self, request: PopRequest) -> list[Handed]:
        self.popped.append(request)
        await self._answer()
        return [Handed(stored(0, b"x", topic="T"), PLACE, "r")]

    async def watch(self, request: PopRequest) -> bool:
        return True

    async def ack(self, messages: Sequence[Popped]) -> None:
        self.acked.append([each.offset for each in messages])
        self.receipts += [each.receipt for each in messages]
        await self._answer()

    async def change(self, message: Popped, seconds: float, *, counts: bool) -> Any:
        await self._answer()
        self.changed.append((message.offset, seconds, counts))
        return "new"

    async def dead_letter(self, message: Popped, reason: str) -> None:
        await self._answer()

    async def _answer(self) -> None:
        await self.gate.wait()
        if self.faults:
            raise self.faults.pop()


def leased(leases: Leases, count: int, seconds: float = 30) -> list[Popped]:
    until = leases.clock.monotonic() + seconds
    found = [
        Popped(stored(offset, b"x", topic="T"), PLACE, receipt=f"r{offset}", until=until, keeper=leases)
        for offset in range(count)
    ]
    leases.add(found)
    return found


async def turns(count: int = 20) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_acks_that_come_while_a_request_is_under_way_leave_together() -> None:
    broker, clock = Broker(), ManualClock()
    leases = Leases(broker, clock, "g", 0)
    messages = leased(leases, 6)
    broker.gate.clear()
    messages[0].ack()
    messages[1].ack()
    await turns()
    for each in messages[2:]:
        each.ack()
    await turns()
    assert broker.acked == [[0, 1]]
    broker.gate.set()
    await leases.flush()
    assert broker.acked == [[0, 1], [2, 3, 4, 5]]
    assert leases.open == []


async def test_acks_wait_for_the_linger() -> None:
    broker, clock = Broker(), ManualClock()
    leases = Leases(broker, clock, "g", 0.005)
    first, second = leased(leases, 2)
    acking = asyncio.ensure_future(leases_ack(first))
    await turns()
    assert broker.acked == []
    second.ack()
    await clock.advance(0.005)
    await acking
    assert broker.acked == [[0, 1]]


async def leases_ack(message: Popped) -> None:
    await message.ack()


async def test_a_cancelled_wait_for_an_ack_does_not_undo_it() -> None:
    broker, clock = Broker(), ManualClock()
    leases = Leases(broker, clock, "g", 0)
    (message,) = leased(leases, 1)
    broker.gate.clear()
    waiting = asyncio.ensure_future(leases_ack(message))
    await turns()
    waiting.cancel()
    await turns()
    broker.gate.set()
    await leases.flush()
    assert (broker.acked, leases.open) == ([[0]], [])


async def test_a_failed_ack_is_heard_of_once_and_may_be_repeated() -> None:
    broker, clock = Broker(), ManualClock()
    leases = Leases(broker, clock, "g", 0)
    one, two = leased(leases, 2)
    broker.faults = [Unreachable("gone"), Unreachable("gone")]
    with pytest.raises(Unreachable):
        await one.ack()
    await leases.flush()  # it was heard of
    two.ack()
    with pytest.raises(Unreachable):
        await leases.flush()
    assert set(leases.open) == {one, two}
    await asyncio.gather(one.ack(), two.ack())
    assert leases.open == []


async def test_expired_messages_say_so_and_a_renewal_counts_from_now() -> None:
    broker, clock = Broker(), ManualClock()
    leases = Leases(broker, clock, "g", 0)
    kept, lost = leased(leases, 2, seconds=10)
    await clock.advance(6)
    await kept.later(10)
    assert (kept.receipt, kept.left_s) == ("new", 10)
    await clock.advance(5)
    for late in (lost.later(5), leases_ack(lost), lost.dead_letter("no")):
        with pytest.raises(ReceiptExpired, match="1 s ago"):
            await late
    await kept.ack()
    assert broker.acked == [[0]]


async def test_a_close_waits_for_acks_and_gives_back_the_rest() -> None:
    broker, clock = Broker(), ManualClock()
    leases = Leases(broker, clock, "g", 5)  # longer than the test waits: the close does not
    done, left, late = leased(leases, 3)
    late.until = clock.monotonic()
    done.ack()
    await leases.close()
    assert broker.acked == [[0]]
    assert broker.changed == [(left.offset, 0, True)]
    with pytest.raises(Error, match="given back"):
        await left.ack()


async def test_what_is_being_given_back_is_not_given_back_again_by_a_close() -> None:
    """A pop that ends while its consumer leaves brings messages, which are given back beside the close."""
    broker, clock = Broker(), ManualClock()
    leases = Leases(broker, clock, "g", 0)
    messages = leased(leases, 2)
    broker.gate.clear()
    abandoned = asyncio.ensure_future(leases.give_back(messages))
    await turns()
    closing = asyncio.ensure_future(leases.close())
    await turns()
    assert not closing.done()
    broker.gate.set()
    await asyncio.gather(abandoned, closing)
    assert broker.changed == [(0, 0, False), (1, 0, False)]
    assert leases.open == []


async def test_a_second_change_waits_for_the_receipt_of_the_first() -> None:
    broker, clock = Broker(), ManualClock()
    leases = Leases(broker, clock, "g", 0)
    (message,) = leased(leases, 1)
    broker.gate.clear()
    first, second = asyncio.ensure_future(message.later(0)), asyncio.ensure_future(message.later(0))
    await turns()
    broker.gate.set()
    await first
    with pytest.raises(ReceiptExpired):
        await second
    assert broker.changed == [(0, 0, True)]


@pytest.mark.parametrize("fault", [None, Unreachable("gone")])
async def test_an_ack_beside_a_change_names_the_receipt_that_counts(fault: Error | None) -> None:
    """A handler may end while its message is renewed: the old receipt would acknowledge nothing."""
    broker, clock = Broker(), ManualClock()
    leases = Leases(broker, clock, "g", 0)
    (message,) = leased(leases, 1)
    broker.gate.clear()
    renewal = asyncio.ensure_future(message.later(60))
    await turns()
    acking = message.ack()
    await turns()
    broker.faults = [fault] if fault is not None else []
    broker.gate.set()
    await leases.flush()
    await acking
    assert broker.receipts == ["new" if fault is None else "r0"]
    await asyncio.gather(renewal, return_exceptions=True)


async def test_an_ack_beside_a_dead_letter_asks_for_nothing_more() -> None:
    broker, clock = Broker(), ManualClock()
    leases = Leases(broker, clock, "g", 0)
    (message,) = leased(leases, 1)
    broker.gate.clear()
    burial = asyncio.ensure_future(message.dead_letter("no"))
    await turns()
    acking = message.ack()
    broker.gate.set()
    await burial
    await acking
    assert (broker.acked, leases.open) == ([], [])


def asked(*, is_ordered: bool = False) -> PopRequest:
    return PopRequest(place=PLACE, wanted=Filter(), most=1, hold_s=1, invisible_s=30, is_ordered=is_ordered)


async def test_what_a_cancelled_pop_brings_is_handed_back() -> None:
    broker, abandoned = Broker(), list[Handed]()
    pops = KeptPops(broker, iter("abc").__next__, abandoned.extend)
    broker.gate.clear()
    waiting = asyncio.ensure_future(pops.pop(asked()))
    await turns()
    waiting.cancel()
    await turns()
    assert waiting.cancelled()
    assert abandoned == []
    broker.gate.set()
    await turns()
    assert len(abandoned) == 1


async def test_an_ordered_pop_without_an_answer_is_repeated_under_its_name() -> None:
    broker = Broker()
    pops = KeptPops(broker, iter("abc").__next__, list[Handed]().extend)
    broker.faults = [Unreachable("gone")]
    with pytest.raises(Unreachable):
        await pops.pop(asked(is_ordered=True))
    await pops.pop(asked(is_ordered=True))
    await pops.pop(asked(is_ordered=True))
    assert [each.attempt for each in broker.popped] == ["a", "a", "b"]
