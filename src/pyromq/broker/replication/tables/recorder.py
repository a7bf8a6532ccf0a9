"""The master of an elected set writes each change of its tables into the log, before anybody is told of it.

`SaveSoon` asks for it: a table goes to disk only after its changes are in the log, and who waits for a change waits
until its record is readable, which is when every member of the set has it. Changes that nobody waits for (offsets,
progress) are gathered by their owners and come once a second. When there are many changes since the last snapshot of
all tables, or its log file is about to go, another one is written: a member that needs all tables begins there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial

from .... import logs
from ....ambient import Clock
from ....errors import RequestRefused
from ....model.codes import ResponseCode
from ....model.names import STATE_TOPIC
from ....model.table_change import TableChange
from ....protocol.record import Record
from ....protocol.replication.table_records import NO_SNAPSHOT, RecordKind, encode, portions
from ....store.errors import StoreNotWritable
from ....store.tables.json_tables import JsonTable
from ...intake.intake import LogAccess, Outcome, refusal
from .carried import CARRIED, VERSION
from .state_queue import StateQueue

log = logs.get("pyromq.broker")

LEAST_BYTES = 4 << 20  # of changes between two snapshots
CONFIRM_S = 3.0  # how long who waits for a change waits for the set


class TableRecorder:
    """Event loop only. Changes are kept until `begin`; a broker that does not lead never begins."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._access: LogAccess | None = None
        self._tables: dict[str, JsonTable] = {}
        self._changes: dict[tuple[str, str, str | int | None], TableChange] = {}  # not in the log yet, in order
        self._is_due = self._is_silent = False
        self._writing_snapshot = asyncio.Lock()
        self._waiting: set[asyncio.Future[None]] = set()  # for records to be confirmed
        self._is_over = False
        self._end = 0  # of the last record, in the log
        self.snapshot = NO_SNAPSHOT  # offset of the newest whole one
        self.snapshot_bytes = self.bytes_since = 0
        self.records = 0

    # --- what changes ---------------------------------------------------------------------------------------------

    def watch(self, table: JsonTable) -> None:
        """Write down what changes in this table from now on, if it is one that the log carries."""
        if table.name in CARRIED:
            self._tables[table.name] = table
            table.on_change = partial(self._note, table.name, CARRIED[table.name])

    @contextmanager
    def silence(self) -> Iterator[None]:
        """Write down nothing of what changes meanwhile: it comes from the log."""
        self._is_silent = True
        try:
            yield
        finally:
            self._is_silent = False

    def _note(self, table: str, left_out: frozenset[str], change: TableChange) -> None:
        key = (table, change.section, change.key)
        self._changes.pop(key, None)  # the last value counts, in its turn
        if self._is_silent or change.section in left_out:
            return
        if change.key is None and isinstance(change.value, dict) and change.section != VERSION:
            self._changes = {known: one for known, one in self._changes.items() if known[:2] != key[:2]}
            self._changes[key] = TableChange(change.section, None, {})
            for name, value in change.value.items():
                self._changes[(table, change.section, name)] = TableChange(change.section, name, value)
        else:
            self._changes[key] = change

    @property
    def is_idle(self) -> bool:
        """Return whether everything that changed is in the log."""
        return not self._changes

    # --- into the log ---------------------------------------------------------------------------------------------

    async def begin(self, access: LogAccess, is_foreign: bool = False) -> None:
        """Begin to write: this broker leads, and its tables are what its log says. Serve nobody before it returns.

        `is_foreign`: a Java broker has written the tables since, and nothing of that is in the log."""
        self._access = access
        queue = StateQueue(access.store)
        known = queue.snapshot_before(queue.end)
        self.snapshot = NO_SNAPSHOT if known is None else known
        if known is None or is_foreign:
            await self.write_snapshot()
        self.put()

    def soon(self) -> None:
        """Write what changed at the end of this turn of the loop."""
        if not self._is_due and self._access is not None:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._put_due)

    def _put_due(self) -> None:
        try:
            self.put()
        except RequestRefused as fault:
            log.error("changes of tables wait: they cannot be stored", why=str(fault))

    def put(self) -> None:
        """Write what has changed since the last call. RequestRefused: it cannot be stored, and is kept."""
        self._is_due = False
        if self._access is None or not self._changes:
            return
        changes, self._changes = self._changes, {}
        parts = portions((table, change) for (table, _, _), change in changes.items())
        try:
            for tables in parts:
                self._put_record(RecordKind.CHANGES, tables.items())
        except RequestRefused:
            self._changes = {key: one for key, one in changes.items() if key not in self._changes} | self._changes
            raise

    def _put_record(
        self, kind: RecordKind, tables: Iterable[tuple[str, Iterable[bytes]]] = (), begun: int | None = None
    ) -> None:
        access = self._access
        assert access is not None
        body = encode(kind, self.snapshot if begun is None else begun, tables)
        host = access.store_host
        record = Record(
            topic=STATE_TOPIC,
            queue_id=0,
            body=body,
            born_timestamp=access.clock.now_ms(),
            born_host=host,
            store_host=host,
        )
        outcomes: list[Outcome] = []
        access.intake.put(record, outcomes.append)
        access.intake.flush()
        (outcome,) = outcomes
        if outcome.refusal is not None:
            raise outcome.refusal
        self._end = outcome.places[-1].end
        self.bytes_since += outcome.places[-1].size
        self.records += 1

    async def confirmed(self) -> None:
        """Return once all that was put is readable. RequestRefused: it is not in time, and may still be or never."""
        if self._access is None or self._access.store.readable.value >= self._end:
            return
        waiting = asyncio.ensure_future(self._access.store.readable.reached(self._end))
        self._waiting.add(waiting)
        try:
            if self._is_over:
                waiting.cancel()
            async with self._clock.timeout(CONFIRM_S):
                await asyncio.wait({waiting})
            if not waiting.cancelled():
                waiting.result()
                return
        except TimeoutError:
            pass
        except StoreNotWritable as fault:
            raise refusal(fault) from None
        finally:
            self._waiting.discard(waiting)
            waiting.cancel()
        raise RequestRefused(
            "changed here, but the members of the set have not confirmed it in time: it counts if they do, and is gone "
            "if another member takes over before that. Ask again",
            ResponseCode.SERVICE_NOT_AVAILABLE,
        )

    def leave(self) -> None:
        """Let nobody wait any more for what is not confirmed: this broker stops, or does not lead any more."""
        self._is_over = True
        for waiting in self._waiting:
            waiting.cancel()

    # --- snapshots ------------------------------------------------------------------------------------------------

    @property
    def wants_snapshot(self) -> bool:
        """Return whether a member that begins at the last snapshot would read much that has changed again since."""
        return self.bytes_since > max(LEAST_BYTES, 2 * self.snapshot_bytes)

    async def write_snapshot(self) -> None:
        """Write all tables into the log, portion by portion: changes may come in between. RequestRefused: it cannot be
        stored; then the last one stays in force."""
        async with self._writing_snapshot:
            access = self._access
            assert access is not None
            self.put()
            begun, self.bytes_since = StateQueue(access.store).end, 0
            self._put_record(RecordKind.BEGIN)
            for name, table in self._tables.items():
                for tables in portions(_entries(name, table)):
                    self._put_record(RecordKind.CHANGES, tables.items())
                    await self._clock.sleep(0)
            self._put_record(RecordKind.END, begun=begun)
            self.snapshot, self.snapshot_bytes, self.bytes_since = begun, self.bytes_since, 0
        log.info("all tables were written into the log", bytes=self.snapshot_bytes, offset=begun)

    async def carry(self, start: int, end: int) -> None:
        """Write another snapshot before the log file with the last one goes."""
        if self._access is None:
            return
        entry = StateQueue(self._access.store).entry(self.snapshot)
        if entry is None or entry.position < end:
            await self.write_snapshot()


def _entries(name: str, table: JsonTable) -> Iterator[tuple[str, TableChange]]:
    """Return the entries of a table, each as it is when it is asked for."""
    left_out = CARRIED[name] | {VERSION}
    for section, key in [(VERSION, None), *(one for one in table.names() if one[0] not in left_out)]:
        found = table.find(section, key)
        if found is not None:
            yield name, found
