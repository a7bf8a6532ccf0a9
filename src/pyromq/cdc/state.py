"""What a capture remembers: where it is in the log, which messages are under way, who it is to brokers.

One small file, replaced whole and synced before anything is sent. A *round* is what is sent between two such
writes: some changes as messages, each with its batch. After a kill the same batches are sent again under the same
names, whatever became of the database or of the rules: brokers, or the ends of the queues, tell which were stored.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from ..errors import ConfigError
from ..files import replace_file
from .changes import CaptureError, Position
from .outgoing.captured import Captured
from .outgoing.transactions import TransactionProgress


class BatchPlace(msgspec.Struct, frozen=True):
    """Where one batch of a round goes, under which number of the producer."""

    topic: str
    broker: str
    queue_id: int
    sequence: int


class TableProgress(msgspec.Struct, frozen=True, omit_defaults=True):
    """How far a snapshot of one table is. `last` is the key of the last row that was sent, in the database's words."""

    table: str
    last: tuple[str, ...] | None = None
    rows: int = 0
    about: int = 0  # rows that the database expects
    is_done: bool = False


class Round(msgspec.Struct, frozen=True):
    """Messages that may be stored or not. `placed` has the batch of each message, in the order of the log."""

    end: Position
    number: int  # of the first message
    batches: tuple[BatchPlace, ...]
    placed: tuple[int, ...]
    messages: tuple[Captured, ...]
    tables: dict[str, int]  # changes of each
    ts_ms: int = 0
    read: TableProgress | None = None  # how far the snapshot of a table is then, where these are its rows
    transaction: TransactionProgress | None = None  # that is under way then


class CaptureState(msgspec.Struct, omit_defaults=True):
    """All of it. `epoch` grows with each start, so that a process that was thought dead is refused by brokers."""

    source: str
    position: Position | None = None
    epoch: int = 0
    sequence: int = 0
    number: int = 0
    open: Round | None = None
    snapshot: tuple[TableProgress, ...] = ()
    is_incremental: bool = False  # the tables to read were asked for while the stream went on, which it does
    ts_ms: int = 0  # of the newest change that is stored
    is_caught_up: bool = False  # there was nothing behind that change in the log when it was last read
    saved_ms: int = 0
    counts: dict[str, int] = {}
    dead: int = 0
    transaction: TransactionProgress | None = None  # that is under way at the position
    noted: int = 0  # lines of the history of tables that belong to this state

    @property
    def lines_noted(self) -> int | None:
        """Return how many lines of that history count; None: all of them, no capture has begun."""
        return self.noted if self.epoch else None


class StateFile:
    """The state on disk, of one process. Blocks on the disk."""

    def __init__(self, folder: Path, source: str) -> None:
        self.path = folder / "capture.state"
        self._source = source

    def load(self) -> CaptureState:
        """Return the state; a new one where there is none. ConfigError if the file is of another source, or damaged."""
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return CaptureState(source=self._source)
        try:
            state = msgspec.msgpack.decode(content, type=CaptureState)
        except (msgspec.MsgspecError, UnicodeDecodeError) as fault:
            raise CaptureError(
                f"{self.path} is damaged ({fault}): copy {self.path.name}.bak over it, which is one step older; what "
                "was sent since then is recognised by the queues' ends"
            ) from None
        if state.source != self._source:
            raise ConfigError(
                f"{self.path} is the state of the source {state.source!r}, and name = {self._source!r}: give each "
                "source a stateDir of its own"
            )
        return state

    def save(self, state: CaptureState) -> None:
        replace_file(self.path, msgspec.msgpack.encode(state))

    # Tables that are to be read again: asked for in a file, since the state belongs to the process that captures.

    @property
    def request_file(self) -> Path:
        return self.path.with_name("snapshot.request")

    def request(self, tables: tuple[str, ...]) -> None:
        """Ask the capture, which may run now or later, to read these tables again. Names may have * and ?."""
        replace_file(self.request_file, msgspec.json.encode(sorted({*self.requested(), *tables})))

    def requested(self) -> tuple[str, ...]:
        """Return which tables are asked for. CaptureError if the file is damaged."""
        try:
            return msgspec.json.decode(self.request_file.read_bytes(), type=tuple[str, ...])
        except FileNotFoundError:
            return ()
        except (msgspec.MsgspecError, UnicodeDecodeError) as fault:
            raise CaptureError(f"{self.request_file} is damaged ({fault}): remove it, and ask again") from None

    def forget_request(self) -> None:
        self.request_file.unlink(missing_ok=True)


def forget_position(state: CaptureState) -> CaptureState:
    """Return the state of a capture that begins anew. Its numbers go on, and what was under way is given up."""
    return CaptureState(
        source=state.source,
        epoch=state.epoch,
        sequence=state.sequence,
        number=state.number + (len(state.open.messages) if state.open is not None else 0),
        counts=state.counts,
        dead=state.dead,
        noted=state.noted,
    )
