"""Rows of a PostgreSQL database's published tables by ranges of their key, as they are now."""

from __future__ import annotations

from collections.abc import Iterator

from ...model.wire_text import whole_number
from ..changes import CaptureError, RowChange, SourceTable
from ..events import Op, Row
from ..key_ranges import PAGE, KeyRange, walked, whole_number_column
from .catalog import Catalog
from .connection import PostgresConnection, ServerError, literal, quoted
from .snapshot import PostgresTableReader, published, table_reader
from .source import PostgresPlace

_PUBLICATION = "SELECT count(*) FROM pg_publication WHERE pubname = {name}"


class PostgresRows:
    """What a publication has. It is found_number for by a usual connection: no right to replicate is needed."""

    def __init__(self, place: PostgresPlace) -> None:
        self._place = place
        self._connection = PostgresConnection(place.address)
        try:
            name = place.names.publication
            if self._connection.one(_PUBLICATION.format(name=literal(name))) == "0":
                raise CaptureError(
                    f"database {place.address.database} has no publication {name}, so nothing of it is captured: give "
                    "the name and publication that the capture has (its file, by -c)"
                )
            self._published = published(self._connection, place)
        except BaseException:
            self._connection.close()
            raise
        self._catalog = Catalog(self._connection)
        self._known: dict[str, PostgresTableReader] = {}

    def tables(self) -> list[str]:
        return [name for name in self._published if self._place.is_wanted(name)]

    def _reader(self, name: str) -> PostgresTableReader:
        if name not in self._known:
            about = self._published[name]
            self._known[name] = table_reader(self._connection, self._catalog, self._place, about)
        return self._known[name]

    def table(self, name: str) -> SourceTable:
        return self._reader(name).table

    def range_column(self, name: str) -> str | None:
        reader = self._reader(name)
        return whole_number_column(reader.table, reader.keys)

    def bounds(self, name: str, rows: int) -> list[int]:
        """Return where ranges of so many rows begin, the first one left out."""
        table, column = self.table(name), quoted(self.range_column(name) or "")
        place = f"{quoted(table.schema)}.{quoted(table.name)}"

        def found_number(statement: str) -> int | None:
            found = self._connection.ask(statement)
            return whole_number(found[0][0] or "", -(1 << 63), (1 << 63) - 1) if found else None

        def next_bound(last: int | None) -> int | None:
            behind = "" if last is None else f" WHERE {column} >= {last}"
            found = found_number(f"SELECT {column} FROM {place}{behind} ORDER BY {column} OFFSET {rows} LIMIT 1")
            if found is not None and found == last:  # more rows than a range may have begin with the same number
                found = found_number(f"SELECT min({column}) FROM {place} WHERE {column} > {last}")
            return found

        return walked(next_bound)

    def rows(self, name: str, within: KeyRange) -> Iterator[list[RowChange]]:
        """Yield the rows of a range, some at a time, in the order of the key."""
        reader = self._reader(name)
        table = reader.table
        source: Row = {"connector": "postgresql", "db": table.database, "schema": table.schema, "table": table.name}
        condition = within.condition(quoted(self.range_column(name) or ""))
        last: tuple[str, ...] | None = None
        while True:
            try:
                found = self._connection.ask(reader.statement(last, PAGE, condition))
            except ServerError as fault:
                raise CaptureError(f"table {name} cannot be read: {fault}. Type pyromq cdc check") from fault
            yield [RowChange(table, Op.READ, None, reader.row(each), 0, source) for each in found]
            if len(found) < PAGE or not reader.keys:
                return
            last = reader.key(found[-1])

    def close(self) -> None:
        self._connection.close()
