"""Quarantine for the records that one of the broker's own loops cannot handle.

A loop puts the record that fails into the store's quarantine (`store/recovery/quarantine.py`) and goes on with the next
one. A fault of the disk or of the whole store belongs to no record: it is raised, and the loop tries again.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..errors import RequestRefused
from ..model.codes import ResponseCode
from ..protocol.record import HEAD, Record, decode_record
from ..store.errors import StoreError
from ..store.files.disk import DiskError
from ..store.tables.quarantine import Quarantine


def is_fault_of_record(fault: Exception) -> bool:
    """Tell whether other records may still succeed. A full disk and a closed store fail for all of them."""
    if isinstance(fault, RequestRefused):
        return fault.code == ResponseCode.MESSAGE_ILLEGAL
    return not isinstance(fault, DiskError | StoreError)


class LoopQuarantine:
    """The quarantine as one loop uses it: every entry carries the loop's name. Event loop only."""

    def __init__(self, quarantine: Quarantine, loop: str) -> None:
        self._quarantine = quarantine
        self._loop = loop

    def __contains__(self, position: int) -> bool:
        return position in self._quarantine

    def put(self, record: Record, why: Exception | str) -> None:
        """Put a record into quarantine. Raise `why` instead where it is not the record's own fault."""
        self.put_at(record.physical_offset, record.size, record.topic, record.queue_id, why)

    def put_at(self, position: int, size: int, topic: str, queue_id: int, why: Exception | str) -> None:
        """Put a record that was not decoded into quarantine."""
        if isinstance(why, Exception) and not is_fault_of_record(why):
            raise why
        self._quarantine.add(self._loop, position, size, topic, queue_id, why)

    def put_refused(self, record: Record, refusal: RequestRefused) -> bool:
        """Put a record into quarantine whose put would be refused for ever. False: a later try may succeed."""
        if not is_fault_of_record(refusal):
            return False
        self.put(record, refusal)
        return True

    def decode(self, raws: Iterable[bytes], topic: str) -> list[Record]:
        """Decode records, without those in quarantine. One that cannot be decoded goes there."""
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
    """Return where a record lies in the log, by its head alone."""
    return int(HEAD.unpack_from(raw)[6])
