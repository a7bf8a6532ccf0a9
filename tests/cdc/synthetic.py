"""A database that is a list, and faults at each seam of a capture: its files, its brokers, its database.

Everything in between is the real thing: rounds, state on disk, client and broker. `Seams` counts the operations as they
come, and the one with the chosen number goes wrong: so a sweep over all numbers reaches every step.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from pyromq.ambient import SystemClock
from pyromq.cdc.capture import Capture
from pyromq.cdc.changes import (
    ChangeSource,
    Column,
    DatabaseAway,
    Position,
    ReadBounds,
    RowChange,
    Slice,
    SnapshotRows,
    SourceTable,
    TableSize,
)
from pyromq.cdc.events import Op
from pyromq.cdc.outgoing.target import Target
from pyromq.cdc.rounds import Rounds
from pyromq.cdc.rules import Rules
from pyromq.cdc.schema.history import SchemaHistory
from pyromq.cdc.schema.seen_tables import SeenTables
from pyromq.cdc.state import CaptureState, StateFile
from pyromq.client.client import Client
from pyromq.client.errors import Unreachable

T = TypeVar("T")
ID, NOTE, MORE = Column("id", "int", "int64", is_key=True), Column("note", "text"), Column("more", "text")
ORDERS = SourceTable("shop", "orders", (ID, NOTE))
WIDER = SourceTable("shop", "orders", (ID, NOTE, MORE))
ITEMS = SourceTable("shop", "items", (ID, NOTE))
SNAPSHOT_ROWS = 5
READ_AT_ONCE = 3  # changes: transactions are cut in the middle


class Killed(BaseException):
    """The capture is no more: nothing that it would do counts."""


def row(number: int, note: str) -> dict[str, Any]:
    return {"id": number, "note": note}


def _transactions() -> list[list[tuple[SourceTable, Op, dict[str, Any] | None, dict[str, Any] | None]]]:
    """One insert, updates of many rows, a key that moves, a table that gets a column, a large one, a delete."""
    return [
        [(ORDERS, Op.CREATE, None, row(100, "new"))],
        [(ORDERS, Op.UPDATE, row(number, "read"), row(number, "seen")) for number in range(SNAPSHOT_ROWS)]
        + [(ITEMS, Op.CREATE, None, row(1, "item"))],
        [(ORDERS, Op.UPDATE, row(100, "new"), row(101, "moved"))],
        [(WIDER, Op.UPDATE, row(101, "moved"), row(101, "moved") | {"more": "wide"})],
        [(ITEMS, Op.CREATE, None, row(number, "many")) for number in range(2, 9)],
        [(WIDER, Op.DELETE, row(101, "moved") | {"more": "wide"}, None)],
    ]


LOG = _transactions()
END = Position(done=str(len(LOG)))
# What has to be in the topics, each once: a moved key is two events, and each delete has its tombstone.
EVENTS = SNAPSHOT_ROWS + sum(map(len, LOG)) + 1 + 2


@dataclass
class Seams:
    """`fails_at`: the operation that goes wrong; 0: none. `how` says what that means for operations of its kind."""

    how: str = ""
    fails_at: int = 0
    done: int = 0
    is_dead: bool = False
    names: list[str] = field(default_factory=list)

    def pass_by(self, kind: str, name: str) -> None:
        """Count an operation of a kind that this sweep disturbs, and let the chosen one go wrong."""
        if self.is_dead:
            raise Killed
        if kind not in self.how:
            return
        self.done += 1
        self.names.append(name)
        if self.done != self.fails_at:
            return
        if self.how == "kill at file, broker, database":
            self.is_dead = True
            raise Killed
        if kind == "database":
            raise DatabaseAway("the database went away")
        raise Unreachable("the connection broke", may_be_stored=name.endswith("was stored"))

    def around(self, kind: str, name: str, act: Callable[[], T]) -> T:
        self.pass_by(kind, f"before {name}")
        found = act()
        self.pass_by(kind, f"behind {name}")
        return found


class SeamFile(StateFile):
    def __init__(self, folder: Path, seams: Seams) -> None:
        super().__init__(folder, "synthetic")
        self._seams = seams

    def save(self, state: CaptureState) -> None:
        self._seams.around("file", "the state is saved", lambda: StateFile.save(self, state))


class SeamHistory(SchemaHistory):
    def __init__(self, folder: Path, seams: Seams) -> None:
        super().__init__(folder)
        self._seams = seams

    def save(self) -> None:
        self._seams.around("file", "the history is saved", lambda: SchemaHistory.save(self))


class SeamSender:
    """The connection to brokers. What goes wrong behind a send is an answer that never came."""

    def __init__(self, sender: Any, seams: Seams) -> None:
        self._sender, self._seams = sender, seams

    async def send(self, *arguments: Any) -> Any:
        self._seams.pass_by("broker", "a batch was not sent")
        answer = await self._sender.send(*arguments)
        self._seams.pass_by("broker", "a batch was stored")
        return answer


class SyntheticSource:
    """The log as a source. Positions are as those of real ones: whole transactions, then changes of the next one."""

    def __init__(self, start: Position, until: Position | None, seams: Seams, over: asyncio.Event) -> None:
        seams.pass_by("database", "the log is opened")
        self._at = (int(start.done or 0), start.event)
        self._until, self._seams, self._over = until, seams, over

    def read(self, bounds: ReadBounds) -> Slice:
        self._seams.pass_by("database", "the log is read")
        whole, event = self._at
        end = len(LOG) if self._until is None else int(self._until.done)
        changes: list[RowChange] = []
        while whole < end and len(changes) < READ_AT_ONCE:
            changes.append(_change(whole, event))
            event += 1
            if event == len(LOG[whole]):
                whole, event = whole + 1, 0
        self._at = whole, event
        place = Position(done=str(whole), inside=str(whole + 1) if event else "", event=event)
        return Slice(changes, place, 1000 + whole, is_caught_up=not changes)

    def confirm(self, position: Position) -> None:
        self._seams.pass_by("database", "the position is confirmed")

    def close(self) -> None:
        pass


def _change(whole: int, event: int) -> RowChange:
    table, op, before, after = LOG[whole][event]
    source = {"connector": "mariadb", "db": "shop", "table": table.name, "ts_ms": 1000 + whole}
    return RowChange(table, op, before, after, 1000 + whole, source, str(whole + 1), 10, str(whole + 1))


class SyntheticSnapshot:
    """Rows before the log begins; one that goes on with the rest stands at a later place, as those of databases do."""

    def __init__(self, seams: Seams, is_first: bool) -> None:
        seams.pass_by("database", "the snapshot is opened")
        self._seams = seams
        self.position = Position(done="0" if is_first else "1")

    def tables(self) -> list[TableSize]:
        return [TableSize(ORDERS.full_name, SNAPSHOT_ROWS)]

    def rows(self, table: str, last: tuple[str, ...] | None, most: int) -> SnapshotRows:
        self._seams.pass_by("database", "rows are read")
        first = 0 if last is None else int(last[0]) + 1
        numbers = range(first, min(first + most, SNAPSHOT_ROWS))
        source = {"connector": "mariadb", "db": "shop", "table": "orders", "snapshot": "true"}
        changes = [RowChange(ORDERS, Op.READ, None, row(number, "read"), 1, source) for number in numbers]
        return SnapshotRows(changes, (str(numbers[-1]),) if len(numbers) == most else None)

    def close(self) -> None:
        pass


class QuickClock(SystemClock):
    """Pauses are short: nothing here needs the time."""

    def timeout(self, seconds: float | None) -> AbstractAsyncContextManager[object]:
        return asyncio.timeout(0.001)


async def at_once(call: Callable[[], T]) -> T:
    await asyncio.sleep(0)
    return call()


@dataclass
class Synthetic:
    """One capture of the synthetic log, which may be killed and run again: its files are all that it keeps."""

    folder: Path
    client: Client
    prefix: str

    async def run(self, seams: Seams) -> bool:
        """Run until all is stored. Return whether it was: else the capture was killed."""
        over = asyncio.Event()
        file, rules = SeamFile(self.folder, seams), Rules(prefix=self.prefix, tombstones=True, transactions=True)
        state = file.load()
        history = SeamHistory(self.folder, seams)
        history.load(state.lines_noted)
        target = Target(self.client, f"cdc.{self.prefix}")
        target.sender = SeamSender(target.sender, seams)  # type: ignore[assignment]
        rounds = Rounds(state, file, history, rules, target, QuickClock(), at_once)
        capture = Capture(
            rounds=rounds,
            tables=SeenTables(rules, history),
            open_source=lambda start, until: self._source(start, until, seams, over, state),
            open_snapshot=lambda: SyntheticSnapshot(seams, state.position is None),
            stop_wanted=over,
            chunk_rows=2,
        )
        try:
            await capture.run()
        except Killed:
            return False
        except BaseExceptionGroup as group:
            if group.split(Killed)[1] is not None:
                raise
            return False
        return True

    def _source(
        self, start: Position, until: Position | None, seams: Seams, over: asyncio.Event, state: CaptureState
    ) -> ChangeSource:
        source = SyntheticSource(start, until, seams, over)
        read = source.read

        def watched(bounds: ReadBounds) -> Slice:
            found = read(bounds)
            if until is None and not found.changes and state.position == END and state.open is None:
                over.set()
            return found

        source.read = watched  # type: ignore[method-assign]
        return source


def numbers_of(messages: Sequence[dict[str, str]]) -> Iterator[int]:
    return (int(each["cdcNumber"]) for each in messages)
