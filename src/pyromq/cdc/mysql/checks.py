"""What a MySQL server must be set to so that its log can be captured; each finding with the SQL that mends it."""

from __future__ import annotations

from collections.abc import Iterator

from ..address import ServerAddress
from ..binlog.checks import TABLES, check_log, check_retention, check_rights, check_tables, check_zone
from ..binlog.source import ask, connect
from ..changes import Finding, IsWanted, Position
from .gtids import ExecutedGtids

_RIGHTS = ("REPLICATION SLAVE", "REPLICATION CLIENT", "RELOAD")
_NEEDED = (
    ("gtid_mode", "ON", "SET GLOBAL gtid_mode = ON, step by step as MySQL's manual has it"),
    ("enforce_gtid_consistency", "ON", "SET GLOBAL enforce_gtid_consistency = ON"),
    ("binlog_transaction_compression", "OFF", "SET GLOBAL binlog_transaction_compression = OFF"),
    ("binlog_row_value_options", "", "SET GLOBAL binlog_row_value_options = ''"),
)


def check(address: ServerAddress, is_wanted: IsWanted, position: Position | None) -> Iterator[Finding]:
    """Yield what was looked at, well or not. CaptureError if the server cannot be asked."""
    connection = connect(address)
    try:
        values = dict(ask(connection, "SHOW GLOBAL VARIABLES"))
        yield from check_log(values)
        for name, wanted, mend in _NEEDED:
            found = values.get(name, wanted)
            is_bad = found.upper() != wanted
            yield Finding(name, found or "none", mend if is_bad else "", is_bad=is_bad)
        wanted_tables = [each for each in ask(connection, TABLES) if is_wanted(f"{each[0]}.{each[1]}")]
        lines = [each[0] for each in ask(connection, "SHOW GRANTS")]
        yield from check_rights(lines, address.user, [(each[0], each[1]) for each in wanted_tables], _RIGHTS)
        yield check_retention(values)
        yield check_zone(values)
        yield from check_tables(connection, wanted_tables, "MySQL")
        if position is not None:
            yield _position(values, position)
    finally:
        connection.close()


def _position(values: dict[str, str], position: Position) -> Finding:
    done, purged = ExecutedGtids(position.done), ExecutedGtids(values.get("gtid_purged", ""))
    if lost := done.missing(purged):
        found = f"{position.done}: {lost} transactions behind it were purged"
        return Finding("position", found, "pyromq cdc reset, then run", is_bad=True)
    behind = done.missing(ExecutedGtids(values.get("gtid_executed", "")))
    return Finding("position", f"{position.done}, {behind} transactions behind the newest")
