"""One slave at the HA port: it says how far its log reaches, and gets what it lacks, as it is appended.

States: it has not reported yet; it is streamed to; it is closed. The first report decides where the stream begins: with
0 at the start of the last file, as Java's slave expects (`haStartFromFirst`: of the first); in elected sets at the
first. One that this log cannot go on from ends the connection with a line that says what to do; Java's master would
send heartbeats for ever. A report that cannot be true, since it goes back or beyond what was sent here, ends it too,
and nothing that it said counts. What the bytes between the two look like is the wire's (`wires.py`).
"""

from __future__ import annotations

import asyncio
from typing import Protocol, cast

from .... import logs
from ....ambient import Clock, Timer
from ....errors import ProtocolError
from ....transport.address import parse_address
from ..settings import ReplicationSettings
from .log_source import PIECE_BYTES, LogSource
from .transfer_rate import TransferRate
from .wires import CannotServe, Wires

log = logs.get("pyromq.broker")

WRITE_AHEAD_BYTES = 128 << 10  # kept for a slave that is slower than its master
GATHER_S = 0.001  # of appends that leave together, where no send waits for slaves
TURN_BYTES = 64 << 10  # to one slave in a turn of the loop: others want theirs


class SenderOwner(Protocol):
    """Who has the senders of a broker: `HaPort`."""

    @property
    def settings(self) -> ReplicationSettings: ...

    @property
    def gathers(self) -> bool:
        """Return whether no send waits for slaves: what is appended may leave a moment later."""
        ...

    def reported(self, sender: LogSender) -> None:
        """Note that a slave has told how far it is."""
        ...

    def closed(self, sender: LogSender) -> None: ...


class LogSender(asyncio.Protocol):
    """Event loop only. `address` is the slave's end of the connection."""

    def __init__(
        self, address: str, source: LogSource, clock: Clock, warn: logs.Limited, owner: SenderOwner, wires: Wires
    ) -> None:
        self.address = address
        self.acked = 0  # the slave has this log up to here
        self.sent = -1  # up to here it was sent; negative before the first report
        self.begun_at = 0  # the first position that it was sent
        self.heard = clock.monotonic()
        self.rate = TransferRate()
        self._source = source
        self._clock = clock
        self._warn = warn
        self._owner = owner
        self._wire = wires(self.close)
        self._stream: asyncio.Transport | None = None
        self.is_held = True  # until the owner lets it begin
        self._can_write = True
        self._is_pumping = False
        self._reading: asyncio.Task[None] | None = None
        self._wrote = self.heard
        self._timer: Timer | None = None

    # --- the connection -------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._stream = cast(asyncio.Transport, transport)  # uvloop's is none by its type
        self._stream.set_write_buffer_limits(WRITE_AHEAD_BYTES)
        self._stream.pause_reading()
        if not self.is_held:
            self.begin()

    def begin(self) -> None:
        """Listen to the slave: it is one that may connect."""
        self.is_held = False
        if self._stream is not None:
            self._stream.resume_reading()
            self._tick()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end()

    def close(self, why: str, **facts: object) -> None:
        """End the connection, with a line that says why."""
        if self._stream is not None:
            self.say(why, **facts)
        self.drop()

    def say(self, why: str, **facts: object) -> None:
        """Log why the connection ends."""
        if self._warn.lets_through(why, facts):
            log.warning("a slave's connection was closed", why=why, slave=self.address, **facts)

    def drop(self) -> None:
        """End the connection."""
        if self._stream is not None:
            self._stream.abort()
        self._end()

    def _end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._reading is not None:
            self._reading.cancel()
        self._stream, self._timer, self._reading = None, None, None
        self._wire.closed()
        self._owner.closed(self)

    @property
    def who(self) -> str:
        """Return by what this slave is known when it comes back."""
        return self._wire.who or parse_address(self.address)[0]

    @property
    def needs_from(self) -> int:
        """Return where the log begins that it has not got yet."""
        return max(self.acked, self.begun_at)

    @property
    def is_streaming(self) -> bool:
        return self.sent >= 0 and self._stream is not None

    # --- reports --------------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        self.heard = self._clock.monotonic()
        try:
            reports, answer = self._wire.hear(data)
        except ProtocolError as fault:
            self.close("what it sends are no reports", detail=str(fault))
            return
        if answer and self._stream is not None:
            self._stream.write(answer)
        for position in reports:
            if self._stream is not None:
                self._report(position)

    def _report(self, position: int) -> None:
        if self.sent < 0:
            self._start(position)
        elif not self.acked <= position <= self.sent:
            self.close(
                "its report cannot be true, it goes back or beyond what was sent; nothing that it said counts",
                report=position,
                before=self.acked,
                sent=self.sent,
            )
        else:
            self._take(position)

    def _start(self, position: int) -> None:
        try:
            begins = self._wire.begin(position)
        except CannotServe as fault:
            self.close(str(fault), **fault.facts)
            return
        self.sent = self.begun_at = begins
        log.info("a slave follows", slave=self.address, reported=position, begins=begins, log_ends=self._source.end)
        if self._take(position):
            self.pump()

    def _take(self, position: int) -> bool:
        """Count a report. False: it cannot be true, and the connection has ended."""
        try:
            self._wire.note(position)
        except ProtocolError as fault:
            self.close("its report cannot be true; nothing that it said counts", detail=str(fault))
            return False
        self.acked = position
        self._owner.reported(self)
        return True

    # --- the stream -----------------------------------------------------------------------------------------------

    def pump_soon(self) -> None:
        """Send what was appended, at the end of this turn of the loop. Where nobody waits for the slave: what came
        within a millisecond together, since each piece costs both sides a turn."""
        if self._is_pumping or not self._can_write or not self.is_streaming or self._reading is not None:
            return
        self._is_pumping = True
        since_s = self._clock.monotonic() - self._wrote if self._owner.gathers else GATHER_S
        if since_s < GATHER_S:
            self._clock.call_later(GATHER_S - since_s, self._pump)
        else:
            asyncio.get_running_loop().call_soon(self._pump)

    def pause_writing(self) -> None:
        self._can_write = False

    def resume_writing(self) -> None:
        self._can_write = True
        self.pump()

    def _pump(self) -> None:
        self._is_pumping = False
        self.pump()

    def pump(self) -> None:
        """Send what there is, as much as the connection takes now."""
        turn_end = self.sent + TURN_BYTES
        while self.is_streaming and self._can_write and self._reading is None and self.sent < self._source.end:
            if self.sent >= turn_end:
                self._is_pumping = True
                asyncio.get_running_loop().call_soon(self._pump)
                return
            allowed = self._allowed()
            if not allowed:
                return  # the next tick goes on
            if self.sent < self._source.start:
                self.close("what it needs next has expired here. Begin with an empty store there", next=self.sent)
                return
            piece = self._source.read_now(self.sent, min(allowed, PIECE_BYTES))
            if piece is None:
                self._reading = asyncio.get_running_loop().create_task(self._pump_cold(min(allowed, PIECE_BYTES)))
            else:
                self._send(piece)

    async def _pump_cold(self, most: int) -> None:
        """Send a piece that is not in memory."""
        piece = await self._source.read_later(self.sent, most)
        self._reading = None
        if not piece:
            self.close("this log cannot be read where it goes on", position=self.sent)
        elif self.is_streaming:
            self._send(piece)
            self.pump()

    def _send(self, piece: bytes) -> None:
        """Write a piece of one file as chunks."""
        assert self._stream is not None
        most, left = self._owner.settings.ha_transfer_batch_size, memoryview(piece)
        while left:
            length = self._wire.run(self.sent, min(most, len(left)))
            self._stream.writelines((self._wire.head(self.sent, length), left[:length]))
            self.sent, left = self.sent + length, left[length:]
        self._note_written(len(piece))

    def _note_written(self, size: int) -> None:
        self._wrote = self._clock.monotonic()
        self.rate.note(self._wrote, size)

    def _allowed(self) -> int:
        """Return how many bytes may be sent now."""
        settings = self._owner.settings
        if not settings.ha_flow_control_enable:
            return PIECE_BYTES
        return self.rate.left(self._clock.monotonic(), settings.max_ha_transfer_byte_in_second)

    # --- time -----------------------------------------------------------------------------------------------------

    def _tick(self) -> None:
        """Send a heartbeat when one is due; give up a slave that is silent; go on where the rate had held it."""
        settings, now = self._owner.settings, self._clock.monotonic()
        heartbeat_s, silence_s = settings.ha_send_heartbeat_interval / 1000, settings.ha_housekeeping_interval / 1000
        if now - self.heard >= silence_s:
            self.close("it was silent for too long", silent_s=round(now - self.heard, 1), key="haHousekeepingInterval")
            return
        is_due = now - self._wrote >= heartbeat_s or self._wire.has_news
        if is_due and self.is_streaming and self._stream is not None and self._reading is None:
            self._stream.write(self._wire.head(self.sent, 0))
            self._note_written(0)
        self.pump()
        self._timer = self._clock.call_later(min(heartbeat_s, silence_s, 1.0) / 2, self._tick)
