"""Collections of a document store, looked at: ranges of `_id` where the key begins with a whole number."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

from ...cdc.key_ranges import KeyRange
from ...errors import PyroError
from ..cdc.mongo_sink import NUMBER, MongoSink, as_bson, key_id
from ..cdc.rows import RowWrite
from .chunks import ComparedRow, TaskPart, compared
from .views import ComparedTable, OpenView


@dataclass(frozen=True)
class MongoView:
    sink: MongoSink
    has_shares: bool = False

    @property
    def place(self) -> str:
        return self.sink.place

    def check(self) -> None:
        self.sink.check(dry_run=True)

    def at(self, table: ComparedTable) -> Self:
        return self

    def has_ranges(self, table: ComparedTable) -> bool:
        return True

    @contextmanager
    def opened(self, table: ComparedTable) -> Iterator[OpenView]:
        import pymongo
        from pymongo.errors import PyMongoError

        client: Any
        try:
            with pymongo.MongoClient(self.sink.url, serverSelectionTimeoutMS=5000) as client:
                yield _OpenMongo(client[self.sink.database][table.name], table)
        except PyMongoError as fault:
            raise PyroError(f"{self.place}: {fault}") from None


class _OpenMongo:
    def __init__(self, collection: Any, table: ComparedTable) -> None:
        self._collection = collection
        self._table = table

    def expected(self, writes: Sequence[RowWrite]) -> Iterator[ComparedRow]:
        for write in writes:
            document = _stored(
                {**{name: as_bson(value) for name, value in (write.values or {}).items()}, "_id": key_id(write.key)}
            )
            yield self._compared(document.pop("_id"), document)

    def rows(self, piece: TaskPart) -> Iterator[ComparedRow]:
        for each in piece.ranges:
            for document in self._collection.find(self._within(each)):
                yield self._compared(document.pop("_id"), document)

    def _within(self, within: KeyRange) -> dict[str, Any]:
        """Return the condition of a range. The first one has what is no number, too: no row of ours."""
        if within == KeyRange():
            return {}
        place = "_id" if len(self._table.key) == 1 else f"_id.{self._table.first}"
        below = {} if within.high is None else {"$lt": within.high}
        if within.low is None:
            return {"$or": [{place: below}, {place: {"$not": {"$type": "number"}}}]}
        return {place: {"$gte": within.low, **below}}

    def _compared(self, at: Any, row: Mapping[str, Any]) -> ComparedRow:
        key = at if isinstance(at, dict) and len(self._table.key) > 1 else {self._table.first: at}
        return compared(key, self._table.first, row, self._table.columns, (NUMBER,))


def _stored(document: dict[str, Any]) -> dict[str, Any]:
    """Return a document as it comes back: times to the millisecond, in UTC."""
    from bson import decode, encode
    from bson.errors import InvalidDocument

    try:
        return decode(encode(document))
    except (InvalidDocument, OverflowError):  # which the sink refuses: the row is missing there
        return document
