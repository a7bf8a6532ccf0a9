"""The schema part of an event, as Kafka Connect's JSON converter writes it: for consumers that read types there."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from ..changes import Column, SourceTable
from ..rules import Rules


@lru_cache(1000)
def schema_of(table: SourceTable, rules: Rules) -> dict[str, Any]:
    """Return the schema of a table's envelope."""
    topic = rules.topic_of(table.full_name)
    shown = rules.shown(table, {column.name: "" for column in table.columns}) or {}
    fields = [_field(column) for column in table.columns if column.name in shown]
    row = {"type": "struct", "fields": fields, "optional": True, "name": f"{topic}.Value"}
    return {
        "type": "struct",
        "optional": False,
        "name": f"{topic}.Envelope",
        "fields": [
            row | {"field": "before"},
            row | {"field": "after"},
            {
                "type": "struct",
                "optional": False,
                "name": "io.debezium.connector.Source",
                "fields": [],
                "field": "source",
            },
            {"type": "string", "optional": False, "field": "op"},
            {"type": "int64", "optional": True, "field": "ts_ms"},
        ],
    }


def _field(column: Column) -> dict[str, Any]:
    found: dict[str, Any] = {"type": column.kind, "optional": not column.is_key, "field": column.name}
    if column.kind == "array":
        found["items"] = {"type": column.items, "optional": True}
    if column.meaning:
        found |= {"name": column.meaning, "version": 1}
    found["parameters"] = {"__debezium.source.column.type": column.type}
    return found
