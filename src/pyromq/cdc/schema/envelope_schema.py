"""The schema parts of events, as Kafka Connect's JSON converter writes them: for consumers that read types there.

Fields and names are those of Debezium's connectors, as far as we send them.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from ..changes import Column, SourceTable
from ..rules import Rules

_Schema = dict[str, Any]


def _simple(field: str, kind: str, *, optional: bool = False, **more: Any) -> _Schema:
    return {"type": kind, "optional": optional, "field": field, **more}


_SNAPSHOT = _simple(
    "snapshot", "string", optional=True, name="io.debezium.data.Enum", version=1, default="false",
    parameters={"allowed": "true,first,first_in_data_collection,last_in_data_collection,last,false,incremental"},
)  # fmt: skip
_COMMON = [
    _simple("version", "string"), _simple("connector", "string"), _simple("name", "string"), _simple("ts_ms", "int64"),
    _SNAPSHOT, _simple("db", "string"), _simple("sequence", "string", optional=True),
]  # fmt: skip
_OF_BINLOG = [
    _simple("table", "string", optional=True), _simple("server_id", "int64"), _simple("gtid", "string", optional=True),
    _simple("file", "string"), _simple("pos", "int64"), _simple("row", "int32"),
]  # fmt: skip
_OF_POSTGRESQL = [
    _simple("schema", "string"), _simple("table", "string"), _simple("txId", "int64", optional=True),
    _simple("lsn", "int64", optional=True),
]  # fmt: skip
_SOURCES = {"mariadb": _OF_BINLOG, "mysql": _OF_BINLOG, "postgresql": _OF_POSTGRESQL}
_BLOCK = {
    "type": "struct", "optional": True, "name": "event.block", "version": 1, "field": "transaction",
    "fields": [_simple("id", "string"), _simple("total_order", "int64"), _simple("data_collection_order", "int64")],
}  # fmt: skip
_COLLECTION = {
    "type": "struct", "optional": False, "name": "event.collection", "version": 1,
    "fields": [_simple("data_collection", "string"), _simple("event_count", "int64")],
}  # fmt: skip
TRANSACTION_SCHEMA: _Schema = {
    "type": "struct", "optional": False, "name": "io.debezium.connector.common.TransactionMetadataValue", "version": 1,
    "fields": [
        _simple("status", "string"), _simple("id", "string"), _simple("event_count", "int64", optional=True),
        _simple("data_collections", "array", optional=True, items=_COLLECTION), _simple("ts_ms", "int64"),
    ],
}  # fmt: skip
HEARTBEAT_SCHEMA: _Schema = {
    "type": "struct", "optional": False, "name": "io.debezium.connector.common.Heartbeat", "version": 1,
    "fields": [_simple("ts_ms", "int64")],
}  # fmt: skip


@lru_cache(1000)
def schema_of(table: SourceTable, rules: Rules, connector: str) -> _Schema:
    """Return the schema of a table's envelope."""
    topic = rules.topic_of(table.full_name)
    shown = rules.shown(table, {column.name: "" for column in table.columns}) or {}
    fields = [_field(column) for column in table.columns if column.name in shown]
    row = {"type": "struct", "fields": fields, "optional": True, "name": f"{topic}.Value"}
    source = {
        "type": "struct", "optional": False, "name": f"io.debezium.connector.{connector}.Source", "version": 1,
        "fields": [*_COMMON, *_SOURCES[connector]], "field": "source",
    }  # fmt: skip
    return {
        "type": "struct",
        "optional": False,
        "name": f"{topic}.Envelope",
        "version": 2,
        "fields": [
            row | {"field": "before"},
            row | {"field": "after"},
            source,
            _BLOCK,
            _simple("op", "string"),
            _simple("ts_ms", "int64", optional=True),
        ],
    }


def _field(column: Column) -> _Schema:
    found = _simple(column.name, column.kind, optional=not column.is_key)
    if column.kind == "array":
        found["items"] = {"type": column.items, "optional": True}
    if column.meaning:
        found |= {"name": column.meaning, "version": 1}
    found["parameters"] = {"__debezium.source.column.type": column.type}
    return found
