"""Rows as documents of a store that speaks MongoDB's protocol: a collection for each table, `_id` is the key.

The number of the last event stands in each document as `cdcNumber`; a document that has a higher one is left alone by
the condition of its write. Deleted rows are remembered in the collection `cdcDeleted`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

from ...errors import PyroError
from ...text.extras import install_command
from .rows import UNNUMBERED, RowWrite
from .sinks import Applied, OpenSink, SinkAway, SinkRefused, without_password

NUMBER, DELETED = "cdcNumber", "cdcDeleted"
_EXISTS = 11000
_LARGEST = 2**63 - 1


@dataclass(frozen=True)
class MongoSink:
    url: str
    database: str = "cdc"

    @property
    def place(self) -> str:
        return f"{without_password(self.url)} database {self.database}"

    def check(self, *, dry_run: bool = False) -> None:
        """Raise PyroError if the package is missing, or no server answers."""
        try:
            import pymongo
        except ImportError:
            raise PyroError(f"document stores need the package pymongo: {install_command('sinks')}") from None
        from pymongo.errors import PyMongoError

        try:
            client: Any
            with pymongo.MongoClient(self.url, serverSelectionTimeoutMS=5000) as client:
                client.admin.command("ping")
        except (PyMongoError, ValueError) as fault:
            raise PyroError(f"{self.place} cannot be used: {fault}. Write --mongo mongodb://HOST:PORT") from None

    @contextmanager
    def opened(self) -> Iterator[OpenSink]:
        import pymongo

        client: Any
        with pymongo.MongoClient(self.url, serverSelectionTimeoutMS=5000) as client:
            yield _OpenMongo(client[self.database], self.place)


class _OpenMongo:
    def __init__(self, database: Any, place: str) -> None:
        self._database = database
        self._place = place

    def apply(self, writes: Sequence[RowWrite]) -> Applied:
        from bson.errors import InvalidDocument
        from pymongo.errors import AutoReconnect, BulkWriteError, PyMongoError

        try:
            return self._apply(writes)
        except AutoReconnect as fault:  # and what cannot be connected
            raise SinkAway(f"{self._place}: {fault}") from None
        except BulkWriteError as fault:
            if fault.details["writeErrors"][0].get("code") == _EXISTS:
                raise SinkAway(f"{self._place}: another writer made the same row at this moment") from None
            raise SinkRefused(f"{self._place}: {fault.details['writeErrors'][0].get('errmsg')}") from None
        except (PyMongoError, InvalidDocument, OverflowError) as fault:
            raise SinkRefused(f"{self._place}: {fault}") from None

    def _apply(self, writes: Sequence[RowWrite]) -> Applied:
        found = Applied()
        for table in dict.fromkeys(write.table for write in writes):
            part = self._above_deleted(table, [write for write in writes if write.table == table])
            found = found.plus(self._write(table, [write for write in part if write.values is not None]))
            found = found.plus(self._delete(table, [write for write in part if write.values is None]))
        return Applied(found.written, found.deleted, len(writes) - found.written - found.deleted)

    def _above_deleted(self, table: str, writes: Sequence[RowWrite]) -> list[RowWrite]:
        """Return the writes of rows that were not deleted by a later event."""
        marks = {f"{table}:{write.key_text}": write for write in writes}
        deleted = {each["_id"]: each[NUMBER] for each in self._database[DELETED].find({"_id": {"$in": list(marks)}})}
        return [
            write
            for mark, write in marks.items()
            if write.number == UNNUMBERED or deleted.get(mark, UNNUMBERED) < write.number
        ]

    def _write(self, table: str, writes: Sequence[RowWrite]) -> Applied:
        """Insert the rows that are not there; change the others, where their number is still lower by then."""
        from pymongo import InsertOne, ReplaceOne, UpdateOne

        ids = [key_id(write.key) for write in writes]
        there = [each["_id"] for each in self._database[table].find({"_id": {"$in": ids}}, {"_id": 1})]
        requests: list[Any] = []
        for at, write in zip(ids, writes, strict=True):
            row = {name: as_bson(value) for name, value in (write.values or {}).items()}
            if write.number != UNNUMBERED:
                row[NUMBER] = write.number
            if at not in there:
                requests.append(InsertOne({**row, "_id": at}))
            elif write.is_whole:
                requests.append(ReplaceOne(_where(write), row))
            else:
                requests.append(UpdateOne(_where(write), {"$set": row}))
        return Applied(written=self._changed(table, requests))

    def _delete(self, table: str, writes: Sequence[RowWrite]) -> Applied:
        from pymongo import DeleteOne, UpdateOne

        numbered = [write for write in writes if write.number != UNNUMBERED]
        marks: list[Any] = [
            UpdateOne({"_id": f"{table}:{write.key_text}"}, {"$max": {NUMBER: write.number}}, upsert=True)
            for write in numbered
        ]
        self._changed(DELETED, marks)  # first the mark: a kill in between leaves a row that the repeat deletes
        self._changed(table, [DeleteOne(_where(write)) for write in writes])
        return Applied(deleted=len(writes))

    def _changed(self, collection: str, requests: list[Any]) -> int:
        """Do the requests; return how many fitted a document or made one."""
        if not requests:
            return 0
        done = self._database[collection].bulk_write(requests, ordered=False)
        count: int = done.matched_count + done.inserted_count + done.upserted_count + done.deleted_count
        return count


def _where(write: RowWrite) -> dict[str, Any]:
    own = {"_id": key_id(write.key)}
    if write.number == UNNUMBERED:
        return own
    return {**own, "$or": [{NUMBER: {"$lt": write.number}}, {NUMBER: {"$exists": False}}]}


def key_id(key: Mapping[str, Any]) -> Any:
    """Return a key's value of one column, a document of several."""
    values = {name: as_bson(value) for name, value in key.items()}
    return next(iter(values.values())) if len(values) == 1 else values


def as_bson(value: Any) -> Any:
    """Return the value as the protocol can carry it: a larger whole number than 64 bits hold is a text."""
    if isinstance(value, int) and not -_LARGEST <= value <= _LARGEST:
        return str(value)
    if isinstance(value, (time, Decimal)):
        return str(value)
    if isinstance(value, date) and not isinstance(value, datetime):
        return datetime(value.year, value.month, value.day)
    if isinstance(value, dict):
        return {name: as_bson(each) for name, each in value.items()}
    return [as_bson(each) for each in value] if isinstance(value, list) else value
