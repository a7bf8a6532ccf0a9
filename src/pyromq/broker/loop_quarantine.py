"""Quarantine for the records that one of the broker's own loops cannot handle.

A loop puts the record that fails into the store's quarantine (`store/tables/quarantine.py`) and goes on with the next
one. A fault of the disk or of the whole store belongs to no record: it is raised, and the loop tries again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from ..errors import RequestRefused
from ..kernel.records import Placed
from ..model.codes import ResponseCode
from ..protocol.record import HEAD, Record, decode_record
from ..store.errors import StoreError
from ..store.files.disk import DiskError
from ..store.tables.quarantine import Quarantine
from .intake.intake import Done, Outcome

T = TypeVar("T")


def is_fault_of_record(fault: Exception) -> bool:
    """Tell whether other records may still succeed. A full disk and a closed store fail for all of them."""
    if isinstance(fault, RequestRefused):
        return fault.code == ResponseCode.MESSAGE_ILLEGAL
    return not isinstance(fault, DiskError | StoreError)


@dataclass(frozen=True, slots=True, eq=False)
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
