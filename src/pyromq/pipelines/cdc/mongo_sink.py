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
# BadValue, TypeMismatch, names of fields, ImmutableField, a document that is not valid, or too large.
_REFUSALS = {2, 14, 52, 56, 57, 66, 121, 10334, 17419, 17420}
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
        from pymongo.errors import BulkWriteError, PyMongoError

        try:
            return self._apply(writes)
        except BulkWriteError as fault:
            kinds: list[dict[str, Any]] = fault.details.get("writeErrors") or []
            words = f"{self._place}: {kinds[0].get('errmsg') if kinds else fault}"
            if kinds and all(map(_is_of_the_row, kinds)):
                raise SinkRefused(words) from None
            raise SinkAway(words) from None
        except (InvalidDocument, OverflowError) as fault:
            raise SinkRefused(f"{self._place}: {fault}") from None
        except PyMongoError as fault:  # not reached, no longer primary, no rights, ...
            raise SinkAway(f"{self._place}: {fault}") from None

    def _apply(self, writes: Sequence[RowWrite]) -> Applied:
        found = Applied()
        for table in dict.fromkeys(write.table for write in writes):
            part = self._above_deleted(table, [write for write in writes if write.table == table])
            found = found.plus(self._write(table, [write for write in part if write.values is not None]))
            found = found.plus(self._delete(table, [write for write in part if write.values is None]))
        return Applied(found.written, found.deleted, len(writes) - found.written - found.deleted)

    def sweep(self, table: str, below: int) -> int:
        from pymongo.errors import PyMongoError

        try:
            count: int = self._database[table].delete_many(_older(below)).deleted_count
        except PyMongoError as fault:
            raise SinkAway(f"{self._place}: {fault}") from None
        return count

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
        from bson import encode
        from pymongo import InsertOne, ReplaceOne, UpdateOne

        there = self._names(table, writes)
        requests: list[Any] = []
        for write in writes:
            at = key_id(write.key)
            row = {name: as_bson(value) for name, value in (write.values or {}).items()}
            if write.number != UNNUMBERED:
                row[NUMBER] = write.number
            names = there.get(encode({"_id": at}))
            if names is None:
                requests.append(InsertOne({**row, "_id": at}))
            elif write.is_whole:
                requests.append(ReplaceOne(_where(write), row))
            else:
                gone = dict.fromkeys(names - row.keys() - write.kept - {"_id"}, "")
                requests.append(UpdateOne(_where(write), {"$set": row} | ({"$unset": gone} if gone else {})))
        return Applied(written=self._changed(table, requests))

    def _names(self, table: str, writes: Sequence[RowWrite]) -> dict[bytes, set[str]]:
        """Return the documents that are there, by their id; with the names of their fields where these matter."""
        from bson import encode

        found: dict[bytes, set[str]] = {}
        for is_whole, wanted in ((True, {"_id": 1}), (False, None)):
            ids = [key_id(write.key) for write in writes if write.is_whole is is_whole]
            for each in self._database[table].find({"_id": {"$in": ids}}, wanted) if ids else ():
                found[encode({"_id": each["_id"]})] = set(each)
        return found

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
    return {**own, **_older(write.number)}


def _older(number: int) -> dict[str, Any]:
    return {"$or": [{NUMBER: {"$lt": number}}, {NUMBER: {"$exists": False}}]}


def _is_of_the_row(error: Mapping[str, Any]) -> bool:
    """Return whether a write was refused for what is in it, and will be each time."""
    if error.get("code") == _EXISTS:  # a key of the users; another writer made the same row, if it is `_id`
        return "_id" not in error.get("keyPattern", ("_id",))
    return error.get("code") in _REFUSALS


def key_id(key: Mapping[str, Any]) -> Any:
    """Return a key's value of one column, a document of several."""
    values = {name: _as_id(value) for name, value in key.items()}
    return next(iter(values.values())) if len(values) == 1 else values


def _as_id(value: Any) -> Any:
    """Return the value as the protocol can carry it without a loss: its times have no microseconds."""
    is_finer = isinstance(value, datetime) and value.microsecond % 1000
    return value.isoformat() if is_finer else as_bson(value)


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
