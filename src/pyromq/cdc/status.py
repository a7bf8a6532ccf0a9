"""How far a capture is, of its state alone: what `pyromq cdc status` shows. Pure."""

from __future__ import annotations

from typing import Any

from .state import CaptureState


def report(state: CaptureState, now_ms: int) -> dict[str, Any]:
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
    }


def behind_ms(state: CaptureState, now_ms: int) -> int:
    """Return how old the oldest change is that may not be stored yet; 0 where a quiet source has none."""
    if state.open is not None:
        return max(0, now_ms - state.open.ts_ms) if state.open.ts_ms else 0
    return max(0, state.saved_ms - state.ts_ms) if state.ts_ms and not state.is_caught_up else 0


def phase_of(state: CaptureState) -> str:
    if state.position is None:
        return "not begun"
    if all(each.is_done for each in state.snapshot):
        return "stream"
    return "stream and snapshot" if state.is_incremental else "snapshot"
