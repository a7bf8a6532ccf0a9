"""One task of a read: a range of one queue, pulled over a blocking connection and turned into Arrow batches.

The next pull is on its way before what came is decoded, and several are where a broker gives little at once
(`pull_window.py`). A broker that goes away is waited for, looked for again by the name servers, and asked on from the
same offset; what counts as progress is the offset, since offsets may have gaps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from ... import logs
from ...ambient import Clock, SystemClock, pause
from ...client.errors import Error, refused
from ...errors import CallFailed, ConnectionLost, ProtocolError, PyroError
from ...model.codes import ResponseCode
from ...model.message import WRAPPED_BATCH
from ...protocol.command import Command
from ...protocol.headers.pull import PullMessage, PullMessageAnswer
from ...protocol.messages import unframed
from ...protocol.pulls import PULL_CODES, PullAnswer, Pulled, PullFlag
from ...protocol.record import RecordError
from ...protocol.requests import RequestCode
from ..codec.bad_records import BadRecords
from ..codec.batches import decode_batches, messages_to_batch
from ..codec.records import QUEUE_OFFSET, Records, record_starts
from ..connect.cluster import Cluster
from ..connect.connection import POOL, BlockingConnection, ReceiveBuffer
from ..options import ReadOptions
from ..schema import COLUMNS
from .offsets import Loss, OffsetRange
from .pull_window import PullSpan, PullWindow
from .starting import report

log = logs.get("pyromq.spark")

_PULL_BYTES = 1 << 20
_CHUNK_BYTES = 4 << 20
_PAUSE_S = 0.25
_PASSING = (ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE)


@dataclass(slots=True)
class QueuePull:
    """One read of a range. Iterate `bodies` once; they may hold messages from before and behind the range."""

    part: OffsetRange
    address: str
    options: ReadOptions
    clock: Clock
    pause: Callable[[float], None] = pause
    connect: Callable[[str, ReadOptions], BlockingConnection] = BlockingConnection
    _early: dict[int | None, Command] = field(init=False, default_factory=dict)  # answers that came before their turn

    def bodies(self, buffer: ReceiveBuffer | None = None) -> Iterator[tuple[memoryview, int]]:
        """Yield the body of each answer, with the offset to go on at. They follow each other in `buffer`, if given."""
        window = PullWindow(self.part.begin, self.part.end, self.options.pull_batch_size)
        connection: BlockingConnection | None = None
        deadline = self._deadline()
        try:
            while window.offset < self.part.end:
                before, body = window.offset, None
                try:
                    if connection is None:
                        connection = self._connection()
                        self._early.clear()
                        self._ask(connection, window)
                    before_answer = 0 if buffer is None else buffer.used
                    following, body = self._interpret(self._receive(connection, window, buffer), before)
                    if body is None and buffer is not None:
                        buffer.used = before_answer
                    window.answered(following, 0 if body is None else len(body))
                    if following == before:
                        self._wait(deadline, f"{self.address} has nothing at offset {before} of {self.part.queue}")
                    self._ask(connection, window)
                except CallFailed as fault:
                    _close(connection)
                    connection = None
                    window.lost()
                    self._wait(deadline, str(fault))
                    self._find_broker()
                if window.offset > before:
                    deadline = self._deadline()
                if body is not None:
                    yield body, window.offset
            if connection is not None:
                POOL.keep(connection, self.options)
                connection = None
        finally:
            _close(connection)  # an error, or nobody wants the rest: an answer may still be on its way

    # --- one pull -------------------------------------------------------------------------------------------------

    def _ask(self, connection: BlockingConnection, window: PullWindow) -> None:
        if pulls := window.next_pulls():
            window.sent(connection.send_together([self._request(pull) for pull in pulls]), pulls)

    def _receive(self, connection: BlockingConnection, window: PullWindow, buffer: ReceiveBuffer | None) -> Command:
        """Return the answer whose turn it is. Those that come before their turn are kept aside, stale ones dropped."""
        while (answer := self._early.pop(window.awaited, None)) is None:
            before = 0 if buffer is None else buffer.used
            answer = connection.receive(buffer)
            if answer.opaque == window.awaited:
                return answer
            if window.is_wanted_later(answer.opaque):
                answer.body = bytes(answer.body)
                self._early[answer.opaque] = answer
            if buffer is not None:
                buffer.used = before
        if buffer is not None:
            body = buffer.reserve(len(answer.body))
            body[:] = answer.body
            buffer.used += len(body)
            answer.body = body
        return answer

    def _connection(self) -> BlockingConnection:
        if not self.address:  # the broker was away, or its topic no longer asked for, when this was planned
            raise ConnectionLost(f"no broker that serves {self.part.queue} is known")
        return POOL.take(self.address, self.options) or self.connect(self.address, self.options)

    def _request(self, pull: PullSpan) -> Command:
        options, queue = self.options, self.part.queue
        header = PullMessage(
            consumer_group=options.pull_group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            queue_offset=pull.begin,
            max_msg_nums=pull.most,
            sys_flag=PullFlag.SUBSCRIPTION,
            commit_offset=0,
            suspend_timeout_millis=0,
            subscription=options.sql or " || ".join(options.tag_list) or "*",
            sub_version=0,
            expression_type="SQL92" if options.sql else "TAG",
            max_msg_bytes=_PULL_BYTES,
            bname=queue.broker,
        )
        return Command(code=RequestCode.PULL_MESSAGE, fields=header.to_fields())

    def _interpret(self, answer: Command, offset: int) -> tuple[int, memoryview | None]:
        """Return the offset to go on at, and the records that came. Refused, DataLoss, ProtocolError."""
        if answer.code in _PASSING:
            return offset, None
        if answer.code not in PULL_CODES:
            raise refused(answer.code, answer.remark, self.address)
        pulled = PullAnswer.of(answer.code, PullMessageAnswer.from_fields(answer.fields), offset)
        following = max(offset, pulled.next_offset)
        if pulled.status is Pulled.ILLEGAL_OFFSET:
            return self._moved(offset, pulled), None
        if pulled.status is not Pulled.FOUND:
            return following, None
        if following == offset:
            raise ProtocolError(
                f"{self.address} answered a pull at {offset} with messages and next offset {pulled.next_offset}"
            )
        return following, memoryview(answer.body)

    def _moved(self, offset: int, pulled: PullAnswer) -> int:
        low, high = pulled.min_offset, pulled.max_offset
        queue, _, end = self.part
        if low > offset:
            lost = Loss(queue, offset, min(low, end), "were removed (retention) before they were read")
        elif high < offset:
            low, lost = end, Loss(queue, offset, end, f"are not there: the queue ends at {high}")
        else:
            return max(offset, pulled.next_offset)
        report([lost], self.options)
        return low

    # --- when it does not go on -----------------------------------------------------------------------------------

    def _deadline(self) -> float:
        return self.clock.monotonic() + self.options.pull_timeout_ms / 1000

    def _wait(self, deadline: float, why: str) -> None:
        if self.clock.monotonic() >= deadline:
            raise PyroError(f"no progress for pullTimeoutMs = {self.options.pull_timeout_ms}: {why}")
        self.pause(_PAUSE_S)

    def _find_broker(self) -> None:
        try:
            with Cluster(self.options) as cluster:
                self.address = cluster.route(self.part.queue.topic).reader(self.part.queue.broker) or self.address
        except Error as fault:
            log.debug("no route for now", topic=self.part.queue.topic, fault=str(fault))


def _close(connection: BlockingConnection | None) -> None:
    if connection is not None:
        connection.close()


def read_range(
    part: OffsetRange, address: str, options: ReadOptions, schema: pa.Schema, clock: Clock | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the messages of a range as batches of a few thousand rows."""
    buffer, begin = ReceiveBuffer(), part.begin
    pull = QueuePull(part, address, options, clock or SystemClock())
    bad = BadRecords(options.mode, str(part.queue))
    for _, offset in pull.bodies(buffer):
        if offset - begin >= options.batch_rows or buffer.used >= _CHUNK_BYTES:
            yield from _decoded(buffer, pull, OffsetRange(part.queue, begin, offset), schema, bad)
            begin = offset
    yield from _decoded(buffer, pull, OffsetRange(part.queue, begin, part.end), schema, bad)


def _decoded(
    buffer: ReceiveBuffer, pull: QueuePull, pulled: OffsetRange, schema: pa.Schema, bad: BadRecords
) -> Iterator[pa.RecordBatch]:
    """Yield the records in the buffer as columns, which are copies, and free it. `pulled` is where they came from."""
    if not buffer.used:
        return
    raw = buffer.view()
    try:
        starts = record_starts(raw)
    except RecordError as fault:
        text = f"{pulled.queue}: offsets {pulled.begin} to {pulled.end}: {fault}"
        log.warning("records of an answer cannot be told apart, each is asked for alone", what=text)
        made = _one_at_a_time(pull, pulled, schema, bad)
    else:
        made = decode_within(Records(raw, starts), pull.part, schema, pull.options.tag_list, bad)
    for batch in made:
        if batch.num_rows:
            yield batch
    buffer.clear()


def _one_at_a_time(
    pull: QueuePull, pulled: OffsetRange, schema: pa.Schema, bad: BadRecords
) -> Iterator[pa.RecordBatch]:
    """Pull a stretch once more, a record at a time: all but the broken ones can be read."""
    alone = replace(pull, part=pulled, options=replace(pull.options, pull_batch_size=1))
    queue, tags = pulled.queue, pull.options.tag_list
    for raw, offset in alone.bodies():
        try:
            starts = record_starts(raw)
        except RecordError as fault:
            broken = unframed(queue.topic, queue.queue_id, offset - 1, str(fault))
            if bad.is_kept(broken):
                yield messages_to_batch([broken], schema, queue.broker)
        else:
            yield from decode_within(Records(raw, starts), pull.part, schema, tags, bad)


def decode_within(
    records: Records, part: OffsetRange, schema: pa.Schema, tags: tuple[str, ...], bad: BadRecords
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the range that have these tags: brokers compare hashes, and may return more."""
    if tags or ((records.sys_flag & WRAPPED_BATCH) == WRAPPED_BATCH).any():
        yield from _chosen(records, schema, part, tags, bad)
        return
    offsets = records.int64(records.at + QUEUE_OFFSET)
    inside = (offsets >= part.begin) & (offsets < part.end)
    if not inside.all():
        records = Records(records.buffer, records.at[inside])
    yield from decode_batches(records, schema, part.queue.broker, bad)


def _chosen(
    records: Records, schema: pa.Schema, part: OffsetRange, tags: tuple[str, ...], bad: BadRecords
) -> Iterator[pa.RecordBatch]:
    """Choose by the rows themselves: an inner batch has many offsets, and tags are compared as text."""
    more = schema
    for name in ("queueOffset", "tags"):
        if name not in schema.names:
            more = more.append(pa.field(name, COLUMNS[name][0]))
    for batch in decode_batches(records, more, part.queue.broker, bad):
        offsets = batch.column("queueOffset").cast(pa.int64()).to_numpy(zero_copy_only=False)
        wanted = (offsets >= part.begin) & (offsets < part.end)
        if tags:
            wanted &= pc.is_in(batch.column("tags"), value_set=pa.array(tags)).to_numpy(zero_copy_only=False)
        yield batch.filter(pa.array(wanted)).select(schema.names)
