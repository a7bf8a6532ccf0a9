"""What a pipeline has to say at its end: facts and tables, as text for people and as JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Table:
    """Rows with the same names."""

    title: str
    rows: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Summary:
    pipeline: str
    facts: Mapping[str, Any]
    tables: Sequence[Table] = field(default_factory=tuple)

    def as_json(self) -> str:
        told = {"pipeline": self.pipeline, **self.facts, **{table.title: list(table.rows) for table in self.tables}}
        return json.dumps(told, ensure_ascii=False, default=str)

    def as_text(self, width: int) -> str:
        """Tables as rich draws them."""
        from io import StringIO

        from rich.console import Console
        from rich.table import Table as RichTable

        out = StringIO()
        console = Console(file=out, width=width)
        for table in self.tables:
            drawn = RichTable(title=f"{self.pipeline}: {table.title}", title_justify="left", show_edge=False)
            names = list(table.rows[0]) if table.rows else ["nothing"]
            for name in names:
                drawn.add_column(name, no_wrap=True)
            for row in table.rows:
                drawn.add_row(*("" if row[name] is None else str(row[name]) for name in names))
            console.print(drawn)
        facts = ", ".join(f"{name} {value}" for name, value in self.facts.items())
        return f"{out.getvalue()}{self.pipeline}: {facts}\n"
