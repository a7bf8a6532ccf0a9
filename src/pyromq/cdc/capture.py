"""The capture: reads rows, then stretches of the log, has them sent, goes on. Reads ahead while it sends."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from .. import logs
from ..ambient import Clock, RunBlocking
from .changes import ChangeSource, DatabaseAway, Position, ReadBounds, RowChange, Slice, TableSnapshot
from .outgoing.heartbeats import heartbeat
from .outgoing.messages import messages_of
from .outgoing.transactions import Boundaries
from .rounds import Rounds
from .rules import matches
from .schema.seen_tables import SeenTables
from .state import CaptureState, TableProgress

log = logs.get("pyromq.cdc")

_IDLE_SAVE_S = 5.0
_CONFIRM_S = 5.0
_SHARE_S = 2.0  # of rows that are read while the stream goes on, and of the stream in between
_POLL_EVERY_S = 1.0
_AGAIN_S = 1.0  # between attempts at a database that is away


RowsRead = Callable[[TableProgress, Sequence[TableProgress]], None]  # of one table, and of all of a snapshot


def log_rows(current: TableProgress, _: Sequence[TableProgress]) -> None:
    """Say in the log how far a snapshot is."""
    log.info("snapshot", table=current.table, rows=current.rows, about=current.about)


@dataclass(slots=True)
class Capture:
    """Event loop only; sources and snapshots are called in a helper thread. One per state file."""

    rounds: Rounds
    tables: SeenTables
    open_source: Callable[[Position, Position | None], ChangeSource]
    open_snapshot: Callable[[], TableSnapshot]
    stop_wanted: asyncio.Event
    chunk_rows: int = 1000
    reads_tables: bool = True
    heartbeat_s: float = 0.0  # 0: none
    rows_read: RowsRead = log_rows
    bounds: ReadBounds = field(default_factory=ReadBounds)
    _confirmed_at: float = 0.0
    _polled_at: float = 0.0
    _streams_since: float = 0.0
    _beat_at: float = 0.0

    @property
    def state(self) -> CaptureState:
        return self.rounds.state

    @property
    def clock(self) -> Clock:
        return self.rounds.clock

    @property
    def run_blocking(self) -> RunBlocking:
        return self.rounds.run_blocking

    async def run(self) -> None:
        """Run until it is to stop. A database that is away is waited for; what is hopeless is raised."""
        await self.rounds.finish_open()
        self.state.epoch += 1
        await self.rounds.save()
        while not self.stop_wanted.is_set():
            try:
                if self.state.position is None or self._unread():
                    await self._read_tables()
                elif asked := await self.run_blocking(self.rounds.file.requested):
                    await self._begin_again(asked)
                    continue
                await self._stream()
            except DatabaseAway as fault:
                log.warning("the database is away, the capture waits", fault=fault)
                await self.rounds.finish_open()
                await self._pause(_AGAIN_S)

    async def _pause(self, seconds: float) -> None:
        try:
            async with self.clock.timeout(seconds):
                await self.stop_wanted.wait()
        except TimeoutError:
            pass

    # --- a snapshot -----------------------------------------------------------------------------------------------

    def _unread(self) -> list[TableProgress]:
        return [each for each in self.state.snapshot if not each.is_done]

    async def _read_tables(self) -> None:
        """Send the rows of all tables as they are at one position of the log, from which the stream goes on.

        After an interruption the changes of meanwhile come first, and then the rest as it is by then. While the stream
        is to go on, each share of the rows is read so: as they are at a position that the stream has come to.
        """
        snapshot = await self.run_blocking(self.open_snapshot)
        try:
            if self.state.position is None:
                sizes = await self.run_blocking(snapshot.tables) if self.reads_tables else []
                self.state.snapshot = tuple(TableProgress(each.table, about=each.about) for each in sizes)
                self.state.position = snapshot.position
                await self.rounds.save()
            elif self.state.position != snapshot.position:
                await self._stream(until=snapshot.position)
            ends_at = self.clock.monotonic() + _SHARE_S if self.state.is_incremental else math.inf
            for progress in self._unread():
                await self._read_table(snapshot, progress, ends_at)
                if self.stop_wanted.is_set() or self.clock.monotonic() >= ends_at:
                    return
            self.state.is_incremental = False
        finally:
            await self.run_blocking(snapshot.close)

    async def _begin_again(self, asked: Sequence[str]) -> None:
        """Note which tables are to be read again while the stream goes on."""
        snapshot = await self.run_blocking(self.open_snapshot)
        try:
            sizes = await self.run_blocking(snapshot.tables)
        finally:
            await self.run_blocking(snapshot.close)
        found = {each.table: each for each in sizes if matches(each.table, asked)}
        if not found:
            log.warning("no table is captured that is to be read again", asked=", ".join(asked))
        kept = tuple(each for each in self.state.snapshot if each.table not in found)
        self.state.snapshot = kept + tuple(TableProgress(table, about=each.about) for table, each in found.items())
        self.state.is_incremental = bool(found)
        await self.rounds.save()
        await self.run_blocking(self.rounds.file.forget_request)

    async def _read_table(self, snapshot: TableSnapshot, progress: TableProgress, ends_at: float) -> None:
        assert self.state.position is not None
        last, rows = progress.last, progress.rows
        while not self.stop_wanted.is_set():
            after = last
            found = await self.run_blocking(lambda after=after: snapshot.rows(progress.table, after, self.chunk_rows))  # type: ignore[misc]
            last, rows = found.last, rows + len(found.changes)
            done = TableProgress(progress.table, last, rows, max(rows, progress.about), is_done=last is None)
            await self._send(found.changes, self.state.position, self.state.ts_ms, done)
            self.rows_read(done, self.state.snapshot)
            if last is None or self.clock.monotonic() >= ends_at:
                return

    # --- the stream -----------------------------------------------------------------------------------------------

    async def _stream(self, until: Position | None = None) -> None:
        """Follow the log from our position on; `until`: to this place and no further."""
        start, self._streams_since = self.state.position, self.clock.monotonic()
        assert start is not None
        source = await self.run_blocking(lambda: self.open_source(start, until))
        try:
            await self._follow(source, until)
        finally:
            await self.run_blocking(source.close)

    async def _follow(self, source: ChangeSource, until: Position | None) -> None:
        reading = self._read(source)
        try:
            while not self.stop_wanted.is_set():
                found = await reading
                reading = self._read(source)
                await self._take(source, found)
                if self.state.position == until or (until is None and await self._is_enough()):
                    return
        finally:
            await asyncio.gather(reading, return_exceptions=True)
            if self.state.open is None:
                await self.rounds.save()

    async def _is_enough(self) -> bool:
        """Return whether it is time to read rows: a share of those that were asked for, or the first of them."""
        now = self.clock.monotonic()
        if self._unread():
            return self.state.is_caught_up or now - self._streams_since >= _SHARE_S
        if now - self._polled_at < _POLL_EVERY_S:
            return False
        self._polled_at = now
        return bool(await self.run_blocking(self.rounds.file.requested))

    def _read(self, source: ChangeSource) -> asyncio.Future[Slice]:
        return asyncio.ensure_future(self.run_blocking(lambda: source.read(self.bounds)))

    async def _take(self, source: ChangeSource, found: Slice) -> None:
        rounds, state = self.rounds, self.state
        state.is_caught_up = found.is_caught_up
        self.tables.note_statements(found.statements)
        has_ended = state.transaction is not None and not found.end.inside
        if found.changes or has_ended:
            await self._send(found.changes, found.end, found.ts_ms)
        state.position, state.ts_ms = found.end, found.ts_ms or state.ts_ms
        await self._beat()
        if (
            rounds.is_news and not found.changes
        ):  # so that `status` tells of it; the next round would do for the promise
            await rounds.save()
        if self.clock.monotonic() - rounds.saved_at >= _IDLE_SAVE_S:
            await rounds.save()
        if self.clock.monotonic() - self._confirmed_at >= _CONFIRM_S and (leads_to := rounds.saved_end) is not None:
            self._confirmed_at = self.clock.monotonic()
            await self.run_blocking(lambda: source.confirm(leads_to))

    # --- what is sent ---------------------------------------------------------------------------------------------

    async def _send(
        self, changes: Sequence[RowChange], end: Position, ts_ms: int, read: TableProgress | None = None
    ) -> None:
        """Store the changes, and note that they are."""
        for change in changes:
            self.tables.note(change)
        state, rules = self.state, self.rounds.rules
        boundaries = Boundaries(state.transaction, rules) if rules.transactions else None
        now_ms, is_over = self.clock.now_ms(), not end.inside
        messages = tuple(messages_of(changes, rules, state.number, now_ms, boundaries, is_over=is_over))
        tables = Counter(change.table.full_name for change in changes)
        transaction = None if boundaries is None else boundaries.progress
        await self.rounds.send(messages, end, ts_ms, tables=tables, read=read, transaction=transaction)

    async def _beat(self) -> None:
        """Send a heartbeat if it is time for one. Everything before its position is stored."""
        state, now = self.state, self.clock.monotonic()
        if not self.heartbeat_s or now - self._beat_at < self.heartbeat_s or state.position is None:
            return
        self._beat_at = now
        now_ms, rules = self.clock.now_ms(), self.rounds.rules
        beat = heartbeat(state.source, state.position, rules, state.number, now_ms, self.heartbeat_s)
        await self.rounds.send([beat], state.position, state.ts_ms, tables={}, transaction=state.transaction)
