"""Streams in memory behave as socket transports do."""

from __future__ import annotations

import asyncio

from pyromq.testing.clock import ManualClock
from pyromq.transport.memory import MemoryStream, pair

KIB = 1024


class Recorder(asyncio.Protocol):
    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.events: list[str] = []

    def data_received(self, data: bytes) -> None:
        self.pieces.append(data)

    def pause_writing(self) -> None:
        self.events.append("pause")

    def resume_writing(self) -> None:
        self.events.append("resume")

    def connection_lost(self, exc: Exception | None) -> None:
        self.events.append("lost" if exc is None else type(exc).__name__)


class Buffered(asyncio.BufferedProtocol):
    def __init__(self) -> None:
        self.buffer = bytearray(10)
        self.got = b""

    def get_buffer(self, sizehint: int) -> memoryview:
        return memoryview(self.buffer)

    def buffer_updated(self, nbytes: int) -> None:
        self.got += self.buffer[:nbytes]


def joined(chunk_bytes: int = 64 * KIB) -> tuple[MemoryStream, Recorder, MemoryStream, Recorder]:
    near, far = pair("a:1", "b:2", chunk_bytes)
    ours, theirs = Recorder(), Recorder()
    near.set_protocol(ours)
    far.set_protocol(theirs)
    return near, ours, far, theirs


async def test_bytes_arrive_with_the_next_turn_in_pieces(clock: ManualClock) -> None:
    near, _, _, theirs = joined(chunk_bytes=4)
    near.write(b"hello ")
    near.writelines([b"wor", b"ld"])
    assert theirs.pieces == []
    await clock.settle()
    assert theirs.pieces == [b"hell", b"o wo", b"rld"]


async def test_buffered_protocols_are_filled_piece_by_piece(clock: ManualClock) -> None:
    near, far = pair()
    receiver = Buffered()
    far.set_protocol(receiver)
    near.set_protocol(Recorder())
    near.write(bytes(range(35)))
    await clock.settle()
    assert receiver.got == bytes(range(35))


async def test_each_end_knows_both_addresses(clock: ManualClock) -> None:
    near, far = pair("a:1", "b:2")
    assert (near.get_extra_info("sockname"), near.get_extra_info("peername")) == (("a", 1), ("b", 2))
    assert (far.get_extra_info("sockname"), far.get_extra_info("peername")) == (("b", 2), ("a", 1))


async def test_a_receiver_that_pauses_fills_the_senders_buffer(clock: ManualClock) -> None:
    near, ours, far, theirs = joined()
    far.pause_reading()
    near.set_write_buffer_limits(high=100)
    near.write(bytes(100))
    assert ours.events == []
    near.write(b"x")
    assert ours.events == ["pause"]
    await clock.settle()
    assert (theirs.pieces, near.get_write_buffer_size()) == ([], 101)
    far.resume_reading()
    await clock.settle()
    assert (b"".join(theirs.pieces), near.get_write_buffer_size()) == (bytes(100) + b"x", 0)
    assert ours.events == ["pause", "resume"]


async def test_close_delivers_what_was_written_first(clock: ManualClock) -> None:
    near, ours, far, theirs = joined(chunk_bytes=10)
    near.write(bytes(35))
    near.close()
    near.write(b"too late")
    await clock.settle()
    assert b"".join(theirs.pieces) == bytes(35)
    assert (ours.events, theirs.events) == (["lost"], ["lost"])
    assert far.is_closing()


async def test_close_waits_for_a_receiver_that_pauses(clock: ManualClock) -> None:
    near, ours, far, theirs = joined()
    far.pause_reading()
    near.write(b"wait for me")
    near.close()
    await clock.settle()
    assert (ours.events, theirs.events) == ([], [])
    far.resume_reading()
    await clock.settle()
    assert (theirs.pieces, ours.events, theirs.events) == ([b"wait for me"], ["lost"], ["lost"])


async def test_abort_drops_what_was_written_and_resets_the_other_end(clock: ManualClock) -> None:
    near, ours, _, theirs = joined()
    near.write(b"lost")
    near.abort()
    await clock.settle()
    assert (theirs.pieces, ours.events, theirs.events) == ([], ["lost"], ["ConnectionResetError"])
