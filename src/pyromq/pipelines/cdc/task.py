"""A task of a delivery: messages folded by row and applied in pieces; yields counts, and the messages that are refused.

All changes of a row are in one task, in their order. A task waits for a sink that is away, and takes out of a piece
what the sink will never take. Spark repeats a batch that was not finished; sinks then find their rows up to date.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pyarrow as pa

from ... import logs
from ...ambient import Clock, SystemClock, pause
from ...errors import PyroError
from .rows import ChangeMessage, Folded, RowWrite, Undelivered, fold
from .sinks import Applied, OpenSink, Sink, SinkAway, SinkRefused

T = TypeVar("T")
log = logs.get("pyromq.pipelines")

COLUMNS = ("topic", "brokerName", "queueId", "queueOffset", "body", "properties")
COUNTS = ("events", "written", "deleted", "repeats", "refused")
# A row has either the counts of some messages, or one that was refused, with its cause.
OUTCOME = "topic string, brokerName string, queueId int, queueOffset bigint, body binary, "
OUTCOME += "properties map<string,string>, cause string, truncated map<string,bigint>, " + ", ".join(
    f"{name} bigint" for name in COUNTS
)
_ARROW = pa.schema(
    [
        ("topic", pa.string()),
        ("brokerName", pa.string()),
        ("queueId", pa.int32()),
        ("queueOffset", pa.int64()),
        ("body", pa.binary()),
        ("properties", pa.map_(pa.string(), pa.string())),
        ("cause", pa.string()),
        ("truncated", pa.map_(pa.string(), pa.int64())),  # with the counts: tables that were emptied, by number
        *((name, pa.int64()) for name in COUNTS),
    ]
)
_PIECE = 5_000  # rows that a sink takes at once
_AGAIN_S = 1.0
_REMIND_S = 60.0


@dataclass(frozen=True)
class SinkTask:
    """How a task works. It travels there, with the sink's address in it."""

    sink: Sink
    wait_s: float
    floors: Mapping[str, int] = field(default_factory=dict)  # of tables that were emptied: what is older is late
    piece: int = _PIECE
    clock: Clock = field(default_factory=SystemClock)
    wait: Callable[[float], None] = pause

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Apply the messages of one task; yield what became of them."""
        with self.sink.opened() as sink:
            for batch in batches:
                found = fold(_messages(batch), self.floors)
                done, bad = self._deliver(sink, found)
                counts: dict[str, Any] = {"events": batch.num_rows, **done._asdict(), "refused": len(bad)}
                counts["truncated"] = list(found.truncated.items())
                yield pa.RecordBatch.from_pylist([counts, *map(_letter, bad)], _ARROW)

    def sweep(self, table: str, below: int) -> int:
        """Delete the rows of a table that are older than the number; return how many."""
        with self.sink.opened() as sink:
            return self._waiting(lambda: sink.sweep(table, below))

    def _deliver(self, sink: OpenSink, found: Folded) -> tuple[Applied, list[Undelivered]]:
        done, bad = Applied(repeats=found.repeats), found.bad
        writes = list(found.writes.values())
        for begin in range(0, len(writes), self.piece):
            applied, refused = self._apply(sink, writes[begin : begin + self.piece])
            done = done.plus(applied)
            for write, why in refused:  # all that it is made of: the sink has none of it
                bad += [Undelivered(each, why) for each in found.messages[write.table, write.key_text]]
        return done, bad

    def _apply(self, sink: OpenSink, writes: Sequence[RowWrite]) -> tuple[Applied, list[tuple[RowWrite, str]]]:
        """Apply all; where the sink refuses some, one half and the other, down to those alone."""
        try:
            return self._waiting(lambda: sink.apply(writes)), []
        except SinkRefused as fault:
            if len(writes) == 1:
                return Applied(), [(writes[0], str(fault))]
        middle = len(writes) // 2
        done, refused = self._apply(sink, writes[:middle])
        more, others = self._apply(sink, writes[middle:])
        return done.plus(more), refused + others

    def _waiting(self, work: Callable[[], T]) -> T:
        """Do the work; while the sink is away, wait and say so, at first and then every minute."""
        now = begun = self.clock.monotonic()
        said = begun - _REMIND_S
        while True:
            try:
                return work()
            except SinkAway as fault:
                now = self.clock.monotonic()
                if now - begun >= self.wait_s:
                    raise PyroError(
                        f"the sink was away for {self.wait_s:g} s: {fault}. Start the pipeline again when it is back: "
                        "it goes on where it was"
                    ) from None
                if now - said >= _REMIND_S:
                    said = now
                    log.warning("the sink is away, delivery waits", fault=str(fault), seconds=round(now - begun))
            self.wait(_AGAIN_S)


def _messages(batch: pa.RecordBatch) -> Iterator[ChangeMessage]:
    names = ("topic", "queueId", "queueOffset", "body", "properties", "brokerName")
    columns = [batch.column(name).to_pylist() for name in names]
    for topic, queue_id, offset, body, properties, broker in zip(*columns, strict=True):
        yield ChangeMessage(topic, queue_id, offset, body or b"", dict(properties or ()), broker)


def _letter(bad: Undelivered) -> dict[str, Any]:
    message = bad.message
    return {
        "topic": message.topic,
        "brokerName": message.broker,
        "queueId": message.queue_id,
        "queueOffset": message.offset,
        "body": message.body,
        "properties": list(message.properties.items()),
        "cause": bad.cause,
    }
