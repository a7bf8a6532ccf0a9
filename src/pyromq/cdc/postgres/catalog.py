"""What PostgreSQL's catalog tells of types and keys: the log names types by number, and most keys not at all."""

from __future__ import annotations

from ...model.wire_text import whole_number
from ..changes import Column
from .arrays import array_reader
from .connection import PostgresConnection, Row, literal
from .values import AS_TEXT, ENUM, Form, form_of

_TYPE = (
    "SELECT format_type({oid}, {modifier}), t.typtype, t.typname, n.nspname, t.typbasetype, t.typtypmod, "
    "CASE WHEN t.typcategory = 'A' AND t.typlen = -1 THEN t.typelem ELSE 0 END, "
    "COALESCE((SELECT e.typdelim FROM pg_type e WHERE e.oid = t.typelem), ',') "
    "FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace WHERE t.oid = {oid}"
)
# The key of a table is its replica identity if that is an index of choice, else the primary key: as the log has it.
KEY = (
    "SELECT a.attname FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid, unnest(i.indkey) WITH ORDINALITY k(n, at) "
    "JOIN pg_attribute a ON a.attnum = k.n WHERE a.attrelid = i.indrelid AND c.oid = {table} AND k.at <= i.indnkeyatts "
    "AND CASE WHEN c.relreplident = 'i' THEN i.indisreplident ELSE i.indisprimary END ORDER BY k.at"
)
_TABLE = (
    "(SELECT r.oid FROM pg_class r JOIN pg_namespace s ON s.oid = r.relnamespace "
    "WHERE s.nspname = {schema} AND r.relname = {table})"
)
_VECTORS = ("int2vector", "oidvector")  # PostgreSQL calls them arrays, and writes them otherwise


class Catalog:
    """What was asked so far, of one connection."""

    def __init__(self, connection: PostgresConnection) -> None:
        self._connection = connection
        self._known: dict[tuple[int, int], tuple[str, Form]] = {}

    def column(self, name: str, type_number: int, modifier: int, *, is_key: bool) -> tuple[Column, Form]:
        """Return the column as events tell of it, and how its values are read."""
        of = type_number, modifier
        if of not in self._known:
            self._known[of] = self._find(*of)
        type_name, form = self._known[of]
        column = Column(
            name=name, type=type_name, kind=form.kind, meaning=form.meaning, is_key=is_key, items=form.items
        )
        return column, form

    def _find(self, type_number: int, modifier: int) -> tuple[str, Form]:
        found = self._connection.ask(_TYPE.format(oid=type_number, modifier=modifier))
        if not found:  # dropped since it was written: its text is all that there is
            return f"type {type_number}", AS_TEXT
        return found[0][0] or "", self._form(found[0], modifier)

    def _form(self, found: Row, modifier: int) -> Form:
        _, kind, name, schema, base, base_modifier, element, sign = (value or "" for value in found)
        if kind == "d":
            return self._find(whole_number(base) or 0, whole_number(base_modifier, -1) or 0)[1]
        if kind == "e":
            return ENUM
        if (of := whole_number(element) or 0) and name not in _VECTORS:
            inner = self._find(of, modifier)[1]
            return Form(array_reader(inner.read, sign), "array", items=inner.kind)
        return form_of(name, modifier) if schema == "pg_catalog" else AS_TEXT

    def key_names(self, schema: str, table: str) -> list[str]:
        """Return the columns of the table's key, as it is now, in the key's order."""
        table = _TABLE.format(schema=literal(schema), table=literal(table))
        return [each[0] or "" for each in self._connection.ask(KEY.format(table=table))]
