"""Op messages: each names half messages that are decided, so that a start need not ask about them again.

A rollback is its op message alone. A commit's is stored after the message itself, never before: an op without its
message would lose it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from ... import logs
from ...protocol.record import Record
from ..intake.intake import LogAccess, Outcome
from .half_records import op

log = logs.get("pyromq.broker")

OFFSETS_IN_OP = 200  # about 4 KB, as in Java


class OpMessages:
    """Event loop only."""

    def __init__(self, access: LogAccess) -> None:
        self._access = access
        self._gathered: list[int] = []  # to be put at the end of this turn
        self._owed: list[int] = []  # to be put by a later round, since it was refused or nobody waits for it

    @property
    def are_put(self) -> bool:
        return not self._owed and not self._gathered

    def put(self, offset: int, done: Callable[[Outcome], None], wait_s: float) -> None:
        """Put the op message of a rollback, which is answered when it is stored."""
        self._access.intake.put(self._op((offset,)), done, wait_s)

    def gather(self, offset: int) -> None:
        """Note a decision that is carried out, with the others of this turn."""
        if not self._gathered:
            asyncio.get_running_loop().call_soon(self.put_gathered)
        self._gathered.append(offset)

    def put_gathered(self) -> None:
        """Put what was gathered, at the end of a turn or before the intake is flushed: one op message names many."""
        gathered, self._gathered = self._gathered, []
        for start in range(0, len(gathered), OFFSETS_IN_OP):
            part = gathered[start : start + OFFSETS_IN_OP]
            self._access.intake.put(self._op(part), partial(self._done, part))

    def owe(self, offset: int) -> None:
        """Leave the note of a decision to the next round."""
        self._owed.append(offset)

    def gather_owed(self) -> None:
        owed, self._owed = self._owed, []
        for offset in owed:
            self.gather(offset)

    def _op(self, offsets: Sequence[int]) -> Record:
        return op(offsets, self._access.clock.now_ms(), self._access.store_host)

    def _done(self, offsets: list[int], outcome: Outcome) -> None:
        if outcome.refusal is not None:
            log.error("the op of decided half messages waits: it cannot be stored", why=str(outcome.refusal))
            self._owed += offsets
