"""Rounds: messages and a position, noted on disk, sent, and noted as stored.

The order of these steps is what makes each change stored once: positions move on disk only behind messages that are
stored, and messages leave only when the disk has them and the names that they leave under.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .. import logs
from ..ambient import Clock, RunBlocking
from ..model.foreign_text import bounded_line
from .changes import Position
from .outgoing.captured import Captured
from .outgoing.target import Target
from .outgoing.transactions import TransactionProgress
from .rules import DEAD, Rules, topic_name
from .schema.history import SchemaHistory
from .state import CaptureState, Round, StateFile, TableProgress

log = logs.get("pyromq.cdc")


@dataclass(slots=True)
class Rounds:
    """Event loop only. One per state file."""

    state: CaptureState
    file: StateFile
    history: SchemaHistory
    rules: Rules
    target: Target
    clock: Clock
    run_blocking: RunBlocking
    saved_at: float = 0.0
    saved_end: Position | None = None  # where the state on disk leads to, once its open round is finished
    is_news: bool = False  # a round has ended since the state was saved
    sent_messages: int = 0  # by this process
    sent_bytes: int = 0  # of their bodies

    async def send(
        self,
        messages: Sequence[Captured],
        end: Position,
        ts_ms: int,
        *,
        tables: Mapping[str, int],
        read: TableProgress | None = None,
        transaction: TransactionProgress | None = None,
    ) -> None:
        """Store the messages, and note that they are. `tables`: changes of each."""
        state = self.state
        batches, placed = await self.target.place(messages, state.sequence)
        state.open = Round(
            end, state.number, batches, placed, tuple(messages), dict(tables), ts_ms, read, transaction
        )  # fmt: skip
        state.sequence += len(batches)
        await self.save()
        await self._finish(state.open, repeated=False)

    async def finish_open(self) -> None:
        """Send again what a kill, or a database that went away, has left under way."""
        if (unfinished := self.state.open) is not None:
            log.info("sending again what was under way", messages=len(unfinished.messages))
            await self._finish(unfinished, repeated=True)

    async def _finish(self, current: Round, *, repeated: bool) -> None:
        state = self.state
        dead = await self.target.send(current.batches, current.placed, current.messages, state.epoch, repeated)
        for message, why in dead:
            await self._bury(message, why, repeated)
        for table, count in current.tables.items():
            state.counts[table] = state.counts.get(table, 0) + count
        if (read := current.read) is not None:
            state.snapshot = tuple(read if each.table == read.table else each for each in state.snapshot)
        state.number = current.number + len(current.messages)
        state.position, state.transaction, state.open, self.is_news = current.end, current.transaction, None, True
        state.ts_ms = current.ts_ms or state.ts_ms
        self.sent_messages += len(current.messages)
        self.sent_bytes += sum(len(message.body) for message in current.messages)

    async def _bury(self, message: Captured, why: str, repeated: bool) -> None:
        """Send, in place of a message that no broker takes, one that says so to the topic of such messages.

        After a kill it has the same number as before, since the state on disk is that of before the round's end.
        """
        self.state.dead += 1
        topic = topic_name(self.rules.prefix, DEAD)
        log.error("a change is too large for its topic", topic=message.topic, key=message.lane, cause=why)
        properties = {**message.properties, "cdcTopic": message.topic, "cdcCause": bounded_line(why, 500)}
        letter = Captured(topic, message.lane, message.body[:4000], properties)
        batches, placed = await self.target.place([letter], self.state.sequence)
        self.state.sequence += len(batches)
        await self.target.send(batches, placed, [letter], self.state.epoch, repeated)

    async def save(self) -> None:
        """Save the state, and before it what the history of the tables got since."""
        state, history = self.state, self.history
        await self.run_blocking(history.save)
        state.saved_ms, self.saved_at, self.is_news = self.clock.now_ms(), self.clock.monotonic(), False
        state.noted = history.number
        await self.run_blocking(lambda: self.file.save(state))
        self.saved_end = state.position if state.open is None else state.open.end
