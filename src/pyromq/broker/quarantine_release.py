"""Records that somebody released from quarantine, put back where their loop reads them. Called once at a start."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from .. import logs
from ..model.message import Property
from ..model.names import HALF_TOPIC, OP_HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC
from ..protocol.properties import decode_properties, find_property
from ..protocol.record import Record, decode_record
from ..store.errors import StoreError
from ..store.files.disk import Disk
from ..store.log.reader import KeyQuery
from ..store.message_store import MessageStore
from ..store.tables.quarantine import Quarantine, QuarantinedRecord, read_copy, remove_copy
from .intake.intake import Intake, Outcome
from .intake.parking import fit_properties

log = logs.get("pyromq.broker")

_LOOP_TOPICS = (SCHEDULE_TOPIC, TIMER_TOPIC, HALF_TOPIC, OP_HALF_TOPIC)


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
        properties = fit_properties(
            decode_properties(record.properties), "release"
        )  # without the CRC of the old record
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
