"""Boundaries of transactions, as Debezium tells of them: a block in each event, and events of their own.

Whoever wants a transaction whole collects the events of its id until there are as many as its END counts. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from ...model.message import Property
from ..changes import RowChange, SourceTable
from ..events import KEY_PROPERTY, OP_PROPERTY
from ..rules import Rules, topic_name
from ..schema.envelope_schema import TRANSACTION_SCHEMA
from .captured import Captured, body_of

TOPIC = "transaction"  # last word of the topic of BEGIN and END


class TransactionProgress(msgspec.Struct, frozen=True):
    """A transaction of which changes were sent, and whose end was not: its events so far, of each table and of all."""

    id: str
    ts_ms: int
    total: int
    counts: dict[str, int]


class Boundaries:
    """Follows the transactions along the changes of a round, from where the last round has left one."""

    def __init__(self, open_one: TransactionProgress | None, rules: Rules) -> None:
        self._rules = rules
        self._id = "" if open_one is None else open_one.id
        self._ts_ms = 0 if open_one is None else open_one.ts_ms
        self._counts = {} if open_one is None else dict(open_one.counts)

    @property
    def progress(self) -> TransactionProgress | None:
        if not self._id:
            return None
        return TransactionProgress(self._id, self._ts_ms, sum(self._counts.values()), dict(self._counts))

    def before(self, change: RowChange) -> Iterator[Captured]:
        """Yield what belongs before a change: the end of another transaction, the beginning of its own."""
        if change.transaction == self._id:
            self._ts_ms = max(self._ts_ms, change.ts_ms)
            return
        yield from self.end()
        self._id, self._ts_ms, self._counts = change.transaction, change.ts_ms, {}
        if self._id:
            yield self._event("BEGIN", None, None)

    def block(self, table: SourceTable) -> dict[str, Any] | None:
        """Count an event, and return its block; None of a row of a snapshot, which is in no transaction."""
        if not self._id:
            return None
        order = self._counts[table.collection] = self._counts.get(table.collection, 0) + 1
        return {"id": self._id, "total_order": sum(self._counts.values()), "data_collection_order": order}

    def end(self) -> Iterator[Captured]:
        """Yield the end of the transaction under way, if there is one."""
        if self._id:
            counts = [{"data_collection": name, "event_count": count} for name, count in self._counts.items()]
            yield self._event("END", sum(self._counts.values()), counts)
        self._id = ""

    def _event(self, status: str, count: int | None, counts: list[dict[str, Any]] | None) -> Captured:
        value = {
            "status": status, "id": self._id, "event_count": count, "data_collections": counts, "ts_ms": self._ts_ms,
        }  # fmt: skip
        properties = {
            OP_PROPERTY: status,
            Property.TAGS: status,
            Property.KEYS: self._id,
            KEY_PROPERTY: msgspec.json.encode({"id": self._id}).decode(),
        }
        body = body_of(value, TRANSACTION_SCHEMA if self._rules.schemas else None)
        return Captured(topic_name(self._rules.prefix, TOPIC), "", body, properties)
