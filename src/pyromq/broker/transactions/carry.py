"""Half messages whose log file is about to go: the undecided are put again. Retention calls it before it deletes."""

from __future__ import annotations

from functools import partial

from ... import logs
from ...errors import RequestRefused
from ...protocol.record import Record
from ...store.message_store import MessageStore
from ..intake.intake import Intake, Outcome
from ..loop_quarantine import is_fault_of_record
from .halves import Half, Halves
from .park import again
from .states import State

log = logs.get("pyromq.broker")

AT_ONCE = 100


class HalfCarrier:
    """Event loop only."""

    def __init__(self, store: MessageStore, intake: Intake, halves: Halves, store_host: bytes) -> None:
        self._store = store
        self._intake = intake
        self._halves = halves
        self._store_host = store_host

    async def __call__(self, start: int, end: int) -> None:
        """Put again what is undecided below `end`. Raises if that cannot be: then the file must stay."""
        await self._halves.look()
        going = [half for half in self._halves.undecided.values() if half.position < end]
        unreadable: set[int] = set()
        for number, half in enumerate(going, 1):
            record = await self._store.ask(partial(self._store.reader.record_at, half.position))
            if record is None:
                unreadable.add(half.offset)  # damaged: the next check says so
            elif self._is_undecided(half):
                self._put_again(half, record)
            if number % AT_ONCE == 0 or number == len(going):
                self._intake.flush()
                self._halves.put_gathered()
                self._intake.flush()
        left = sum(self._is_undecided(half) for half in going if half.offset not in unreadable)
        if left:
            raise RequestRefused(f"{left} half messages cannot be put again: see the lines before")
        if going:
            await self._store.flush_log()  # the old copies go next
            log.info("half messages carried forward", messages=len(going), start=start, end=end)

    def _put_again(self, half: Half, record: Record) -> None:
        """One that cannot be copied is put aside: the file that it is in must go some day."""
        try:
            copy = again(record, half.checks, self._store_host)
        except Exception as fault:
            self._halves.put_aside(half, fault)
        else:
            self._intake.put(copy, partial(self._placed, half))

    def _is_undecided(self, half: Half) -> bool:
        return self._halves.ledger.state(half.offset) is State.HALF

    def _placed(self, half: Half, outcome: Outcome) -> None:
        if outcome.refusal is not None and is_fault_of_record(outcome.refusal):
            self._halves.put_aside(half, outcome.refusal)
            return
        if outcome.refusal is not None:
            log.error("a half message cannot be put again", id=half.unique, why=str(outcome.refusal))
            return
        placed = outcome.places[-1]
        if self._is_undecided(half):
            self._halves.copy_placed(half, placed)
            self._halves.put_owed_op(half.offset)
        else:  # it was ended in the same moment: the copy is not needed
            self._halves.decide(placed.queue_offset, State.DECIDED)
            self._halves.put_owed_op(placed.queue_offset)
