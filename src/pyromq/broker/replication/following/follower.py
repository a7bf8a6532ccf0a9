"""A slave follows its master's log: finds the master, makes sure that the two logs agree, connects, takes, reports.

One task, `run`, for as long as the broker is a slave. Decisions are in `joining.py` (before a stream) and
`slave_stream.py` (within one). Bytes that come reach the log within the callback that brings them, so nothing is held
beside what has come of one record. What fails is tried again, later and later; but what fails three times at the same
place, or must not be followed at all, is not: this broker stops following, says why, and serves what it has.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from .... import logs
from ....ambient import Clock, Random
from ....errors import CallRefused, Malformed, ProtocolError, PyroError
from ....protocol.headers.pull import ViewMessage
from ....protocol.requests import RequestCode as Code
from ....store.log.following import NotFollowed
from ....store.message_store import MessageStore
from ....transport.client import Connect, Reconnect, RemotingClient
from ...registration import Identity
from ..asking import ask
from . import joining
from .joining import Beginning, CannotFollow, MastersLog, OwnLog
from .slave_stream import SlaveStream
from .stream_ends import StreamTimes, connected

log = logs.get("pyromq.broker")

MOST_FAULTS = 3  # at one place of the log, then this slave stops following
REPEAT_S = 60.0  # what stays wrong is said again and again
PERIOD_S = 1.0  # while no master is known
NOT_YET = "no master has been looked for yet"
PAUSES = Reconnect(first_s=0.2, most_s=5.0)  # 5 s: Java's slave waits as long each time


class MasterPlace(NamedTuple):
    """Where a master is: its main port, and the one that its log comes from."""

    address: str
    ha_address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowSettings:
    heartbeat_s: float = 5.0
    silence_s: float = 20.0
    after_flush: bool = False  # what is reported is on the medium (haAckAfterFlush)


@dataclass(eq=False, repr=False)
class Follower:
    """Event loop only.

    `find` says where the master is, as far as anybody has told; `look` asks for it anew; `no_master` says why nobody
    has. `joined` is called when a stream has begun."""

    store: MessageStore
    identity: Identity
    client: RemotingClient
    connect: Connect
    clock: Clock
    rng: Random
    settings: FollowSettings
    find: Callable[[], MasterPlace | None]
    look: Callable[[], None]
    no_master: Callable[[], str]
    joined: Callable[[], None] = lambda: None

    def __post_init__(self) -> None:
        self._limited = logs.Limited(log, self.clock, REPEAT_S)
        self.state = NOT_YET
        self.stopped: str | None = None  # why this slave does not follow any more
        self.place: MasterPlace | None = None
        self.is_connected = False
        self.times = StreamTimes()
        self._failures = 0
        self._fault_at, self._faults = -1, 0

    async def run(self) -> None:
        """Follow until cancelled."""
        while True:
            place = self.find()
            if place != self.place:
                self.place, self.stopped, self._faults = place, None, 0
            if place is None or self.stopped is not None:
                self.state = self.stopped or self.no_master()
                self.look()
                await self.clock.sleep(PERIOD_S)
                continue
            try:
                await self._follow(place)
            except PyroError as fault:
                self._note(place, fault)
            self._failures += 1
            self.look()
            await self.clock.sleep(PAUSES.delay_s(self._failures, self.rng))

    def _note(self, place: MasterPlace, fault: PyroError) -> None:
        """Say what went wrong, and stop following where another try would end alike."""
        self.state = str(fault)
        if isinstance(fault, CannotFollow):
            self._stop(place, str(fault))
        elif isinstance(fault, NotFollowed | ProtocolError):
            end = self.store.commit_log.end
            self._faults = self._faults + 1 if end == self._fault_at else 1
            self._fault_at = end
            if self._faults >= MOST_FAULTS:
                self._stop(
                    place, f"{fault}. It came {self._faults} times: look at the master's log (pyromq store verify)"
                )
            else:
                log.warning("what the master sent is not taken", master=place.ha_address, why=str(fault))
        else:
            self._limited.warning("the master is not followed now", master=place.address, why=str(fault))

    def _stop(self, place: MasterPlace, why: str) -> None:
        self.stopped = f"this slave has stopped following {place.address}: {why}"
        log.error("this slave has stopped following", master=place.address, why=why)

    # --- before the stream ----------------------------------------------------------------------------------------

    async def _follow(self, place: MasterPlace) -> None:
        self.state = f"joining {place.address}"
        await self._join(await self._ask_master(place.address))
        if self.settings.after_flush:
            await self.store.flush_log()
        await self._stream(place)

    async def _ask_master(self, address: str) -> MastersLog:
        _, settings = await ask(self.client, address, Code.GET_BROKER_CONFIG)
        _, runtime = await ask(self.client, address, Code.GET_BROKER_RUNTIME_INFO)
        return joining.masters_log(address, settings, runtime.table)

    def _own_log(self) -> OwnLog:
        commit_log = self.store.commit_log
        return OwnLog(commit_log.start, commit_log.end, commit_log.tail.last_position, commit_log.file_bytes)

    async def _join(self, master: MastersLog) -> None:
        """Make sure that this log may go on as the master's. CannotFollow says why not."""
        own = self._own_log()
        joining.check_master(master, self.identity, own)
        beginning = joining.how_to_begin(master, own)
        following = self.store.following
        if beginning is Beginning.COMPARE:
            await self.compare_last(master)
        elif beginning is Beginning.AT_START:
            following.begin_at(master.start)
        elif beginning is Beginning.FIRST_RECORD:
            first = await self._record(master.address, 0)
            following.begin_at(0)
            following.take(0, first)

    async def compare_last(self, master: MastersLog) -> None:
        """Compare the last record here, if there is one, with the master's at its place. CannotFollow: it differs."""
        own = self._own_log()
        if own.is_empty:
            return
        theirs = await self._record(master.address, own.last)
        joining.check_last(master, own, self.store.commit_log.read(own.last, own.end - own.last)[: len(theirs)], theirs)

    async def _record(self, address: str, position: int) -> bytes:
        """Return the master's record at a position, as it is stored."""
        try:
            _, record = await ask(self.client, address, Code.VIEW_MESSAGE_BY_ID, ViewMessage(offset=position))
        except CallRefused as refusal:
            raise NotFollowed(f"the master {address} shows no record at {position}: {refusal}") from refusal
        if not record:
            raise Malformed(f"{address} answered request 33 without a record")
        return bytes(record)

    # --- the stream -----------------------------------------------------------------------------------------------

    async def _stream(self, place: MasterPlace) -> None:
        stream = SlaveStream(self.store.following, self._reached, self.settings.heartbeat_s, self.settings.silence_s)
        ends = await connected(stream, self.connect, place.ha_address, self.clock, self.times)
        log.info("following the master", master=place.address, ha=place.ha_address, position=stream.following.position)
        self.state, self.is_connected = f"following {place.address}", True
        self.joined()
        try:
            await ends.serve(self._stirred)
        finally:
            self.is_connected = False
            ends.close()

    async def _stirred(self) -> None:
        self._failures = 0  # it sends: the next pause is a short one again
        if self.settings.after_flush:
            await self.store.flush_log()

    def _reached(self) -> int:
        return self.store.flushed.value if self.settings.after_flush else self.store.commit_log.end
