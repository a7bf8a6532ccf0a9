"""One task of a write: rows into requests, each to a queue of its own, all of them answered before the task ends.

Everything follows from the rows, their order and the origin (query, batch, partition): a task that is run again makes
the same requests with the same ids, which brokers with a duplicate window store once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ...client.core.routing import Route, queue_for_key
from ...client.produce.outgoing import Outgoing, SendRow
from ...errors import ConfigError
from ...model import names
from ...model.message import Property
from ...protocol.requests import RequestCode
from ..codec.encode import BadRows, batch_entries, bodies, column, deliver_ms, property_strings
from ..codec.vectors import Positions, fixed_text, hex_digits
from ..options import WriteOptions
from .sending import BatchSender, SendRequest, SendTotals

# Spark's types that fit: numbers and times become texts, texts never become numbers.
_TEXT, _WHOLE = r"(?!array|map|struct|variant|interval).*", "tinyint|smallint|int|bigint|void"
COLUMNS = {
    "body": ("binary or string", "binary|(string|varchar|char).*"),
    "topic": ("string", _TEXT),
    "keys": ("string or array<string>", rf"{_TEXT}|array<{_TEXT}"),
    "tags": ("string", _TEXT),
    "properties": ("map<string,string>", "void|map<(string|void),(string|void)>"),
    "flag": ("int", _WHOLE),
    "queueId": ("int", _WHOLE),
    "brokerName": ("string", _TEXT),
    "shardingKey": ("string", _TEXT),
    "delayTimeLevel": ("int", _WHOLE),
    "deliverTimestamp": ("timestamp, or bigint in milliseconds", f"timestamp.*|{_WHOLE}"),
}
_CHOOSE_QUEUES = ("queueId", "brokerName", "shardingKey")
_FREE = -1
_A_SECOND = 4  # requests of a sender whose rate is limited
# Free rows of a chunk go to queues in so many pieces, none of fewer rows. By the rows alone, not by how many queues
# there are: a task that is run again after a topic got more of them makes the same requests.
_PIECES, _LEAST_ROWS = 16, 8


def check_columns(given: Mapping[str, str], options: WriteOptions) -> None:
    """Raise ConfigError for columns, by name and Spark's type, that cannot be written, before anything is sent."""
    for name, kind in given.items():
        if name not in COLUMNS:
            nearest = get_close_matches(name, COLUMNS, 1, 0.6)
            hint = f"did you mean {nearest[0]}?" if nearest else "leave it out by select(...)."
            raise ConfigError(f"column {name!r} cannot be written; {hint} Columns are {', '.join(COLUMNS)}")
        wanted, fitting = COLUMNS[name]
        if re.fullmatch(fitting, kind) is None:
            raise ConfigError(f"column {name} is of type {kind}; it must be {wanted}: convert it by cast")
    if "body" not in given:
        raise ConfigError("column body: it is needed, and holds what is sent (binary or string)")
    if not options.topic and "topic" not in given:
        raise ConfigError("topic: it is needed, as an option for all rows or as a column for each")
    if options.topic and (fault := names.topic_fault(options.topic)) is not None:
        raise ConfigError(f"topic = {options.topic!r}: {fault}")


class _Group(NamedTuple):
    """Rows of one chunk that go to one topic; `queue` is a place in its route, or free."""

    topic: str
    queue: int
    rows: Positions


class RowWriter:
    """`origin` names the task in a way that its repeat shares; `partition` spreads tasks over queues."""

    def __init__(self, options: WriteOptions, origin: str, partition: int, sender: BatchSender) -> None:
        self._options = options
        self._origin = origin
        self._sender = sender
        # Of free rows: the next queue. Tasks begin apart from each other, and each job elsewhere.
        job = blake2b(origin.removesuffix(f"/{partition}").encode(), digest_size=4).digest()
        self._turn = int.from_bytes(job) + partition * (_PIECES + 1)
        self._rows = 0
        self._requests = 0
        self._prefix = blake2b(origin.encode(), digest_size=12).digest()

    def write(self, batches: Iterable[pa.RecordBatch]) -> SendTotals:
        try:
            for batch in batches:
                for request in self._requests_of(batch):
                    self._sender.put(request)
            return self._sender.finish()
        finally:
            self._sender.close()

    def _requests_of(self, batch: pa.RecordBatch) -> Iterator[SendRequest]:
        if not batch.num_rows:
            return
        ids = self._ids(batch.num_rows)
        body, properties = bodies(batch), property_strings(batch, ids)
        flag_column = column(batch, "flag", pa.int32())
        flags = None if flag_column is None else flag_column.fill_null(0).to_numpy(zero_copy_only=False)
        timed = _timed(batch)
        for group in self._groups(batch, self._topics(batch)):
            many = group.rows[~timed[group.rows]]
            if len(many):
                parts = [_rows_of(each, many) for each in (body, properties, ids)]
                entries = batch_entries(parts[0], parts[1], None if flags is None else flags[many])
                yield from self._batches(group, entries, parts[2])
            for row in group.rows[timed[group.rows]].tolist():
                # A delayed message cannot be in a batch.
                data, said = memoryview(body[row].as_py()), properties[row].as_py().decode()
                flag = 0 if flags is None else int(flags[row])
                yield self._request(group, RequestCode.SEND_MESSAGE_V2, said, data, 1, flag)

    def _ids(self, count: int) -> pa.Array:
        """Return unique ids: 12 bytes of the origin and 4 of the row's number, as long as the ids of other clients."""
        numbers = np.arange(self._rows, self._rows + count, dtype=">u4").view(np.uint8).reshape(count, 4)
        self._rows += count
        digits = np.empty((count, 2 * (len(self._prefix) + 4)), np.uint8)
        digits[:, :-8] = hex_digits(np.frombuffer(self._prefix, np.uint8)[None, :])
        digits[:, -8:] = hex_digits(numbers)
        return fixed_text(digits)

    def _topics(self, batch: pa.RecordBatch) -> pa.Array:
        found = column(batch, "topic", pa.string())
        if found is None:
            found = pa.nulls(batch.num_rows, pa.string())
        if found.null_count and not self._options.topic:
            row = int(np.argmax(found.is_null().to_numpy(zero_copy_only=False)))
            raise BadRows(f"row {row}: its topic is null, and there is no option topic to stand in for it")
        return found.fill_null(self._options.topic)

    def _groups(self, batch: pa.RecordBatch, topics: pa.Array) -> Iterator[_Group]:
        choosing = [name for name in _CHOOSE_QUEUES if name in batch.schema.names]
        known = topics.dictionary_encode()
        codes = known.indices.to_numpy(zero_copy_only=False)
        for code, topic in enumerate(known.dictionary.to_pylist()):
            rows = np.flatnonzero(codes == code)
            route = self._sender.route(topic)
            free = np.full(len(rows), _FREE, np.int64)
            queues = _queues(batch.select(choosing).take(pa.array(rows)), route) if choosing else free
            for queue in np.unique(queues).tolist():
                yield _Group(topic, queue, rows[queues == queue])

    def _batches(self, group: _Group, entries: pa.Array, ids: pa.Array) -> Iterator[SendRequest]:
        """Yield requests, each with as many messages as fit into it; a message that is larger goes alone."""
        _, offset_buffer, data = entries.buffers()
        offsets = np.frombuffer(offset_buffer, np.int32)[entries.offset : entries.offset + len(entries) + 1]
        begin, view = 0, memoryview(data)
        rate = self._options.max_rate
        most = len(entries) if group.queue != _FREE else max(_LEAST_ROWS, -(-len(entries) // _PIECES))
        most = most if rate is None else min(most, max(1, rate // _A_SECOND))  # a limited rate is not kept by lumps
        while begin < len(entries):
            fits = int(np.searchsorted(offsets, offsets[begin] + self._options.max_batch_bytes, side="right")) - 1
            end = max(begin + 1, min(fits, begin + most))
            properties = f"{Property.UNIQ_KEY}\x01{ids[begin].as_py()}\x02{Property.WAIT}\x01true\x02"
            body = view[offsets[begin] : offsets[end]]
            yield self._request(group, RequestCode.SEND_BATCH_MESSAGE, properties, body, end - begin)
            begin = end

    def _request(
        self, group: _Group, code: SendRow, properties: str, body: memoryview, rows: int, flag: int = 0
    ) -> SendRequest:
        queues = self._sender.route(group.topic).writable
        place = group.queue
        if place == _FREE:
            place, self._turn = self._turn % len(queues), self._turn + 1
        self._requests += 1
        outgoing = Outgoing(topic=group.topic, ids=[], body=b"", properties=properties, code=code)
        return SendRequest(queues[place], outgoing, body, rows, f"{self._origin}/{self._requests}/", flag)


def _rows_of(values: pa.Array, rows: Positions) -> pa.Array:
    """Return the values of these rows, without a copy where they are all rows."""
    return values if len(rows) == len(values) else values.take(pa.array(rows))


def _timed(batch: pa.RecordBatch) -> npt.NDArray[np.bool_]:
    level, deliver = column(batch, "delayTimeLevel", pa.int64()), deliver_ms(batch)
    timed = np.zeros(batch.num_rows, np.bool_)
    if level is not None:
        timed |= level.fill_null(0).to_numpy(zero_copy_only=False) > 0
    if deliver is not None:
        timed |= deliver.is_valid().to_numpy(zero_copy_only=False)
    return timed


def _queues(batch: pa.RecordBatch, route: Route) -> npt.NDArray[np.int64]:
    """Return for each row of one topic its place in `route.writable`; -1 where any queue will do."""
    places = np.full(batch.num_rows, _FREE, np.int64)
    sharding = column(batch, "shardingKey", pa.string())
    if sharding is not None:
        known = sharding.dictionary_encode()
        keys = known.dictionary.to_pylist()
        found = np.array([route.writable.index(queue_for_key(route.writable, key)) for key in keys], np.int64)
        valid = sharding.is_valid().to_numpy(zero_copy_only=False)
        places[valid] = found[known.indices.fill_null(0).to_numpy(zero_copy_only=False)[valid]]
    number, broker = column(batch, "queueId", pa.int64()), column(batch, "brokerName", pa.string())
    if number is not None:
        brokers = pa.nulls(batch.num_rows, pa.string()) if broker is None else broker
        for row in np.flatnonzero(number.is_valid().to_numpy(zero_copy_only=False)).tolist():
            places[row] = _place(route, number[row].as_py(), brokers[row].as_py())
    return places


def _place(route: Route, queue_id: int, broker: str | None) -> int:
    """Return the queue's place in the route. Of several brokers that have it, its number decides: always the same."""
    fitting = [
        place
        for place, queue in enumerate(route.writable)
        if queue.queue_id == queue_id and broker in (None, queue.broker_name)
    ]
    if not fitting:
        there = ", ".join(f"{each.broker_name}/{each.queue_id}" for each in route.writable)
        raise BadRows(
            f"topic {route.topic}: there is no queue {queue_id} to write{f' on {broker}' if broker else ''}; "
            f"there are {there}"
        )
    return fitting[queue_id % len(fitting)]
