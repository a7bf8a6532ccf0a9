"""Flow control: a stream is read while no reason to pause holds, whatever the order in which reasons come and go."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from pyromq.protocol.command import Command
from pyromq.transport.connection.flow import FlowControl, Pause
from pyromq.transport.limits import Limits

SEND, PULL = 310, 11


class Stream(asyncio.Transport):
    """Refuses to be paused or resumed twice, as some loops do."""

    def __init__(self) -> None:
        super().__init__()
        self.reads, self.closing, self.unread = True, False, 0

    def is_closing(self) -> bool:
        return self.closing

    def pause_reading(self) -> None:
        assert self.reads
        assert not self.closing
        self.reads = False

    def resume_reading(self) -> None:
        assert not self.reads
        assert not self.closing
        self.reads = True

    def get_write_buffer_size(self) -> int:
        return self.unread


class Flow:
    """A flow control whose accounts are kept here."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.stream, self.kept = Stream(), 0
        self.control = FlowControl(self.stream, limits or Limits(), self._account)

    def _account(self, change: int) -> None:
        self.kept += change


@given(st.lists(st.tuples(st.booleans(), st.sampled_from(Pause))), st.integers(0, 40))
def test_the_stream_is_read_exactly_while_no_reason_holds(changes: list[tuple[bool, Pause]], closes_at: int) -> None:
    flow, holding = Flow(), set[Pause]()
    for number, (begins, reason) in enumerate(changes):
        flow.stream.closing = number >= closes_at
        (flow.control.pause if begins else flow.control.resume)(reason)
        (holding.add if begins else holding.discard)(reason)
        assert flow.control.reasons == holding
        assert flow.stream.closing or flow.stream.reads == (not holding)


def test_many_unfinished_requests_pause_until_half_of_them_are_finished() -> None:
    flow = Flow(Limits(unfinished_requests=4))
    requests = [Command(code=PULL, body=b"12345") for _ in range(4)]
    flow.control.submitted(requests, 400)
    assert (flow.control.reasons, flow.kept) == (frozenset({Pause.UNFINISHED}), 20)
    flow.control.finished(requests[0])
    assert not flow.stream.reads
    flow.control.finished(requests[1])
    assert flow.stream.reads
    for request in requests[2:]:
        flow.control.finished(request)
    assert (flow.kept, flow.control.requests.count) == (0, 0)


def test_draining_ends_with_the_last_send_and_begins_with_none() -> None:
    flow = Flow()
    flow.control.drain()
    assert flow.stream.reads
    send, pull = Command(code=SEND), Command(code=PULL)
    flow.control.submitted([send, pull], 300)
    flow.control.drain()
    flow.control.finished(pull)
    assert flow.control.reasons == {Pause.DRAINING}
    flow.control.finished(send)
    assert flow.stream.reads


def test_large_headers_are_counted_until_the_last_request_is_finished() -> None:
    flow = Flow()
    requests = [Command(code=PULL, body=b"1") for _ in range(3)]
    flow.control.submitted(requests, 100_000)
    assert flow.kept == 100_000
    for request in requests:
        flow.control.finished(request)
    assert flow.kept == 0


async def test_what_a_blocked_peer_does_not_read_is_counted_until_it_reads() -> None:
    flow = Flow()
    flow.control.pause(Pause.BLOCKED)
    waiter = flow.control.unblocked()
    for flow.stream.unread in (70_000, 30_000):
        assert flow.control.count_unread() == flow.kept == flow.stream.unread
    flow.control.unblock()
    assert (flow.kept, flow.stream.reads, waiter.done()) == (0, True, True)


def test_replies_that_wait_for_the_log_pause_above_the_mark() -> None:
    flow = Flow(Limits(write_high_bytes=100))
    for change, reads in ((90, True), (20, False), (-10, True), (-100, True)):
        flow.control.replies_pending(change)
        assert flow.stream.reads is reads
    assert flow.kept == 0


async def test_a_turn_is_yielded_for_one_pass_of_the_loop() -> None:
    flow = Flow()
    flow.control.yield_turn()
    assert not flow.stream.reads
    await asyncio.sleep(0)
    assert flow.stream.reads
