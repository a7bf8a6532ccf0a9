"""A carrier of retention: puts undecided half messages again before their log file is deleted."""

from __future__ import annotations

from functools import partial

from ... import logs
from ...errors import RequestRefused
from ...protocol.record import Record
from ..intake.intake import Outcome
from ..loop_quarantine import is_fault_of_record
from .half_records import half_copy
from .halves import Halves
from .undecided import Half

log = logs.get("pyromq.broker")

AT_ONCE = 100


class HalfCarrier:
    """Event loop only."""

    def __init__(self, halves: Halves) -> None:
        self._halves = halves
        self._store, self._intake = halves.access.store, halves.access.intake

    async def __call__(self, start: int, end: int) -> None:
        """Put again what is undecided below `end`. Raise where one cannot be put: then the file must stay."""
        await self._halves.catch_up()
        is_undecided = self._halves.ledger.is_undecided
        going = [half for half in self._halves.undecided.all() if half.position < end]
        unreadable: set[int] = set()
        for number, half in enumerate(going, 1):
            record = await self._store.ask(partial(self._store.reader.record_at, half.position))
            if record is None:
                unreadable.add(half.offset)  # damaged: the next check says so
            elif is_undecided(half.offset):
                self._put_again(half, record)
            if number % AT_ONCE == 0 or number == len(going):
                self._intake.flush()
                self._halves.ops.put_gathered()
                self._intake.flush()
        remaining = sum(is_undecided(half.offset) for half in going if half.offset not in unreadable)
        if remaining:
            raise RequestRefused(f"{remaining} half messages cannot be put again: see the lines before")
        if going:
            await self._store.flush_log()  # the old copies go next
            log.info("half messages carried forward", messages=len(going), start=start, end=end)

    def _put_again(self, half: Half, record: Record) -> None:
        """Put a copy. One that cannot be copied goes into quarantine: its file has to be deleted some day."""
        try:
            copy = half_copy(record, half.checks, self._halves.access.store_host)
        except Exception as fault:
            self._halves.put_into_quarantine(half, fault)
        else:
            self._intake.put(copy, partial(self._placed, half))

    def _placed(self, half: Half, outcome: Outcome) -> None:
        if outcome.refusal is None:
            self._halves.copied(half, outcome.places[-1])
        elif is_fault_of_record(outcome.refusal):
            self._halves.put_into_quarantine(half, outcome.refusal)
        else:
            log.error("a half message cannot be put again", id=half.unique, why=str(outcome.refusal))
