"""What the broker's loops share when a record cannot be handled: whose fault it is, and how a released one comes back.

Each loop puts aside what fails by itself (`store/recovery/quarantine.py`) and goes on with the next record; a fault
of the disk or of the whole store is no record's and is raised. `wiring/` calls `put_released` once at a start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from .. import logs
from ..errors import RequestRefused
from ..model.codes import ResponseCode
from ..model.message import Property
from ..model.names import HALF_TOPIC, OP_HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC
from ..protocol.properties import decode_properties, find_property
from ..protocol.record import HEAD, Record, decode_record
from ..store.errors import StoreError
from ..store.files.disk import Disk, DiskError
from ..store.log.reader import KeyQuery
from ..store.message_store import MessageStore
from ..store.recovery.quarantine import Aside, Quarantine, read_copy, remove_copy
from .intake.intake import Intake, Outcome
from .intake.parked_properties import shed

log = logs.get("pyromq.broker")

_WAITING = (SCHEDULE_TOPIC, TIMER_TOPIC, HALF_TOPIC, OP_HALF_TOPIC)  # topics that the broker's own loops read on


def is_of_the_record(fault: Exception) -> bool:
    """Whether another record may fare better. A full disk, a store that takes nothing: those are nobody's fault here,
    and are tried again."""
    if isinstance(fault, RequestRefused):
        return fault.code == ResponseCode.MESSAGE_ILLEGAL
    return not isinstance(fault, DiskError | StoreError)


class Asides:
    """Of one loop. Event loop only."""

    def __init__(self, quarantine: Quarantine, loop: str) -> None:
        self._quarantine = quarantine
        self._loop = loop

    def __contains__(self, position: int) -> bool:
        return position in self._quarantine

    def put(self, record: Record, why: Exception | str) -> None:
        """Raises what is not the record's own fault."""
        self.put_at(record.physical_offset, record.size, record.topic, record.queue_id, why)

    def put_at(self, position: int, size: int, topic: str, queue_id: int, why: Exception | str) -> None:
        if isinstance(why, Exception) and not is_of_the_record(why):
            raise why
        self._quarantine.put_aside(self._loop, position, size, topic, queue_id, why)

    def told(self, record: Record, refusal: RequestRefused) -> bool:
        """A put for it was refused. True: it is put aside, since it would be refused for ever."""
        if not is_of_the_record(refusal):
            return False
        self.put(record, refusal)
        return True

    def decoded(self, raws: Iterable[bytes], topic: str) -> list[Record]:
        """Those that can be read and are not put aside."""
        records = []
        for raw in raws:
            try:
                record = decode_record(raw)
            except Exception as fault:
                self.put_at(position_of(raw), len(raw), topic, 0, fault)
                continue
            if record.physical_offset not in self._quarantine:
                records.append(record)
        return records


def position_of(raw: bytes) -> int:
    """Where a record lies in the log, by its head alone."""
    return int(HEAD.unpack_from(raw)[6])


async def put_released(
    quarantine: Quarantine, store: MessageStore, disk: Disk, intake: Intake, store_host: bytes
) -> None:
    """Put what somebody has released to the end of its queue as a new record, where its loop finds it.

    What consumers find in its queue all the same, a dead letter or a plain message, only leaves the list.
    """
    quarantine.forget_before(store.commit_log.start)
    for one in quarantine.released():
        try:
            record = _found(one, store, disk)
            is_there = await _is_put_again(record, store)
        except Exception as fault:
            quarantine.put_aside(one.loop, one.position, one.size, one.topic, one.queue_id, fault)
            continue
        if one.topic not in _WAITING and one.position >= store.commit_log.start:
            quarantine.forget(one.position)
            continue
        if is_there:
            quarantine.note(msgspec.structs.replace(one, is_put_again=True))
            continue
        properties = shed(decode_properties(record.properties), "release")  # without the CRC of the old record
        copy = msgspec.structs.replace(record, properties=properties, physical_offset=0, store_host=store_host)
        intake.put(copy, _done(quarantine, disk, one))
    intake.flush()


async def _is_put_again(record: Record, store: MessageStore) -> bool:
    """Whether a start before this one put it, and was killed before the list said so. Its unique id tells."""
    unique = find_property(record.properties, Property.UNIQ_KEY.encode())
    if unique is None:
        return False
    return any(
        found.physical_offset > record.physical_offset
        and found.born_timestamp == record.born_timestamp
        and found.body == record.body
        for found in await store.by_key(KeyQuery(record.topic, unique.decode("utf-8", "replace")))
    )


def _found(one: Aside, store: MessageStore, disk: Disk) -> Record:
    if one.position >= store.commit_log.start:
        return decode_record(store.commit_log.read(one.position, one.size))
    raw = read_copy(disk, one)
    if raw is None:
        raise StoreError(f"its log file has gone, and there is no {one.copy_name}")
    return decode_record(raw)


def _done(quarantine: Quarantine, disk: Disk, one: Aside) -> Callable[[Outcome], None]:
    def done(outcome: Outcome) -> None:
        if outcome.refusal is not None:
            log.error("a record that was released waits on", position=one.position, why=str(outcome.refusal))
            return
        quarantine.note(msgspec.structs.replace(one, is_put_again=True))
        remove_copy(disk, one)
        log.info("a record that was released is put again", position=one.position, topic=one.topic)

    return done
