"""What a PostgreSQL database must be set to so that its log can be captured; each finding with SQL that mends it."""

from __future__ import annotations

from collections.abc import Iterator

from ...model.wire_text import whole_number
from ..changes import Finding, Position
from .connection import PostgresConnection, literal, quoted
from .lsn import lsn_of
from .slots import SLOT, PostgresTable, SlotNames, has_publication, publication_statement, tables
from .source import PostgresPlace

_ROLE = "SELECT rolreplication OR rolsuper FROM pg_roles WHERE rolname = current_user"
_USED = (
    "SELECT (SELECT count(*) FROM pg_replication_slots), current_setting('max_replication_slots'), "
    "(SELECT count(*) FROM pg_stat_replication), current_setting('max_wal_senders')"
)
_MAY_USE = "SELECT has_schema_privilege({schema}, 'USAGE')"
_MAY_READ = "SELECT has_table_privilege({table}, 'SELECT')"
_PUBLISHED = "SELECT schemaname, tablename FROM pg_publication_tables WHERE pubname = {publication}"
_OPERATIONS = "SELECT pubinsert, pubupdate, pubdelete, pubtruncate FROM pg_publication WHERE pubname = {publication}"
_MUCH_BYTES = 1 << 30  # of log that a slot holds back while nobody reads it
_IDENTITIES = {
    "f": "the row before is in the log whole",
    "d": "of the row before, the log has the primary key alone",
    "i": "of the row before, the log has the columns of an index",
}


def check(place: PostgresPlace, position: Position | None) -> Iterator[Finding]:
    """Yield what was looked at, well or not. CaptureError if the server cannot be asked."""
    connection = PostgresConnection(place.address)
    try:
        yield from _server(connection, place)
        yield _slot(connection, place.names, position)
        database = place.address.database
        every = [each for each in tables(connection) if not each.is_partition]
        wanted = [each for each in every if place.is_wanted(f"{database}.{each.schema}.{each.name}")]
        said = "" if wanted else "include and exclude leave no table: they are named DATABASE.SCHEMA.TABLE"
        yield Finding("tables", str(len(wanted)), said, is_odd=not wanted)
        yield from _publication(connection, place.names.publication, wanted)
        for each in wanted:
            yield from _table(connection, each, place)
    finally:
        connection.close()


def _server(connection: PostgresConnection, place: PostgresPlace) -> Iterator[Finding]:
    level = connection.one("SELECT current_setting('wal_level')")
    mend = "" if level == "logical" else "ALTER SYSTEM SET wal_level = 'logical', then restart PostgreSQL"
    yield Finding("wal_level", level, mend, is_bad=bool(mend))
    may = connection.one(_ROLE)
    mend = "" if may == "t" else f"ALTER ROLE {quoted(place.address.user)} REPLICATION"
    yield Finding("right REPLICATION", "granted" if may == "t" else "missing", mend, is_bad=bool(mend))
    ((slots, most_slots, senders, most_senders),) = connection.ask(_USED)
    for name, used, most in (("max_replication_slots", slots, most_slots), ("max_wal_senders", senders, most_senders)):
        is_full = (whole_number(used) or 0) >= (whole_number(most) or 0)
        mend = f"ALTER SYSTEM SET {name} = {(whole_number(most) or 0) + 4}, then restart PostgreSQL" if is_full else ""
        yield Finding(name, f"{used} of {most} in use", mend, is_odd=is_full)
    encoding = connection.one("SELECT current_setting('server_encoding')")
    is_raw = encoding == "SQL_ASCII"
    mend = "text that is no UTF-8 stops the capture: make a database of encoding UTF8 and copy to it" if is_raw else ""
    yield Finding("encoding", encoding, mend, is_odd=is_raw)
    zone = connection.one("SELECT reset_val FROM pg_settings WHERE name = 'TimeZone'")
    yield Finding("time zone", f"{zone}: timestamptz is sent in UTC, timestamp as it is")


def _slot(connection: PostgresConnection, names: SlotNames, position: Position | None) -> Finding:
    what = f"slot {names.slot}"
    found = connection.ask(SLOT.format(slot=literal(names.slot)))
    if not found:
        if position is None:
            return Finding(what, "none: it is made by the first run")
        return Finding(what, f"none, and the position is {position.done}", "pyromq cdc reset, then run", is_bad=True)
    confirmed, status, database, reader, _, kept = (value or "" for value in found[0])
    if status == "lost" or (position is not None and lsn_of(confirmed) > lsn_of(position.done)):
        why = "lost: max_slot_wal_keep_size was passed" if status == "lost" else f"at {confirmed}, behind our position"
        return Finding(what, why, "pyromq cdc reset, then run", is_bad=True)
    size = f"keeps {(whole_number(kept) or 0) >> 20} MB of log, of database {database}"
    if position is None:
        mend = f"SELECT pg_drop_replication_slot({literal(names.slot)}) if no run follows"
        return Finding(what, f"{size}, and no position is known: the next run drops it", mend, is_odd=True)
    most = connection.one("SELECT current_setting('max_slot_wal_keep_size')")
    mend = "it keeps log without a bound: ALTER SYSTEM SET max_slot_wal_keep_size = '50GB'" if most == "-1" else ""
    if (whole_number(kept) or 0) >= _MUCH_BYTES and not reader:
        mend = f"run the capture, or SELECT pg_drop_replication_slot({literal(names.slot)}) if it will not come back"
        return Finding(what, f"{size}, not read now: the disk fills", mend, is_odd=True)
    return Finding(what, f"{size}, {f'read by process {reader}' if reader else 'not read now'}", mend)


def _publication(connection: PostgresConnection, publication: str, wanted: list[PostgresTable]) -> Iterator[Finding]:
    what = f"publication {publication}"
    if not has_publication(connection, publication):
        mend = f"the first run makes it if it may, else: {publication_statement(publication, wanted)}" if wanted else ""
        yield Finding(what, "none", mend, is_odd=True)
        return
    ((*operations,),) = connection.ask(_OPERATIONS.format(publication=literal(publication)))
    lacks = "f" in operations
    mend = f"ALTER PUBLICATION {quoted(publication)} SET (publish = 'insert, update, delete, truncate')"
    yield Finding(what, "leaves out some operations" if lacks else "there", mend if lacks else "", is_odd=lacks)
    published = {tuple(each) for each in connection.ask(_PUBLISHED.format(publication=literal(publication)))}
    for each in wanted:
        if (each.schema, each.name) not in published:
            mend = f"ALTER PUBLICATION {quoted(publication)} ADD TABLE {each.quoted}; its rows of before are not sent"
            yield Finding(each.quoted, "not in the publication", mend, is_odd=True)


def _table(connection: PostgresConnection, table: PostgresTable, place: PostgresPlace) -> Iterator[Finding]:
    if not table.is_identified:
        mend = f"ALTER TABLE {table.quoted} REPLICA IDENTITY FULL, or give it a primary key"
        yield Finding(table.quoted, "published, PostgreSQL refuses to update and delete its rows", mend, is_bad=True)
    elif table.identity != "f":
        mend = f"ALTER TABLE {table.quoted} REPLICA IDENTITY FULL, if events need it; long values come whole then, too"
        yield Finding(table.quoted, _IDENTITIES[table.identity], mend)
    elif not table.has_key:
        mend = f"ALTER TABLE {table.quoted} ADD PRIMARY KEY (...): until then its changes share one queue"
        yield Finding(table.quoted, "no primary key", mend, is_odd=True)
    user = quoted(place.address.user)
    if connection.one(_MAY_USE.format(schema=literal(table.schema))) != "t":
        mend = f"GRANT USAGE ON SCHEMA {quoted(table.schema)} TO {user}"
        yield Finding(f"schema {quoted(table.schema)}", "no right to use it", mend, is_bad=True)
    elif connection.one(_MAY_READ.format(table=literal(table.quoted))) != "t":
        yield Finding(table.quoted, "no right to read it", f"GRANT SELECT ON {table.quoted} TO {user}", is_bad=True)
