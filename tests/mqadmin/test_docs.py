"""docs/mqadmin.md lists every command as it is."""

from __future__ import annotations

from pathlib import Path

from pyromq.mqadmin import catalogue

PAGE = Path(__file__).parents[2] / "docs" / "mqadmin.md"


def row(name: str) -> str:
    command = catalogue.find(name)
    state = f"waits for {command.waits_for}" if command.waits_for else "served"
    return f"| `{name}` | {command.text} | {state} |"


def test_the_page_has_a_row_per_command() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    assert rows == [row(name) for name in catalogue.COMMANDS]
