"""Where rows of a query come from: the brokers of a cluster, or the files of stores.

A source is asked which topics there are, and for the pieces of one topic that a filter leaves: by topic, broker, queue,
offset, store time and tag. Brokers send no message outside of these; of files no piece of the log outside of the times
is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

import pyarrow as pa

from ..errors import ConfigError
from ..spark.connect.cluster import Cluster
from ..spark.options import ReadOptions, Use, connection_options, net_part, read_options
from ..spark.read.offsets import OffsetRange
from ..spark.read.pulling import read_range
from ..spark.read.starting import planned, within_times
from ..spark.store.store_rows import messages_of
from ..spark.store.store_scan import PIECE, LogRange, RangeScan, plan, stored_within
from ..store.files.disk import DiskError
from ..store.layout import BATCH_QUEUES, QUEUES
from .filters import FilterNode, leaves

_BATCH_ROWS = "65536"  # DuckDB takes larger batches more cheaply than Spark does
_MOST_TAGS = 64  # in one subscription; more are chosen from the rows


class Piece(NamedTuple):
    """A stretch of one queue or log. `size` is how much of it is read, in messages or bytes."""

    size: int
    read: Callable[[pa.Schema], Iterator[pa.RecordBatch]]


class RowSource(Protocol):
    """Knows topics and reads them. `unit` says in what sizes of pieces are counted."""

    @property
    def unit(self) -> str: ...

    def topics(self) -> list[str]: ...

    def pieces(self, topic: str, filter: FilterNode) -> list[Piece]: ...


@dataclass(frozen=True)
class BrokerSource:
    """The brokers of a cluster, by options of the Spark source."""

    options: Mapping[str, str]
    unit: str = "messages"

    def topics(self) -> list[str]:
        with Cluster(connection_options(net_part(self.options), Use.BATCH)) as cluster:
            return cluster.topics(".*")

    def pieces(self, topic: str, filter: FilterNode) -> list[Piece]:
        given = {"arrowBatchRows": _BATCH_ROWS, **self.options, "topic": topic, "tags": " || ".join(_tags(filter))}
        asked = read_options({name: value for name, value in given.items() if value}, Use.BATCH)
        if not leaves(filter, "topic").has(topic):
            return []
        found = planned(asked, within_times(*_times_ms(filter)))
        parts = [(part, address) for each, address in found if (part := _narrowed(each, filter)) is not None]
        return [Piece(part.size, _pulls(part, address, asked)) for part, address in parts]


def _pulls(part: OffsetRange, address: str, asked: ReadOptions) -> Callable[[pa.Schema], Iterator[pa.RecordBatch]]:
    return lambda schema: read_range(part, address, asked, schema)


def _narrowed(part: OffsetRange, filter: FilterNode) -> OffsetRange | None:
    """Return what of the range the filter leaves; None if that is nothing."""
    queue = part.queue
    if not leaves(filter, "brokerName").has(queue.broker) or not leaves(filter, "queueId").has(queue.queue_id):
        return None
    low, high = leaves(filter, "queueOffset").bounds()
    begin = part.begin if low is None else max(part.begin, low)
    end = part.end if high is None else min(part.end, high + 1)
    return OffsetRange(queue, begin, end) if begin < end else None


def _tags(filter: FilterNode) -> list[str]:
    """Return the tags to which the filter leaves messages; none where it leaves all, or a broker cannot choose them."""
    values = leaves(filter, "tag").values
    if values is None or not 0 < len(values) <= _MOST_TAGS:
        return []
    plain = [each for each in values if isinstance(each, str) and each.strip() == each and each and "|" not in each]
    return sorted(plain) if len(plain) == len(values) and "*" not in plain else []


def _times_ms(filter: FilterNode) -> tuple[int | None, int | None]:
    """Return the first store time in milliseconds that the filter leaves, and the first one after them."""
    low, high = leaves(filter, "storeTimestamp").bounds()
    return None if low is None else -(-low // 1000), None if high is None else high // 1000 + 1


@dataclass(frozen=True)
class StoreSource:
    """The files of stores, ours or Java's, without a broker."""

    folders: Sequence[Path]
    options: Mapping[str, str]
    unit: str = "bytes of the log"

    def topics(self) -> list[str]:
        found: set[str] = set()
        for folder in self.folders:
            for queues in (folder / QUEUES, folder / BATCH_QUEUES):
                found |= {each.name for each in queues.iterdir()} if queues.is_dir() else set()
        return sorted(found)

    def pieces(self, topic: str, filter: FilterNode) -> list[Piece]:
        low, high = _times_ms(filter)
        times = {"startingTimestamp": low, "endingTimestamp": high}
        given = {"arrowBatchRows": _BATCH_ROWS, **self.options, "store": "-", "topic": topic}  # a path may hold commas
        given |= {name: str(max(0, time)) for name, time in times.items() if time is not None}
        asked = read_options(given, Use.BATCH)
        if not leaves(filter, "topic").has(topic):
            return []
        found: list[Piece] = []
        for folder in map(str, self.folders):
            if not leaves(filter, "brokerName").has(folder):
                continue
            try:
                parts = plan(folder, 1) if low is None and high is None else plan(folder, 1, PIECE)
                found += [_scan(part, asked) for part in stored_within(parts, low, high)]
            except DiskError as fault:
                raise ConfigError(f"--store {folder}: {fault}") from None
        return found


def _scan(part: LogRange, asked: ReadOptions) -> Piece:
    def read(schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        return messages_of(RangeScan(part, verify=asked.verify_crc), asked, schema, part.store)

    return Piece(part.end - part.begin, read)
