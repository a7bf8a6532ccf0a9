"""Connections that keep a broker busy with one user's signed requests, and count what passed that must not.

Each request has a number: those with a higher one than its connection had reached when an administrator got his answer
began after it.
"""

from __future__ import annotations

import asyncio
import struct
from typing import cast

from pyromq.access.signatures import Signer
from pyromq.ambient import SystemClock
from pyromq.model.codes import ResponseCode
from pyromq.protocol.command import Command, Encoding
from pyromq.protocol.frame import decode_frames, encode_frame
from pyromq.protocol.requests import RequestCode as Code
from tests.kernel.pop_frames import Popped, acks, entry, pop, popped
from tests.kernel.pop_frames import ack as ack_of

USER, PASSWORD = "shop", "the secret of the shop"
WINDOW = 32  # requests of a connection that are on their way
SEEN = 100  # answers of each connection to requests that began after a change
REFUSED = 16
NOTHING_THERE = (ResponseCode.PULL_NOT_FOUND, ResponseCode.POLLING_TIMEOUT)
OPAQUE_AT = 8 + 5  # in a frame whose header is binary


def frame_of(kind: str, queue: int) -> bytes:
    """A signed request with a binary header, in which its number has a place of its own: it is not signed."""
    if kind == "send":
        fields = {"a": "P", "b": "T", "c": "TBW102", "d": "4", "e": str(queue), "f": "0", "g": "1700000000000"}
        fields |= {"h": "0", "i": "UNIQ_KEY\x01u\x02", "j": "0", "k": "false"}  # a kernel takes those with an id
        command = Command(code=Code.SEND_MESSAGE_V2, fields=fields, body=b"hello", encoding=Encoding.ROCKETMQ)
    else:
        fields = {"consumerGroup": "G", "topic": "T", "queueId": str(queue), "queueOffset": "0", "maxMsgNums": "1"}
        fields |= {"sysFlag": "4", "commitOffset": "0", "suspendTimeoutMillis": "0", "subscription": "*"}
        command = Command(code=Code.PULL_MESSAGE, fields=fields | {"subVersion": "0"}, encoding=Encoding.ROCKETMQ)
    Signer(USER, PASSWORD).sign(command)
    return encode_frame(command)


class Load(asyncio.Protocol):
    """One connection that has as many requests on their way as its window, all the time."""

    def __init__(self, kind: str, frame: bytes) -> None:
        self.kind, self._frame, self._rest = kind, bytearray(frame), b""
        self.number = 0  # of the last request that was written
        self.boundary = 0  # the last one that began before the change was answered
        self.is_refused = False  # what those behind the boundary have to be
        self.seen = 0  # answers to those
        self.wrong: list[tuple[int, int]] = []
        self.counts = [0, 0]  # answers in all: served, refused
        self._done: asyncio.Future[None] | None = None
        self._lost: Exception | None = None
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self._write(WINDOW)

    def _write(self, count: int) -> None:
        out = bytearray()
        for _ in range(count):
            self.number += 1
            struct.pack_into(">i", self._frame, OPAQUE_AT, self.number)
            out += self._frame
        self.transport.write(out)

    def data_received(self, data: bytes) -> None:
        buffer, at, answers = self._rest + data, 0, 0
        while len(buffer) - at >= 4 and len(buffer) - at >= 4 + (size := int.from_bytes(buffer[at : at + 4], "big")):
            code, _, _, number = struct.unpack_from(">hBHi", buffer, at + 8)
            assert buffer[at + 4] == Encoding.ROCKETMQ.value
            self._answered(number, code)
            answers += 1
            at += 4 + size
        self._rest = buffer[at:]
        self._write(answers)

    def _answered(self, number: int, code: int) -> None:
        self.counts[code == REFUSED] += 1
        if code not in (0, REFUSED):
            self.wrong.append((number, code))
        if number > self.boundary:
            self.seen += 1
            if (code == REFUSED) != self.is_refused:
                self.wrong.append((number, code))
            if self.seen == SEEN and self._done is not None:
                self._done.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = exc or EOFError("the broker hung up")
        if self._done is not None and not self._done.done():
            self._done.set_exception(self._lost)

    def pause(self) -> None:
        """Judge nothing for now: something is being changed."""
        self.boundary = 1 << 31

    def changed(self, is_refused: bool) -> asyncio.Future[None]:
        """Begin to count: what is written from now on began after the change. Done once enough of it is answered."""
        self.boundary, self.is_refused, self.seen = self.number, is_refused, 0
        self._done = asyncio.get_running_loop().create_future()
        if self._lost is not None:
            self._done.set_exception(self._lost)
        return self._done


class PopLoad(Load):
    """Pops, and acknowledges what it got, one by one and in batches; what is refused is tried again.

    Each request is signed by itself, since receipts differ. `acks`: of those the same counts."""

    def __init__(self) -> None:
        self._signer, self._stock = Signer(USER, PASSWORD), list[Popped]()
        self._born = SystemClock().now_ms() + 600_000  # however slow the machine is, no pop is too old
        self._asked: dict[int, list[Popped]] = {}
        self.acks = [0, 0]
        super().__init__("pop", b"")

    def _write(self, count: int) -> None:
        out = bytearray()
        for _ in range(count):
            self.number += 1
            out += self._signed(self._request())
        self.transport.write(out)

    def _request(self) -> bytes:
        number = self.number
        if not self._stock or not number % 2:
            most = 2 if len(self._stock) < 64 else 1  # there is always something to acknowledge
            return pop(number, count=most, topic="T", invisibleTime=600_000, bornTime=self._born)
        taken, self._stock = self._stock[: number // 2 % 2 + 1], self._stock[number // 2 % 2 + 1 :]
        self._asked[number] = taken
        if len(taken) == 1:
            return ack_of(taken[0], number, topic="T")
        return acks(number, *(entry([one], t="T") for one in taken))

    def _signed(self, frame: bytes) -> bytes:
        (command,), _, _ = decode_frames(frame)
        self._signer.sign(command)
        return encode_frame(command)

    def data_received(self, data: bytes) -> None:
        buffer = self._rest + data
        commands, used, _ = decode_frames(buffer)
        for command in commands:
            self._heard(command)
        self._rest = buffer[used:]
        self._write(len(commands))

    def _heard(self, answer: Command) -> None:
        acknowledged, code = self._asked.pop(answer.opaque, None), answer.code
        if acknowledged is None:
            self._stock += popped(answer)
            code = 0 if code in NOTHING_THERE else code
        else:
            self.acks[code == REFUSED] += 1
            if code == REFUSED:
                self._stock += acknowledged
        self._answered(answer.opaque, code)
