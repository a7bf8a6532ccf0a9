"""Quarantine for the records that one of the broker's own loops cannot handle.

A loop puts the record that fails into the store's quarantine (`store/tables/quarantine.py`) and goes on with the next
one. A fault of the disk or of the whole store belongs to no record: it is raised, and the loop tries again. What
somebody released from quarantine is put back at a start, where its loop reads it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from .. import logs
from ..errors import RequestRefused
from ..kernel.records import Placed
from ..model.codes import ResponseCode
from ..model.message import Property
from ..model.names import HALF_TOPIC, OP_HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC
from ..protocol.properties import decode_properties, find_property
from ..protocol.record import HEAD, Record, decode_record
from ..store.errors import StoreError
from ..store.files.disk import Disk, DiskError
from ..store.log.reader import KeyQuery
from ..store.message_store import MessageStore
from ..store.tables.quarantine import Quarantine, QuarantinedRecord, read_copy, remove_copy
from .intake.intake import Done, Intake, Outcome
from .intake.parking import fit_properties

log = logs.get("pyromq.broker")

T = TypeVar("T")
_LOOP_TOPICS = (SCHEDULE_TOPIC, TIMER_TOPIC, HALF_TOPIC, OP_HALF_TOPIC)


def is_fault_of_record(fault: Exception) -> bool:
    """Tell whether other records may still succeed. A full disk and a closed store fail for all of them."""
    if isinstance(fault, RequestRefused):
        return fault.code == ResponseCode.MESSAGE_ILLEGAL
    return not isinstance(fault, DiskError | StoreError)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LoopQuarantine:
    """The quarantine as one loop uses it: every entry carries the loop's name. Event loop only."""

    quarantine: Quarantine
    loop: str

    def __contains__(self, position: int) -> bool:
        return position in self.quarantine

    def put(self, record: Record, why: Exception | str) -> None:
        """Put a record into quarantine. Raise `why` instead where it is not the record's own fault."""
        self.put_at(record.physical_offset, record.size, record.topic, record.queue_id, why)

    def put_at(self, position: int, size: int, topic: str, queue_id: int, why: Exception | str) -> None:
        """Put a record that was not decoded into quarantine."""
        if isinstance(why, Exception) and not is_fault_of_record(why):
            raise why
        self.quarantine.add(self.loop, position, size, topic, queue_id, why)

    def put_refused(self, record: Record, refusal: RequestRefused) -> bool:
        """Put a record into quarantine whose put would be refused for ever. False: a later try may succeed."""
        if not is_fault_of_record(refusal):
            return False
        self.put(record, refusal)
        return True

    def done(
        self,
        record: Record,
        refusals: list[RequestRefused],
        left: Callable[[Placed | None], None] = lambda placed: None,
    ) -> Done:
        """Return what to call with the outcome of a put for `record`.

        It calls `left` with where the message is now, or with None if that would be refused for ever and the record is
        in quarantine. Any other refusal is added to `refusals`.
        """

        def done(outcome: Outcome) -> None:
            if outcome.refusal is None:
                left(outcome.places[-1])
            elif self.put_refused(record, outcome.refusal):
                left(None)
            else:
                refusals.append(outcome.refusal)

        return done

    async def tried(self, record: Record, work: Awaitable[T]) -> T | None:
        """Return what the work on a record gives; None if it failed, and the record is in quarantine."""
        try:
            return await work
        except Exception as fault:
            self.put(record, fault)
            return None

    def decode(self, raws: Iterable[bytes], topic: str) -> list[Record]:
        """Decode records, without those in quarantine. One that cannot be decoded goes there."""
        records = []
        for raw in raws:
            try:
                record = decode_record(raw)
            except Exception as fault:
                self.put_at(position_of(raw), len(raw), topic, 0, fault)
                continue
            if record.physical_offset not in self.quarantine:
                records.append(record)
        return records


def position_of(raw: bytes) -> int:
    """Return where a record lies in the log, by its head alone."""
    return int(HEAD.unpack_from(raw)[6])


async def put_released(
    quarantine: Quarantine, store: MessageStore, disk: Disk, intake: Intake, store_host: bytes
) -> None:
    """Put each released record to the end of its queue as a new one, where its loop finds it.

    A dead letter or a plain message is still in its queue, where consumers find it: it only leaves the list.
    """
    quarantine.forget_before(store.commit_log.start)
    for one in quarantine.released():
        try:
            record = _found(one, store, disk)
            is_there = await _is_put_again(record, store)
        except Exception as fault:
            quarantine.add(one.loop, one.position, one.size, one.topic, one.queue_id, fault)
            continue
        if one.topic not in _LOOP_TOPICS and one.position >= store.commit_log.start:
            quarantine.forget(one.position)
            continue
        if is_there:
            quarantine.note(msgspec.structs.replace(one, is_put_again=True))
            continue
        # Without the CRC of the old record.
        properties = fit_properties(decode_properties(record.properties), "release")
        copy = msgspec.structs.replace(record, properties=properties, physical_offset=0, store_host=store_host)
        intake.put(copy, _done(quarantine, disk, one))
    intake.flush()


async def _is_put_again(record: Record, store: MessageStore) -> bool:
    """Tell, by its unique id, whether an earlier start put it and was killed before the list said so."""
    unique = find_property(record.properties, Property.UNIQ_KEY.encode())
    if unique is None:
        return False
    return any(
        found.physical_offset > record.physical_offset
        and found.born_timestamp == record.born_timestamp
        and found.body == record.body
        for found in await store.by_key(KeyQuery(record.topic, unique.decode("utf-8", "replace")))
    )


def _found(one: QuarantinedRecord, store: MessageStore, disk: Disk) -> Record:
    if one.position >= store.commit_log.start:
        return decode_record(store.commit_log.read(one.position, one.size))
    raw = read_copy(disk, one)
    if raw is None:
        raise StoreError(f"its log file has gone, and there is no {one.copy_name}")
    return decode_record(raw)


def _done(quarantine: Quarantine, disk: Disk, one: QuarantinedRecord) -> Callable[[Outcome], None]:
    def done(outcome: Outcome) -> None:
        if outcome.refusal is not None:
            log.error("a record that was released waits on", position=one.position, why=str(outcome.refusal))
            return
        quarantine.note(msgspec.structs.replace(one, is_put_again=True))
        remove_copy(disk, one)
        log.info("a record that was released is put again", position=one.position, topic=one.topic)

    return done
