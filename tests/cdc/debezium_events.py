"""Events as the documentation of Debezium's connectors shows them, written down by hand: of MariaDB and PostgreSQL.

The table of its examples is `customers`. Only what differs from one event to the next is spelled out.
"""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

ANNE = {"id": 1004, "first_name": "Anne", "last_name": "Kretchmar", "email": "annek@noanswer.org"}
ANNE_MARIE = ANNE | {"first_name": "Anne Marie"}


def field(called: str, kind: str, optional: bool = False, **more: Any) -> Json:
    return {"type": kind, "optional": optional, "field": called, **more}


ROW = [
    field("id", "int32"), field("first_name", "string"), field("last_name", "string"), field("email", "string"),
]  # fmt: skip
COMMON_SOURCE = [
    field("version", "string"), field("connector", "string"), field("name", "string"), field("ts_ms", "int64"),
    field("snapshot", "string", True, name="io.debezium.data.Enum", version=1, default="false",
          parameters={"allowed": "true,first,first_in_data_collection,last_in_data_collection,last,false,incremental"}),
    field("db", "string"), field("sequence", "string", True), field("ts_us", "int64", True),
    field("ts_ns", "int64", True),
]  # fmt: skip
MARIADB_SOURCE = [
    *COMMON_SOURCE, field("table", "string", True), field("server_id", "int64"), field("gtid", "string", True),
    field("file", "string"), field("pos", "int64"), field("row", "int32"), field("thread", "int64", True),
    field("query", "string", True),
]  # fmt: skip
POSTGRESQL_SOURCE = [
    *COMMON_SOURCE, field("schema", "string"), field("table", "string"), field("txId", "int64", True),
    field("lsn", "int64", True), field("xmin", "int64", True),
]  # fmt: skip
BLOCK = [field("id", "string"), field("total_order", "int64"), field("data_collection_order", "int64")]


def envelope(connector: str, source: list[Json], topic: str) -> Json:
    """Return the schema of an event's value."""
    row = {"type": "struct", "optional": True, "name": f"{topic}.Value", "fields": ROW}
    return {
        "type": "struct", "optional": False, "name": f"{topic}.Envelope", "version": 2,
        "fields": [
            row | {"field": "before"},
            row | {"field": "after"},
            {"type": "struct", "optional": False, "name": f"io.debezium.connector.{connector}.Source", "version": 1,
             "fields": source, "field": "source"},
            {"type": "struct", "optional": True, "name": "event.block", "version": 1, "fields": BLOCK,
             "field": "transaction"},
            field("op", "string"), field("ts_ms", "int64", True), field("ts_us", "int64", True),
            field("ts_ns", "int64", True),
        ],
    }  # fmt: skip


TIMES = {"ts_us": 1465491411815547, "ts_ns": 1465491411815547000}
_MARIADB = {
    "version": "3.0.8.Final", "connector": "mariadb", "name": "mariadb-server-1", "ts_ms": 1465491411000, **TIMES,
    "snapshot": "false", "db": "inventory", "table": "customers", "server_id": 223344, "gtid": "1-1-7201",
    "file": "mariadb-bin.000003", "pos": 154, "row": 0, "thread": 7, "query": None, "sequence": None,
}  # fmt: skip
_POSTGRESQL = {
    "version": "3.0.8.Final", "connector": "postgresql", "name": "PostgreSQL_server", "ts_ms": 1559033904863, **TIMES,
    "snapshot": "false", "db": "postgres", "sequence": '["24023119","24023128"]', "schema": "public",
    "table": "customers", "txId": 555, "lsn": 24023128, "xmin": None,
}  # fmt: skip


def _event(op: str, before: Json | None, after: Json | None, source: Json) -> Json:
    block = {"id": "555:24023128", "total_order": 1, "data_collection_order": 1}
    return {
        "before": before, "after": after, "source": source, "transaction": block, "op": op, "ts_ms": 1465491411815,
        **TIMES,
    }  # fmt: skip


# create, update and delete
MARIADB = [
    _event("c", None, ANNE, _MARIADB), _event("u", ANNE, ANNE_MARIE, _MARIADB), _event("d", ANNE_MARIE, None, _MARIADB),
]  # fmt: skip
POSTGRESQL = [  # REPLICA IDENTITY FULL
    _event("c", None, ANNE, _POSTGRESQL),
    _event("u", ANNE, ANNE_MARIE, _POSTGRESQL),
    _event("d", ANNE_MARIE, None, _POSTGRESQL),
]
POSTGRESQL_KEY_ALONE = {"id": 1004}  # what `before` of a delete has with the default identity

BEGIN = {
    "status": "BEGIN", "id": "571:53195829", "ts_ms": 1486500577125, "event_count": None, "data_collections": None,
}  # fmt: skip
END = {
    "status": "END", "id": "571:53195832", "ts_ms": 1486500577691, "event_count": 2,
    "data_collections": [
        {"data_collection": "s1.a", "event_count": 1}, {"data_collection": "s2.a", "event_count": 1},
    ],
}  # fmt: skip
TRANSACTION_SCHEMA = {
    "type": "struct", "optional": False, "name": "io.debezium.connector.common.TransactionMetadataValue", "version": 1,
    "fields": [
        field("status", "string"), field("id", "string"), field("event_count", "int64", True),
        field("data_collections", "array", True, items={
            "type": "struct", "optional": False, "name": "event.collection", "version": 1,
            "fields": [field("data_collection", "string"), field("event_count", "int64")],
        }),
        field("ts_ms", "int64"),
    ],
}  # fmt: skip
HEARTBEAT = {"ts_ms": 1486500577125}
HEARTBEAT_KEY = {"serverName": "server-1"}
