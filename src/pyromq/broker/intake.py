"""The one door into the log: park, put, and wait until what was put is as safe as the flush mode promises.

Send, and later timers, transactions and pop, put through it. It is also where the store's errors become refusals.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..ambient import Clock
from ..errors import RequestRefused
from ..kernel.records import Placed
from ..model.codes import ResponseCode
from ..protocol.record import Record
from ..store.config import FlushMode
from ..store.disk import DiskError, DiskFull
from ..store.errors import RecordTooLarge, StoreNotWritable
from ..store.message_store import MessageStore
from .parking import Park


class Intake:
    """Event loop only."""

    def __init__(self, store: MessageStore, clock: Clock, flush_mode: FlushMode, parks: Sequence[Park] = ()) -> None:
        self._store = store
        self._clock = clock
        self._parks = parks
        self.waits_for_disk = flush_mode is FlushMode.SYNC
        self.waiting = 0  # puts whose caller waits for the disk

    def put(self, record: Record) -> Placed:
        """Store one record; RequestRefused says why it cannot be."""
        try:
            return self._store.put((record,))[0]
        except (RecordTooLarge, DiskError, StoreNotWritable) as fault:
            raise refusal(fault) from fault

    def put_batch(self, batch: Record) -> list[Placed]:
        """Store the messages of a batch body as records of their own, all or none."""
        try:
            return self._store.put_batch(batch)
        except (RecordTooLarge, DiskError, StoreNotWritable) as fault:
            raise refusal(fault) from fault

    def park(self, record: Record, properties: Mapping[str, str]) -> Record:
        """The record to store: this one, or what a park makes of it."""
        for park in self._parks:
            parked = park(record, properties)
            if parked is not None:
                return parked
        return record

    async def safe(self, end: int, timeout_s: float) -> bool:
        """Whether what ends there is on the medium, after waiting for it. False: not in time, but stored."""
        self.waiting += 1
        try:
            async with self._clock.timeout(timeout_s):
                await self._store.readable.reached(end)
        except TimeoutError:
            return False
        except StoreNotWritable as fault:
            raise refusal(fault) from fault
        finally:
            self.waiting -= 1
        return True


def refusal(fault: RecordTooLarge | DiskError | StoreNotWritable) -> RequestRefused:
    """What a client is told: its own fault is not worth another try, ours is, at another broker."""
    if isinstance(fault, RecordTooLarge):
        return RequestRefused(f"the message is illegal: {fault}", ResponseCode.MESSAGE_ILLEGAL)
    if isinstance(fault, DiskFull):
        return RequestRefused(
            f"service not available now, the disk is full: {fault}", ResponseCode.SERVICE_NOT_AVAILABLE
        )
    return RequestRefused(f"service not available now: {fault}", ResponseCode.SERVICE_NOT_AVAILABLE)
