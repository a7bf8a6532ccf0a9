"""The rows of a PostgreSQL database's tables at one place of its log, without a lock.

A slot that is made says at which place it begins, and exports what could be seen there: one transaction reads just
that. The first snapshot makes the slot that the stream goes on with; one that goes on after an interruption makes a
slot for the moment, to know where it stands.
"""

from __future__ import annotations

from collections.abc import Sequence

from ... import logs
from ...model.wire_text import whole_number
from ..changes import CaptureError, Position, RowChange, SnapshotRows, SourceTable, TableSize
from ..events import Op, Row
from .catalog import KEY, Catalog
from .connection import PostgresConnection, ServerError, literal, quoted
from .connection import Row as Texts
from .lsn import lsn_of
from .slots import drop_old_slot, ensure_publication
from .source import PostgresPlace, describe
from .values import Read

log = logs.get("pyromq.cdc")

_PUBLISHED = (
    "SELECT p.schemaname, p.tablename, c.oid, to_jsonb(p) ->> 'rowfilter', greatest(c.reltuples, 0)::bigint "
    "FROM pg_publication_tables p JOIN pg_namespace n ON n.nspname = p.schemaname "
    "JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = p.tablename WHERE p.pubname = {publication} "
    "ORDER BY 1, 2"
)
_COLUMNS = (  # that the stream has, too: none that is computed, and those alone that are published
    "SELECT a.attname, a.atttypid, a.atttypmod, format_type(a.atttypid, a.atttypmod) FROM pg_attribute a "
    "WHERE a.attrelid = {table} AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '' AND COALESCE((SELECT "
    "to_jsonb(p) -> 'attnames' ? a.attname::text FROM pg_publication_tables p WHERE p.pubname = {publication} AND "
    "p.schemaname = {schema} AND p.tablename = {name}), true) ORDER BY a.attnum"
)
_WRITERS = "SELECT count(*) FROM pg_stat_activity WHERE backend_xid IS NOT NULL AND pid <> pg_backend_pid()"
_SESSION = "SELECT pg_backend_pid()"
_NOW_MS = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint"


class PostgresSnapshot:
    """One transaction. A lost connection loses it: the rest is read by another one."""

    def __init__(self, place: PostgresPlace, *, is_first: bool) -> None:
        self._place = place
        self._connection = PostgresConnection(place.address)
        try:
            self.position = self._begin(is_first)
            self._catalog = Catalog(self._connection)
            self._now_ms = whole_number(self._connection.one(_NOW_MS)) or 0
            self._published = published(self._connection, place)
        except BaseException:
            self._connection.close()
            raise
        self._known: dict[str, PostgresTableReader] = {}
        self._source = describe(place, snapshot="true")
        self._source |= {"ts_ms": self._now_ms, "txId": None, "lsn": lsn_of(self.position.done)}

    def _begin(self, is_first: bool) -> Position:
        """Make a slot, and begin a transaction that sees what was there at its place."""
        place, connection = self._place, self._connection
        slot = place.names.slot
        if is_first:
            ensure_publication(connection, place.names.publication, place.address.database, place.is_wanted)
            drop_old_slot(connection, slot)
        made = (
            f"{quoted(slot)} LOGICAL" if is_first else f"pyromq_snapshot_{connection.one(_SESSION)} TEMPORARY LOGICAL"
        )
        if (writers := connection.one(_WRITERS)) != "0":
            log.info("the snapshot waits until the transactions that write now have ended", transactions=writers)
        exporting = PostgresConnection(place.address, is_replication=True)
        try:
            ((_, begins, exported, _),) = exporting.ask(f"CREATE_REPLICATION_SLOT {made} pgoutput")
            connection.ask("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            connection.ask(f"SET TRANSACTION SNAPSHOT {literal(exported or '')}")
        finally:
            exporting.close()
        return Position(done=begins or "")

    def tables(self) -> list[TableSize]:
        """Return the tables to read: those that are published and wanted."""
        wanted = ((name, about) for name, (*_, about) in self._published.items() if self._place.is_wanted(name))
        return [TableSize(name, whole_number(about) or 0) for name, about in wanted]

    def rows(self, table: str, last: tuple[str, ...] | None, most: int) -> SnapshotRows:
        """Return the rows behind a key, at most so many; all rows at once of a table without a key."""
        try:
            if table not in self._known:
                self._known[table] = self._reader(table)
            reader = self._known[table]
            found = self._connection.ask(reader.statement(last, most))
        except ServerError as fault:
            raise CaptureError(
                f"table {table} cannot be read: {fault}. Leave it out, or type pyromq cdc check"
            ) from fault
        source = self._source | {"schema": reader.table.schema, "table": reader.table.name}
        changes = [
            RowChange(
                reader.table, Op.READ, None, reader.row(each), self._now_ms, source, place=self.position.done
            )
            for each in found
        ]  # fmt: skip
        is_last = not reader.keys or len(found) < most
        return SnapshotRows(changes, None if is_last else reader.key(found[-1]))

    def _reader(self, full_name: str) -> PostgresTableReader:
        publication = self._place.names.publication
        if full_name not in self._published:
            raise CaptureError(
                f"table {full_name} is no longer there, or not in the publication {publication}: "
                "exclude it, or type pyromq cdc reset"
            )
        return table_reader(self._connection, self._catalog, self._place, self._published[full_name])

    def close(self) -> None:
        self._connection.close()


def published(connection: PostgresConnection, place: PostgresPlace) -> dict[str, Texts]:
    """Return what the database says of each published table, by its full name."""
    found = connection.ask(_PUBLISHED.format(publication=literal(place.names.publication)))
    return {f"{place.address.database}.{each[0]}.{each[1]}": each for each in found}


def table_reader(
    connection: PostgresConnection, catalog: Catalog, place: PostgresPlace, about: Texts
) -> PostgresTableReader:
    """Return how a published table is read: the rows and columns that are published."""
    schema, name, number, condition, _ = about
    columns = connection.ask(
        _COLUMNS.format(
            table=number, publication=literal(place.names.publication), schema=literal(schema or ""),
            name=literal(name or ""),
        )
    )  # fmt: skip
    keys = [each[0] or "" for each in connection.ask(KEY.format(table=number))]
    names = {each[0] for each in columns}
    return PostgresTableReader(
        SourceTable(place.address.database, name or "", (), schema=schema or ""),
        columns, keys if names.issuperset(keys) else [], condition, catalog,
    )  # fmt: skip


class PostgresTableReader:
    """Statements and readers of one table."""

    def __init__(
        self, table: SourceTable, found: Sequence[Texts], keys: Sequence[str], condition: str | None, catalog: Catalog
    ) -> None:
        made = [
            catalog.column(name or "", whole_number(number) or 0, whole_number(modifier, -1) or 0, is_key=name in keys)
            for name, number, modifier, _ in found
        ]
        self.table = SourceTable(table.database, table.name, tuple(column for column, _ in made), schema=table.schema)
        self.keys = tuple(keys)
        self._columns: list[tuple[str, Read]] = [(column.name, form.read) for column, form in made]
        self._key_places = [[name for name, _ in self._columns].index(key) for key in keys]
        self._key_types = [found[place][3] or "" for place in self._key_places]
        names = ", ".join(quoted(name) for name, _ in self._columns)
        self._select = f"SELECT {names} FROM {quoted(table.schema)}.{quoted(table.name)}"
        self._condition = f"({condition})" if condition else ""

    def statement(self, last: tuple[str, ...] | None, most: int, within: str = "") -> str:
        """Return what reads rows behind a key. `within` is a further condition, as SQL."""
        conditions = [each for each in (self._condition, within) if each]
        order = ", ".join(map(quoted, self.keys))
        if self.keys and last is not None:
            behind = zip(last, self._key_types, strict=True)
            conditions.append(f"({order}) > ({', '.join(f'{literal(value)}::{type}' for value, type in behind)})")
        statement = self._select
        if conditions:
            statement += f" WHERE {' AND '.join(conditions)}"
        return f"{statement} ORDER BY {order} LIMIT {most}" if self.keys else statement

    def row(self, texts: Texts) -> Row:
        return {
            name: None if text is None else read(text) for (name, read), text in zip(self._columns, texts, strict=True)
        }

    def key(self, texts: Texts) -> tuple[str, ...]:
        """Return the key of a row in PostgreSQL's words."""
        return tuple(texts[place] or "" for place in self._key_places)
