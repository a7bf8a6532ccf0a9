"""What sends of an elected set's master wait for: every member of the acting set has the message.

A send is answered 0 once it is confirmed. What is not within `slaveTimeout` is answered FLUSH_SLAVE_TIMEOUT and does
**not** become readable by that, other than in a classic pair: nobody may see what a new master could be without. A set
below its minimum refuses sends before anything is stored. A master that is deposed answers nothing that waits: whether
it is stored is for its successor to say, so the connections are cut.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from .... import logs
from ....model.codes import ResponseCode
from ....store.log.watermarks import Watermark
from .confirm import SyncStanding
from .elected_streams import Lead

log = logs.get("pyromq.broker")


class ElectedLog(Protocol):
    """What is wanted of a store."""

    @property
    def appended(self) -> Watermark: ...

    @property
    def flushed(self) -> Watermark: ...

    @property
    def on_append(self) -> list[Callable[[], None]]: ...

    def confirm(self, position: int | None) -> None: ...


class ElectedCopies:
    """Event loop only. Has the interface of `SlaveCopies` (`OtherCopies`).

    `on_change` is called when sends begin or cease to be refused; `on_give_up` when this master is deposed."""

    is_sync = True

    def __init__(self, store: ElectedLog, lead: Lead, minimum: int = 1) -> None:
        """`minimum`: members that the set must have, shown to those who ask."""
        self._store = store
        self._lead = lead
        self._minimum = minimum
        self._refused = False
        self._is_given_up = False
        self.on_change: list[Callable[[], None]] = []
        self.on_give_up: list[Callable[[], None]] = []
        store.on_append.append(self._note_own)
        store.flushed.on_advance(lambda _: self._note_own())
        lead.on_confirmed.append(self._confirmed)
        store.confirm(lead.confirmed)
        self._note_own()
        self.judge()

    def status(self, position: int) -> ResponseCode:
        """Return what is said of a message that ends here and is readable, or late."""
        return ResponseCode.SUCCESS if position <= self._lead.confirmed else ResponseCode.FLUSH_SLAVE_TIMEOUT

    @property
    def are_too_few(self) -> bool:
        """Return whether nothing may be stored now: the set is below its minimum, or this master is deposed."""
        return self._is_given_up or self._lead.is_short

    @property
    def standing(self) -> SyncStanding:
        """Return how it stands, in the words of a classic master: `in_sync` is 0 while the set is short."""
        needed = self._minimum - 1
        return SyncStanding(needed, 0 if self.are_too_few else needed, needed, self._lead.confirmed)

    def judge(self) -> None:
        """Look anew whether sends are refused: the set, or a change of it, may be another one."""
        if self.are_too_few != self._refused:
            self._refused = self.are_too_few
            if self._refused:
                log.warning("the in-sync set is below its minimum: sends are refused", minimum=self._minimum)
            for listener in self.on_change:
                listener()

    def give_up(self) -> None:
        """End this master's time, in this turn: nothing is stored or confirmed any more, who waits is cut off."""
        if self._is_given_up:
            return
        self._is_given_up = True
        self.judge()
        for listener in self.on_give_up:
            listener()

    def _note_own(self) -> None:
        if not self._is_given_up:
            self._lead.note_own(self._store.appended.value, self._store.flushed.value)

    def _confirmed(self, position: int) -> None:
        if not self._is_given_up:
            self._store.confirm(position)
            self.judge()

    def close(self) -> None:
        """Stop listening to appends."""
        if self._note_own in self._store.on_append:
            self._store.on_append.remove(self._note_own)
