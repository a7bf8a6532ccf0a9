"""What a MariaDB server must be set to so that its log can be captured; each finding with the SQL that mends it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ..address import ServerAddress
from ..changes import Finding, IsWanted, Position
from .gtids import GtidSet
from .rights import grants_of, is_granted_everywhere, kept_s, unreadable
from .source import ask, connect, quoted

_LEAST_RETENTION_S = 86_400
_SERVER_RIGHTS = ("REPLICATION SLAVE", "BINLOG MONITOR")
_NAMED = 3  # of the tables that may not be read
_CASCADES = re.compile(r"CONSTRAINT `(.*?)` FOREIGN KEY.* ON (?:DELETE|UPDATE) (?:CASCADE|SET NULL)")
TABLES = (  # TABLE_CONSTRAINTS shows nothing to whoever may only read
    "SELECT t.TABLE_SCHEMA, t.TABLE_NAME, t.ENGINE, EXISTS(SELECT 1 FROM information_schema.KEY_COLUMN_USAGE k WHERE "
    "k.TABLE_SCHEMA = t.TABLE_SCHEMA AND k.TABLE_NAME = t.TABLE_NAME AND k.CONSTRAINT_NAME = 'PRIMARY') "
    "FROM information_schema.TABLES t WHERE t.TABLE_TYPE = 'BASE TABLE' ORDER BY 1, 2"
)


def check(address: ServerAddress, is_wanted: IsWanted, position: Position | None) -> Iterator[Finding]:
    """Yield what was looked at, well or not. CaptureError if the server cannot be asked."""
    connection = connect(address)
    try:
        values = dict(ask(connection, "SHOW GLOBAL VARIABLES"))
        yield from check_log(values)
        wanted = [each for each in ask(connection, TABLES) if is_wanted(f"{each[0]}.{each[1]}")]
        lines = [each[0] for each in ask(connection, "SHOW GRANTS")]
        yield from check_rights(lines, address.user, [(database, name) for database, name, *_ in wanted])
        yield check_retention(values)
        yield check_zone(values)
        yield from check_tables(connection, wanted)
        if position is not None and is_granted_everywhere(grants_of(lines), "BINLOG MONITOR"):
            yield _position(connection, values, position)
    finally:
        connection.close()


def check_log(values: dict[str, str]) -> Iterator[Finding]:
    if values.get("log_bin") != "ON":
        yield Finding("binlog", "off", "put log-bin into the server's configuration and restart it", is_bad=True)
        return
    yield Finding("binlog", "on")
    for name, wanted in (("binlog_format", "ROW"), ("binlog_row_metadata", "FULL"), ("binlog_row_image", "FULL")):
        found = values.get(name, "")
        if found.upper() == wanted:
            yield Finding(name, found)
        else:
            is_bad = name != "binlog_row_image"
            why = "" if is_bad else "; until then before and after lack the columns that did not change"
            yield Finding(name, found, f"SET GLOBAL {name} = '{wanted}'{why}", is_bad=is_bad, is_odd=not is_bad)


def check_rights(
    lines: Iterable[str], user: str, wanted: Sequence[tuple[str, str]], of_server: Sequence[str] = _SERVER_RIGHTS
) -> Iterator[Finding]:
    """Yield what the user may do, by its grants. `wanted`: the tables to capture, as far as the user sees them."""
    grants = grants_of(lines)
    for right in of_server:
        if is_granted_everywhere(grants, right):
            yield Finding(f"right {right}", "granted")
        else:
            yield Finding(f"right {right}", "missing", f"GRANT {right} ON *.* TO '{user}'@'%'", is_bad=True)
    every = f"GRANT SELECT ON *.* TO '{user}'@'%'"
    if is_granted_everywhere(grants, "SELECT"):
        yield Finding("right SELECT", "granted")
    elif not wanted:
        yield Finding("right SELECT", "missing: no table is seen that is to be captured", every, is_bad=True)
    elif lacking := unreadable(grants, wanted):
        names = ", ".join(".".join(each) for each in lacking[:_NAMED]) + (" and others" if lacking[_NAMED:] else "")
        database, table = map(quoted, lacking[0])
        mend = every if lacking[1:] else f"GRANT SELECT ON {database}.{table} TO '{user}'@'%'"
        yield Finding("right SELECT", f"missing on {names}", mend, is_bad=True)
    else:
        mend = f"{every}, if other tables are to be captured: the user does not see them"
        yield Finding("right SELECT", f"granted on the {len(wanted)} tables that are seen", mend)


def check_retention(values: dict[str, str]) -> Finding:
    seconds = kept_s(values)
    if seconds is None or seconds >= _LEAST_RETENTION_S:
        return Finding("binlog kept", "always" if seconds is None else f"{seconds:.0f} s")
    has_seconds = "binlog_expire_logs_seconds" in values
    setting = f"binlog_expire_logs_seconds = {7 * _LEAST_RETENTION_S}" if has_seconds else "expire_logs_days = 7"
    why = "a capture away for longer begins anew"
    return Finding("binlog kept", f"{seconds:.0f} s", f"SET GLOBAL {setting}: {why}", is_odd=True)


def check_zone(values: dict[str, str]) -> Finding:
    zone = values.get("time_zone", "")
    shown = values.get("system_time_zone", "") if zone == "SYSTEM" else zone
    return Finding("time zone", f"{shown}: TIMESTAMP is sent in UTC, DATETIME as it is")


def check_tables(connection: Any, wanted: Sequence[tuple[Any, ...]], server: str = "MariaDB") -> Iterator[Finding]:
    yield Finding("tables", str(len(wanted)), "" if wanted else "include and exclude leave no table", is_odd=not wanted)
    for database, name, engine, has_key in wanted:
        if not has_key:
            mend = f"ALTER TABLE {database}.{name} ADD PRIMARY KEY (...): until then its changes share one queue"
            yield Finding(f"{database}.{name}", "no primary key", mend, is_odd=True)
        if engine != "InnoDB":
            mend = f"ALTER TABLE {database}.{name} ENGINE = InnoDB: a snapshot of {engine} is not of one moment"
            yield Finding(f"{database}.{name}", f"engine {engine}", mend, is_odd=True)
        yield from _cascades(connection, database, name, server)


def _cascades(connection: Any, database: str, name: str, server: str) -> Iterator[Finding]:
    (shown,) = ask(connection, f"SHOW CREATE TABLE {quoted(database)}.{quoted(name)}")
    for line in str(shown[1]).splitlines():
        if (found := _CASCADES.search(line)) is not None:
            yield Finding(
                f"{database}.{name}",
                f"foreign key {found[1]} cascades",
                f"{server} does not log what cascades change: delete these rows by statements of your own",
                is_odd=True,
            )


def _position(connection: Any, values: dict[str, str], position: Position) -> Finding:
    newest = GtidSet(values.get("gtid_binlog_pos", ""))
    behind = GtidSet(position.done).missing(newest)
    first = ask(connection, "SHOW BINARY LOGS")[0][0]
    events = ask(connection, "SHOW BINLOG EVENTS IN %s LIMIT 3", first)
    oldest = GtidSet(next((each[5].strip("[]") for each in events if each[2] == "Gtid_list"), ""))
    if not GtidSet(position.done).covers(oldest):
        lost = GtidSet(position.done).missing(oldest)
        return Finding(
            "position",
            f"{position.done}: {lost} transactions behind it were purged",
            "pyromq cdc reset, then run",
            is_bad=True,
        )
    return Finding("position", f"{position.done}, {behind} transactions behind the newest")
