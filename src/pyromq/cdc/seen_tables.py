"""Tables as the capture saw them last: what is said when one comes, or has changed. Pure but for the log lines."""

from __future__ import annotations

from .. import logs
from .changes import CaptureError, RowChange, SourceTable, changed_columns
from .rules import Rules, check_key_is_shown

log = logs.get("pyromq.cdc")


class SeenTables:
    """The newest form of each table."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._known: dict[str, SourceTable] = {}

    def note(self, change: RowChange) -> None:
        """Note the table of a change. CaptureError if the rules hide its key."""
        table = change.table
        known = self._known.get(table.full_name)
        if known is table or not table.columns:
            return
        if known is None or known.key_names != table.key_names:
            self._check_key(table)
        if known is not None and (words := changed_columns(known.columns, table.columns)):
            log.info("a table has changed", table=table.full_name, changes="; ".join(words))
        self._known[table.full_name] = table

    def _check_key(self, table: SourceTable) -> None:
        if (fault := check_key_is_shown(self._rules, table)) is not None:
            raise CaptureError(fault)
        if not table.key_names:
            log.warning("a table has no primary key: its changes stay in order in one queue", table=table.full_name)
