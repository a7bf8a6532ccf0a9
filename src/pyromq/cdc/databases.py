"""The kinds of databases that are captured: for each its log, its snapshot and what is checked."""

from __future__ import annotations

from collections.abc import Iterator

from .binlog import checks as mariadb_checks
from .binlog.ranges import MariaDbRows
from .binlog.snapshot import MariaDbSnapshot
from .binlog.source import BinlogSource
from .changes import ChangeSource, Finding, Position, TableSnapshot
from .config import CdcConfig
from .key_ranges import TableRows
from .mysql import checks as mysql_checks
from .mysql.snapshot import MySqlSnapshot
from .mysql.source import MySqlSource
from .postgres import checks as postgres_checks
from .postgres.ranges import PostgresRows
from .postgres.slots import slot_names
from .postgres.snapshot import PostgresSnapshot
from .postgres.source import PostgresPlace, PostgresSource


def open_source(config: CdcConfig, start: Position, until: Position | None) -> ChangeSource:
    """Open the log at a place. Blocks."""
    address, rules = config.database, config.rules
    if address.kind == "postgresql":
        return PostgresSource(_place(config), start, until)
    source = MySqlSource if address.kind == "mysql" else BinlogSource
    return source(address, config.name, start, rules.is_wanted, config.replica_number, until)


def open_snapshot(config: CdcConfig, *, is_first: bool) -> TableSnapshot:
    """Open the rows as they are now; `is_first`: no position is known yet. Blocks."""
    address = config.database
    if address.kind == "postgresql":
        return PostgresSnapshot(_place(config), is_first=is_first)
    snapshot = MySqlSnapshot if address.kind == "mysql" else MariaDbSnapshot
    return snapshot(address, config.name, config.rules.is_wanted)


def open_rows(config: CdcConfig) -> TableRows:
    """Open the rows of the wanted tables as they are now, without a position in the log. Blocks."""
    address = config.database
    if address.kind == "postgresql":
        return PostgresRows(_place(config))
    return MariaDbRows(address, config.rules.is_wanted)


def check(config: CdcConfig, position: Position | None) -> Iterator[Finding]:
    """Yield what the database is like for a capture."""
    if config.database.kind == "postgresql":
        return postgres_checks.check(_place(config), position)
    check_server = mysql_checks.check if config.database.kind == "mysql" else mariadb_checks.check
    return check_server(config.database, config.rules.is_wanted, position)


def _place(config: CdcConfig) -> PostgresPlace:
    names = slot_names(config.name, config.slot, config.publication)
    return PostgresPlace(config.database, config.name, names, config.rules.is_wanted)
