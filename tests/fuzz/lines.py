"""A raw connection for fuzzed frames: any bytes out, answers in. Requests of the broker are answered with nonsense.

It keeps the frames that it sent, so that a failure can show the last ones, and knows which answers are still owed.
"""

from __future__ import annotations

import asyncio
import random

from pyromq.errors import ProtocolError
from pyromq.model.codes import ResponseCode
from pyromq.protocol.command import RESPONSE_FLAG, Command
from pyromq.protocol.frame import encode_frame
from pyromq.protocol.requests import ROWS
from tests.fuzz import values
from tests.fuzz.bodies import as_json
from tests.fuzz.frames import Made
from tests.fuzz.shapes import is_json, tree
from tests.fuzz.values import World
from tests.wire import FrameDecoder

SENTINEL = 0x7ABC  # a code that nobody knows: it is refused at once, behind all that came before it
LONGEST_S = 60.0  # for an answer that is owed; nine of us share two cores at times
WITHIN_S = 10.0  # for an answer that a sequence would like to have


class Broken(Exception):
    """The daemon did something that it must never do. The text says what."""


class Line(asyncio.Protocol):
    """Event loop only. Not `is_open` once either side has closed."""

    def __init__(self, rng: random.Random, world: World) -> None:
        self._rng = rng
        self._world = world
        self._decoder = FrameDecoder()
        self._transport: asyncio.Transport | None = None
        self._waiting: dict[int, asyncio.Future[Command | None]] = {}
        self._owed: dict[int, Made] = {}
        self._changed = asyncio.Event()
        self._sentinels = 0
        self.fault: str | None = None
        self.is_left = False
        self.sent = 0
        self.answers = 0
        self.refused = 0  # of these: who sent it may not

    @property
    def is_open(self) -> bool:
        """Whether frames can be sent: not behind one that left the stream out of step."""
        return self._transport is not None and not self._transport.is_closing() and not self.is_left

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self._owed.clear()
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_result(None)
        self._changed.set()

    def data_received(self, data: bytes) -> None:
        try:
            commands = self._decoder.feed(data)
        except ProtocolError as fault:
            self.fault = f"an answer cannot be read: {fault}"
            self.close()
            return
        for command in commands:
            if command.is_response:
                self._answered(command)
            elif not command.is_oneway and self._rng.random() < 0.7:
                self._answer(command)

    def _answered(self, command: Command) -> None:
        self.answers += 1
        self.refused += command.code == ResponseCode.NO_PERMISSION
        self._owed.pop(command.opaque, None)
        if (waiting := self._waiting.get(command.opaque)) is not None and not waiting.done():
            waiting.set_result(command)
        self._changed.set()

    def _answer(self, request: Command) -> None:
        """What a client that is broken or hostile answers to the broker."""
        rng = self._rng
        kind = ROWS[request.code].gives.body if request.code in ROWS else None
        body = as_json(rng, tree(rng, self._world, kind)) if is_json(kind) else b""
        if rng.random() < 0.5:
            body = values.hostile(rng, self._world).encode("utf-8", "surrogatepass")
        answer = Command(code=rng.choice((0, 0, 1, -5)), opaque=request.opaque, flag=RESPONSE_FLAG, body=body)
        self._write(encode_frame(answer))

    def send(self, made: Made) -> None:
        self.sent += 1
        if made.owed is not None and self.is_open:
            self._owed[made.owed] = made
        self._write(made.wire)
        if made.ends:
            self.is_left = self._rng.random() < 0.3  # a frame whose rest never comes; the campaign closes it later
            if not self.is_left:
                self.close()

    async def ask(self, made: Made) -> Command | None:
        """The answer; None if there is none in time, or the connection goes first."""
        if made.owed is None:
            self.send(made)
            return None
        waiting: asyncio.Future[Command | None] = asyncio.get_running_loop().create_future()
        self._waiting[made.owed] = waiting
        self.send(made)
        if not self.is_open and not waiting.done():
            waiting.set_result(None)
        try:
            async with asyncio.timeout(WITHIN_S):
                return await waiting
        except TimeoutError:
            return None
        finally:
            self._waiting.pop(made.owed, None)

    async def settle(self) -> None:
        """Return when everything before is answered or the connection is gone. Broken says what is not."""
        if not self.is_open:
            return self._check()
        self._sentinels += 1
        opaque = 0x40000000 + self._sentinels
        last = Command(code=SENTINEL, opaque=opaque)
        self._owed[opaque] = Made(encode_frame(last), SENTINEL)
        self._write(self._owed[opaque].wire)
        try:
            async with asyncio.timeout(LONGEST_S):
                while self._owed and self.is_open:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            first = next(iter(self._owed.values()))
            codes = sorted({made.code for made in self._owed.values()})
            self.fault = f"{len(self._owed)} requests {codes} have no answer after {LONGEST_S} s: {first.wire[:300]!r}"
        return self._check()

    def _check(self) -> None:
        if self.fault is not None:
            raise Broken(self.fault)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def _write(self, data: bytes) -> None:
        if self._transport is not None and self.is_open:
            self._transport.write(data)


async def connect(address: str, rng: random.Random, world: World) -> Line:
    host, _, port = address.rpartition(":")
    _, line = await asyncio.get_running_loop().create_connection(lambda: Line(rng, world), host, int(port))
    return line
