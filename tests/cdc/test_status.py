"""How far a capture is, told of its state alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyromq.cdc.changes import Column, Position, TableStatement
from pyromq.cdc.schema.column_changes import changed_columns
from pyromq.cdc.schema.history import SchemaHistory
from pyromq.cdc.state import CaptureState, Round
from pyromq.cdc.status import report, shown

POSITION = Position(done="0-1-7")


def reported(state: CaptureState, now_ms: int) -> dict[str, Any]:
    return report(state, now_ms, SchemaHistory(Path("nowhere")))


def state(*, is_caught_up: bool, open: Round | None = None) -> CaptureState:
    return CaptureState(
        source="shop", position=POSITION, ts_ms=10_000, saved_ms=70_000, is_caught_up=is_caught_up, open=open
    )


def test_a_quiet_source_is_not_behind() -> None:
    assert reported(state(is_caught_up=True), 71_000)["behind ms"] == 0


def test_a_source_with_more_in_its_log_is_behind() -> None:
    assert reported(state(is_caught_up=False), 71_000)["behind ms"] == 60_000


def test_what_is_under_way_counts_until_it_is_stored() -> None:
    waiting = Round(POSITION, 0, (), (), (), {}, ts_ms=66_000)
    assert reported(state(is_caught_up=True, open=waiting), 71_000)["behind ms"] == 5_000


def test_changes_of_tables_are_shown_in_words_to_people_and_in_parts_to_programs() -> None:
    history = SchemaHistory(Path("nowhere"))
    old, new = (Column("id", "int", is_key=True),), (Column("id", "bigint", is_key=True), Column("note", "text"))
    history.note_columns("shop.t", old, [], "0-1-5", 1)
    history.note_statement(TableStatement("shop.t", "ALTER TABLE t ...", "0-1-6", 2))
    history.note_columns("shop.t", new, changed_columns(old, new), "0-1-7", 3)
    found = report(state(is_caught_up=True), 71_000, history)
    assert found["schema changes"][1] == {
        "table": "shop.t", "when": 3, "position": "0-1-7", "statement": "",
        "changes": [
            {"what": "added", "column": "note", "now": "text"},
            {"what": "retyped", "column": "id", "was": "int", "now": "bigint"},
        ],
    }  # fmt: skip
    assert [(each["position"], each["what"]) for each in shown(found)["schema changes"]] == [
        ("0-1-6", "ALTER TABLE t ..."), ("0-1-7", "note added (text); id is bigint, was int"),
    ]  # fmt: skip
