"""The journal of young check points: what changed in the table in one turn of the loop, as one record of the log.

The record is put with the turn's burst, before any answer that rests on it. What cannot be put (a full disk) is kept
and comes first in the next record: pops go on meanwhile, so that consumers can drain the disk, acks are refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from .... import logs
from ....config import Live
from ....errors import RequestRefused
from ....kernel.state import PopTable
from ....model.codes import ResponseCode
from ....model.pop_names import JOURNAL_TOPIC
from ....protocol.record import Record
from ...config import BrokerConfig
from ...intake.intake import Done, LogAccess, Outcome

log = logs.get("pyromq.broker")

MOST_KEPT_BYTES = 1 << 20  # that could not be put: then nothing more is handed out
SAID_AGAIN_S = 10.0


class PopJournal:
    """Event loop only. Invariant: entries are in the log in the order in which the table gave them."""

    def __init__(self, live: Live[BrokerConfig], access: LogAccess, table: PopTable) -> None:
        self._live = live
        self._access = access
        self._table = table
        self._waiting: list[tuple[Done, bool]] = []
        self._is_due = False
        self._kept = b""  # entries that could not be put
        self._few = logs.Limited(log, access.clock, SAID_AGAIN_S)
        self.records = 0
        self._stirred: list[asyncio.Event] = []
        self.blocks: list[Callable[[bool], None]] = []  # told whether entries are kept, which come before any others

    @property
    def next_offset(self) -> int:
        """Return where the next record goes."""
        queue = self._access.store.queues.get(JOURNAL_TOPIC, 0)
        return 0 if queue is None else queue.next_offset

    def check_writable(self) -> None:
        """Refuse to hand out more than can be noted."""
        if len(self._kept) > MOST_KEPT_BYTES:
            raise RequestRefused(
                "service not available now: what is handed out cannot be written down, the disk is full",
                ResponseCode.SERVICE_NOT_AVAILABLE,
            )

    def changed(self) -> None:
        """Say that the table has new entries: they are put at the end of this turn."""
        if not self._is_due:
            self._is_due = True
            for event in self._stirred:
                event.set()
            asyncio.get_running_loop().call_soon(self.flush)

    def stirred(self) -> asyncio.Event:
        """Return an event that is set with each change: loops that have nothing to do wait for it, not for time."""
        event = asyncio.Event()
        event.set()  # what a start has replayed
        self._stirred.append(event)
        return event

    def after(self, done: Done, *, waits: bool = True) -> None:
        """Call `done` once the table's changes up to now are in the log; `waits`: and on the medium, where sends wait.

        Its outcome has a refusal if they could not be put."""
        self._waiting.append((done, waits))
        self.changed()

    def flush(self) -> None:
        """Put what the table has gathered. By itself at the end of a turn; whoever stops the broker calls it too."""
        self._is_due = False
        waiting, self._waiting = self._waiting, []
        entries = self._kept + self._table.take_entries()
        if not entries:
            for done, _ in waiting:
                done(Outcome())
            return
        self._keep(b"")
        record = Record(
            topic=JOURNAL_TOPIC,
            queue_id=0,
            body=entries,
            born_timestamp=self._access.clock.now_ms(),
            born_host=self._access.store_host,
            store_host=self._access.store_host,
        )
        self._access.intake.put(record, partial(self._put, entries, waiting))
        self._access.intake.flush()

    @property
    def is_awaited(self) -> bool:
        """Return whether anything rests on the next record, or belongs before what the table has."""
        return bool(self._waiting or self._kept)

    def put_now(self) -> bool:
        """Put what the table has gathered, before a kernel adds to it. False: it could not be put, and is kept."""
        self.flush()
        return not self._kept

    def note_put(self) -> None:
        """Count a record that a kernel has put by itself, and wake who waits for changes."""
        self.records += 1
        for event in self._stirred:
            event.set()

    def _keep(self, entries: bytes) -> None:
        if bool(entries) != bool(self._kept):
            for block in self.blocks:
                block(bool(entries))
        self._kept = entries

    def _put(self, entries: bytes, waiting: list[tuple[Done, bool]], outcome: Outcome) -> None:
        if outcome.refusal is not None:
            self._keep(entries + self._kept)
            self._few.warning("what was popped and acknowledged cannot be written down now", why=str(outcome.refusal))
            for done, _ in waiting:
                done(outcome)
            return
        self.records += 1
        wait_s = self._live.config.put_wait_s
        for done, waits in waiting:
            self._access.intake.confirm(outcome.places, done, wait_s if waits else 0.0)
