"""Tables as the capture saw them last: what is said when one comes, or has changed, and what their history gets."""

from __future__ import annotations

from collections.abc import Iterable

from ... import logs
from ..changes import CaptureError, RowChange, SourceTable, TableStatement
from ..rules import Rules, check_key_is_shown
from .column_changes import changed_columns
from .history import SchemaHistory

log = logs.get("pyromq.cdc")


class SeenTables:
    """The newest form of each table: of this process, and of former ones by the history."""

    def __init__(self, rules: Rules, history: SchemaHistory) -> None:
        self._rules = rules
        self.history = history
        self._known: dict[str, SourceTable] = {}

    def note(self, change: RowChange) -> None:
        """Note the table of a change. CaptureError if the rules hide its key."""
        table = change.table
        known = self._known.get(table.full_name)
        if known is table or not table.columns:
            return
        if known is None or known.key_names != table.key_names:
            self._check_key(table)
        self._known[table.full_name] = table
        former = self.history.forms.get(table.full_name)
        if former == table.columns:
            return
        changes = [] if former is None else changed_columns(former, table.columns)
        self.history.note_columns(table.full_name, table.columns, changes, change.place, change.ts_ms)
        if changes:
            log.info("a table has changed", table=table.full_name, changes="; ".join(each.words for each in changes))

    def note_statements(self, statements: Iterable[TableStatement]) -> None:
        """Note what was done to tables, where logs say so."""
        for each in statements:
            self.history.note_statement(each)

    def _check_key(self, table: SourceTable) -> None:
        if (fault := check_key_is_shown(self._rules, table)) is not None:
            raise CaptureError(fault)
        if not table.key_names:
            log.warning("a table has no primary key: its changes stay in order in one queue", table=table.full_name)
