"""The publication and the replication slot of a capture: made where they are missing, and refused where they lost.

A slot keeps PostgreSQL's log for us until we have confirmed it. A publication says which tables are in the stream.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ... import logs
from ..changes import CaptureError, IsWanted, LogLost
from .connection import PostgresConnection, ServerError, literal, quoted
from .lsn import lsn_of

log = logs.get("pyromq.cdc")

_NOT_IN_A_SLOT = re.compile(r"[^a-z0-9_]")
_LONGEST = 63
_NO_RIGHT = "42501"
_LOST = "lost"
# Partitions are published as the table that they are parts of.
_OPTIONS = "WITH (publish_via_partition_root = true)"
TABLES = (
    "SELECT n.nspname, c.relname, c.relreplident, EXISTS(SELECT 1 FROM pg_index i WHERE i.indrelid = c.oid AND "
    "i.indisprimary), c.relispartition FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind "
    "IN ('r', 'p') AND c.relpersistence = 'p' AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast') "
    "ORDER BY 1, 2"
)
SLOT = (
    "SELECT confirmed_flush_lsn, to_jsonb(s) ->> 'wal_status', database, active_pid, plugin, "
    "pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)::bigint FROM pg_replication_slots s WHERE slot_name = {slot}"
)
_BEHIND = "SELECT pg_size_pretty(greatest(0, pg_wal_lsn_diff(pg_current_wal_lsn(), {lsn})))"


class SlotNames(NamedTuple):
    """Of one capture, in its database."""

    slot: str
    publication: str


def slot_names(source: str, slot: str, publication: str) -> SlotNames:
    """Return the names that were chosen; else ones made of the source's name."""
    made = f"pyromq_{_NOT_IN_A_SLOT.sub('_', source.lower())}"[:_LONGEST]
    return SlotNames(slot or made, publication or made)


class PostgresTable(NamedTuple):
    """A table of the database as it is now."""

    schema: str
    name: str
    identity: str
    has_key: bool
    is_partition: bool

    @property
    def quoted(self) -> str:
        return f"{quoted(self.schema)}.{quoted(self.name)}"

    @property
    def is_identified(self) -> bool:
        """Return whether the log says which row was changed; else PostgreSQL refuses to change published rows."""
        return self.identity in "fi" or (self.identity == "d" and self.has_key)


def tables(connection: PostgresConnection) -> list[PostgresTable]:
    return [
        PostgresTable(schema or "", name or "", identity or "", has_key == "t", part == "t")
        for schema, name, identity, has_key, part in connection.ask(TABLES)
    ]


def publication_statement(publication: str, wanted: list[PostgresTable]) -> str:
    return f"CREATE PUBLICATION {quoted(publication)} FOR TABLE {', '.join(each.quoted for each in wanted)} {_OPTIONS}"


def has_publication(connection: PostgresConnection, publication: str) -> bool:
    return bool(connection.ask(f"SELECT 1 FROM pg_publication WHERE pubname = {literal(publication)}"))


def ensure_publication(connection: PostgresConnection, publication: str, database: str, is_wanted: IsWanted) -> None:
    """Make the publication if it is missing: of all tables where we may, else of those that are wanted.

    CaptureError where that would keep programs from changing rows, or where we have no right to.
    """
    if has_publication(connection, publication):
        return
    every = tables(connection)
    wanted = [each for each in every if is_wanted(f"{database}.{each.schema}.{each.name}") and not each.is_partition]
    if loose := [each.quoted for each in wanted if not each.is_identified]:
        raise CaptureError(
            f"table {loose[0]} has no primary key: once it is published, PostgreSQL refuses to update and delete its "
            f"rows. Type ALTER TABLE {loose[0]} REPLICA IDENTITY FULL, give it a key, or exclude it"
        )
    is_superuser = connection.one("SELECT rolsuper FROM pg_roles WHERE rolname = current_user") == "t"
    if is_superuser and all(each.is_identified for each in every):
        statement = f"CREATE PUBLICATION {quoted(publication)} FOR ALL TABLES {_OPTIONS}"
    elif wanted:
        statement = publication_statement(publication, wanted)
    else:
        raise CaptureError("no table is to be captured: look at include, exclude, and what the user may see")
    try:
        connection.ask(statement)
    except ServerError as fault:
        if fault.code == _NO_RIGHT:
            raise CaptureError(
                f"the publication {publication} is missing, and our user may not make it ({fault}): let the tables' "
                f"owner type {statement}"
            ) from fault
        raise
    log.info("a publication was made", publication=publication, statement=statement)


def drop_old_slot(connection: PostgresConnection, slot: str) -> None:
    """Drop what a capture left that was reset, or ended before it had a position."""
    if connection.ask(SLOT.format(slot=literal(slot))):
        log.warning("the slot of a former capture is dropped, and made anew", slot=slot)
        connection.ask(f"SELECT pg_drop_replication_slot({literal(slot)})")


def check_slot(connection: PostgresConnection, slot: str, done: str) -> None:
    """Raise LogLost if the slot does not lead on from our position."""
    again = "Type pyromq cdc reset, then pyromq cdc run: it reads all rows again"
    found = connection.ask(SLOT.format(slot=literal(slot)))
    behind = connection.one(_BEHIND.format(lsn=literal(done)))
    if not found:
        raise LogLost(f"the slot {slot} is gone, and with it the {behind} of log behind our position {done}. {again}")
    confirmed, status = found[0][0] or "", found[0][1]
    if status == _LOST:
        raise LogLost(
            f"the slot {slot} is lost: we were away until max_slot_wal_keep_size was passed, and PostgreSQL removed "
            f"log from the {behind} behind our position {done}. {again}"
        )
    if lsn_of(confirmed) > lsn_of(done):
        raise LogLost(
            f"the slot {slot} stands at {confirmed}, and our position is {done}: it was made anew, or moved by another "
            f"program, and the changes in between are lost. {again}"
        )
