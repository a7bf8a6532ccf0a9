"""How far a capture is, of its state alone: what `pyromq cdc status` shows. Pure."""

from __future__ import annotations

from typing import Any

import msgspec

from .schema.column_changes import ColumnChange
from .schema.history import SchemaHistory
from .state import CaptureState

_SHOWN_CHANGES = 20


def report(state: CaptureState, now_ms: int, history: SchemaHistory) -> dict[str, Any]:
    """Return the facts as rows and tables."""
    return {
        "source": state.source,
        "phase": phase_of(state),
        "position": state.position.done if state.position is not None else "",
        "inside a transaction": state.position.inside if state.position is not None else "",
        "messages": state.number,
        "under way": len(state.open.messages) if state.open is not None else 0,
        "dead letters": state.dead,
        "starts": state.epoch,
        "newest change": state.ts_ms,
        "behind ms": behind_ms(state, now_ms),
        "saved ms ago": max(0, now_ms - state.saved_ms) if state.saved_ms else 0,
        "snapshot": [
            {"table": each.table, "rows": each.rows, "about": each.about, "state": "done" if each.is_done else "to do"}
            for each in state.snapshot
        ],
        "tables": [{"table": table, "changes": count} for table, count in sorted(state.counts.items())],
        "schema changes": [
            {
                "table": each.table,
                "when": each.ts_ms,
                "position": each.place,
                "changes": [msgspec.to_builtins(change) for change in each.changes],
                "statement": each.statement,
            }
            for each in history.changes
        ],
        "schema changes forgotten": history.forgotten,
    }


def shown(found: dict[str, Any]) -> dict[str, Any]:
    """Return the report for people: of the changes of schemas the newest, in words."""
    newest = found["schema changes"][-_SHOWN_CHANGES:]
    in_words = [
        {
            "table": each["table"],
            "when": each["when"],
            "position": each["position"],
            "what": each["statement"] or "; ".join(ColumnChange(**change).words for change in each["changes"]),
        }
        for each in newest
    ]
    return found | {"schema changes": in_words}


def behind_ms(state: CaptureState, now_ms: int, seen_ms: int | None = None) -> int:
    """Return how old the oldest change is that may not be stored yet; 0 where a quiet source has none.

    `seen_ms`: when the state was so; else when it was saved. Clocks that jump make it wrong, but never negative.
    """
    if state.open is not None:
        return max(0, now_ms - state.open.ts_ms) if state.open.ts_ms else 0
    seen_ms = state.saved_ms if seen_ms is None else seen_ms
    return max(0, seen_ms - state.ts_ms) if state.ts_ms and not state.is_caught_up else 0


def phase_of(state: CaptureState) -> str:
    if state.position is None:
        return "not begun"
    if all(each.is_done for each in state.snapshot):
        return "stream"
    return "stream and snapshot" if state.is_incremental else "snapshot"
