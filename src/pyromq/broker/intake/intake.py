"""The one way into the log: park, gather, put, and answer once what was put is as safe as the flush mode promises.

Everything that arrives in one turn of the loop is put as one burst: one write, one look at each queue. Sends, retries,
delays, timers and transactions put through it. It is also where the store's errors become refusals. Whatever goes wrong
with one record of a burst, or with its caller, is that one's alone: all others are stored and answered.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias

from ... import logs
from ...ambient import Clock
from ...errors import ProtocolError, RequestRefused
from ...kernel.records import Placed
from ...kernel.state import Gate, Reason
from ...model.codes import ResponseCode
from ...protocol.batch import BatchEntries
from ...protocol.record import Record
from ...store.errors import RecordTooLarge, StoreError, StoreNotWritable
from ...store.files.disk import DiskError, DiskFull
from ...store.message_store import MessageStore
from ..stats.counters import PutCounter
from ..stats.put_times import PutTimes
from .parking import Park

log = logs.get("pyromq.broker")

SAID_AGAIN_S = 10.0  # tracebacks of faults that a client could repeat without end


class Outcome(NamedTuple):
    """How a put ended. With a refusal nothing is stored; late: stored, but not on the medium or on slaves in time.

    repeat: it was stored before, at these places, and not again now (`send_once.py`).
    """

    places: Sequence[Placed] = ()
    refusal: RequestRefused | None = None
    late: ResponseCode | None = None
    repeat: bool = False


Done: TypeAlias = Callable[[Outcome], None]

# Returns SUCCESS where enough copies have what ends at a position, else what is said of it.
PutStatus: TypeAlias = Callable[[int], ResponseCode]


class SendIntake(Protocol):
    """What `send/handler.py` puts through: the intake, or the duplicate window before it."""

    def park(self, record: Record, properties: Mapping[str, str]) -> Record: ...

    def put(self, record: Record, done: Done, wait_s: float = 0.0) -> None: ...

    def put_batch(
        self, batch: Record, done: Done, wait_s: float = 0.0, entries: BatchEntries | None = None
    ) -> None: ...


class _Put(NamedTuple):
    record: Record
    done: Done
    wait_s: float  # how long to wait for the medium; 0: the page cache will do


class _Unsynced(NamedTuple):
    """Stored, and waiting for the medium."""

    end: int
    deadline: float
    places: Sequence[Placed]
    done: Done


class Intake:
    """Event loop only. Records of one queue are stored in the order in which they came."""

    def __init__(
        self,
        store: MessageStore,
        clock: Clock,
        waits: bool,
        gate: Gate,
        parks: Sequence[Park] = (),
        listeners: Mapping[str, Callable[[Record], None]] | None = None,
        status: PutStatus = lambda position: ResponseCode.SUCCESS,
    ) -> None:
        """`waits`: puts are answered once they are readable, by their `status` then. `gate` is closed while a burst is
        gathered. `listeners`, by topic, see a stored record before its caller."""
        self._store = store
        self._clock = clock
        self._gate = gate
        self._parks = parks
        self._listeners = listeners or {}
        self.times = PutTimes()
        self._waits = waits
        self._status = status
        self._gathered: list[_Put] = []  # this turn's burst
        self._unsynced: deque[_Unsynced] = deque()
        self._few = logs.Limited(log, clock, SAID_AGAIN_S)
        self._watch: asyncio.Task[None] | None = None

    @property
    def waiting(self) -> int:
        """Return how many stored puts wait for the medium."""
        return len(self._unsynced)

    def park(self, record: Record, properties: Mapping[str, str]) -> Record:
        """Return the record to store: this one, or what a park makes of it."""
        for park in self._parks:
            parked = park(record, properties)
            if parked is not None:
                return parked
        return record

    def put(self, record: Record, done: Done, wait_s: float = 0.0) -> None:
        """Store the record with this turn's burst; `done` is called with the outcome."""
        if not self._gathered:
            asyncio.get_running_loop().call_soon(self.flush)
            self._gate.set(Reason.GATHERED, True)
        self._gathered.append(_Put(record, done, wait_s))

    def put_batch(self, batch: Record, done: Done, wait_s: float = 0.0, entries: BatchEntries | None = None) -> None:
        """Store the messages of a batch body as records of their own, all or none; or `entries` of it."""
        self.flush()  # what came before stays before
        begun = self._clock.monotonic()
        try:
            places = self._store.put_batch(batch, entries)
        except ProtocolError as fault:
            self._answer(done, Outcome(refusal=illegal_batch(str(fault))))
        except Exception as fault:
            self._refused(fault, done)
        else:
            self.times.note(self._clock.monotonic() - begun, len(places))
            if places:
                self.confirm(places, done, wait_s)
            else:
                self._answer(done, Outcome(refusal=illegal_batch("there is no message in it")))

    def flush(self) -> None:
        """Put what was gathered. By itself at the end of a turn; whoever stops the broker calls it too."""
        burst, self._gathered = self._gathered, []
        if not burst:
            return
        self._gate.set(Reason.GATHERED, False)
        begun = self._clock.monotonic()
        try:
            places = self._store.put([one.record for one in burst])
        except Exception as fault:  # nothing of it was written, whatever it was (`store/log/writer.py`)
            self._put_apart(burst, fault)
        else:
            self.times.note(self._clock.monotonic() - begun, len(burst))
            for one, placed in zip(burst, places, strict=True):
                self._stored(one, (placed,))

    def _put_apart(self, burst: list[_Put], fault: Exception) -> None:
        """Put the records one by one: one of them could not be written, and the others must not suffer for it."""
        if len(burst) == 1:
            self._refused(fault, burst[0].done)
            return
        for one in burst:
            try:
                places = self._store.put((one.record,))
            except Exception as own:
                self._refused(own, one.done)
            else:
                self._stored(one, places)

    def _stored(self, one: _Put, places: Sequence[Placed]) -> None:
        listener = self._listeners.get(one.record.topic)
        if listener is not None:
            try:
                listener(one.record)
            except Exception:
                self._few.exception("who listens to stored records failed", topic=one.record.topic)
        self.confirm(places, one.done, one.wait_s)

    def _refused(self, fault: Exception, done: Done) -> None:
        self.times.failed += 1
        if not isinstance(fault, DiskError | StoreError):
            self._few.exception("a record cannot be written and is refused, alone")
        self._answer(done, Outcome(refusal=refusal(fault)))

    def _answer(self, done: Done, outcome: Outcome) -> None:
        """Call `done`. What fails in it must not keep the others of its burst from their answers."""
        try:
            done(outcome)
        except Exception:
            self._few.exception("the outcome of a put could not be told to its caller", stored=len(outcome.places))

    # --- safe on the medium ---------------------------------------------------------------------------------------

    def confirm(self, places: Sequence[Placed], done: Done, wait_s: float) -> None:
        """Call `done` once what was put is as safe as promised."""
        if not self._waits or not wait_s or not places:
            self._answer(done, Outcome(places))
            return
        if places[-1].end <= self._store.readable.value:
            self._answer(done, Outcome(places, late=self._status(places[-1].end) or None))
            return
        self._unsynced.append(_Unsynced(places[-1].end, self._clock.monotonic() + wait_s, places, done))
        if self._watch is None:
            self._watch = asyncio.get_running_loop().create_task(self._until_safe())

    async def _until_safe(self) -> None:
        """Answer all that wait, in one task: positions only grow, so the first in line is the next to be safe."""
        try:
            while self._unsynced:
                await self._first_is_safe()
        except Exception:
            log.exception("whether puts are on the medium cannot be told: their callers are told that they are late")
            while self._unsynced:
                one = self._unsynced.popleft()
                self._answer(one.done, Outcome(one.places, late=ResponseCode.FLUSH_DISK_TIMEOUT))
        finally:
            self._watch = None

    async def _first_is_safe(self) -> None:
        first = self._unsynced[0]
        try:
            async with self._clock.timeout(first.deadline - self._clock.monotonic()):
                await self._store.readable.reached(first.end)
        except TimeoutError:
            self._unsynced.popleft()
            late = self._status(first.end) or ResponseCode.FLUSH_DISK_TIMEOUT
            self._answer(first.done, Outcome(first.places, late=late))
            return
        except StoreNotWritable as fault:
            while self._unsynced:
                self._answer(self._unsynced.popleft().done, Outcome(refusal=refusal(fault)))
            return
        safe = self._store.readable.value
        while self._unsynced and self._unsynced[0].end <= safe:
            one = self._unsynced.popleft()
            self._answer(one.done, Outcome(one.places, late=self._status(one.end) or None))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LogAccess:
    """The log for those who put messages on from there: what is stored, the one way in, time, this broker's address as
    it stands in records. `count` is called for every message that reached its topic. `knows_what_left`: tables tell all
    that was put from the log before this start; else what may have been is looked for.
    """

    store: MessageStore
    intake: Intake
    clock: Clock
    store_host: bytes
    count: PutCounter
    knows_what_left: bool = True

    def doubtful_until(self) -> int:
        """Return up to when what came due may have been put on before this start.

        Whoever put it may have had a clock that is ahead of this one: the log's last time says how far."""
        return max(self.clock.now_ms(), self.store.commit_log.tail.last_time)


def illegal_batch(why: str) -> RequestRefused:
    return RequestRefused(f"the batch is illegal: {why}", ResponseCode.MESSAGE_ILLEGAL)


def refusal(fault: Exception) -> RequestRefused:
    """Return the refusal for a failed put: illegal if it can never be stored, else another broker may do."""
    if isinstance(fault, MemoryError):
        return RequestRefused(
            "[OVERLOAD] the server has no memory for this request: ask for less, or try again later",
            ResponseCode.SYSTEM_BUSY,
        )
    if not isinstance(fault, DiskError | StoreError):
        return RequestRefused(
            f"the message is illegal: it cannot be written as a record, {type(fault).__name__}: {fault}. The broker's "
            "log has more",
            ResponseCode.MESSAGE_ILLEGAL,
        )
    if isinstance(fault, RecordTooLarge):
        return RequestRefused(f"the message is illegal: {fault}", ResponseCode.MESSAGE_ILLEGAL)
    if isinstance(fault, DiskFull):
        return RequestRefused(
            f"service not available now, the disk is full: {fault}", ResponseCode.SERVICE_NOT_AVAILABLE
        )
    return RequestRefused(f"service not available now: {fault}", ResponseCode.SERVICE_NOT_AVAILABLE)
