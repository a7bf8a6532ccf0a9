"""From the content of a JSON table to typed values, and how its DataVersion moves on. Shared by the owners of tables.

What cannot be read raises TableDamaged: starting without it would forget what the table holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from ...model.wire_text import whole_number
from ...protocol.bodies.body import DataVersion
from ...store.tables.json_tables import JsonTable, TableDamaged

T = TypeVar("T")


def section(content: Mapping[str, Any], name: str) -> dict[Any, Any]:
    """Return a section that is an object; empty if it is missing."""
    found = content.get(name)
    return found if isinstance(found, dict) else {}


def entry(kind: type[T], value: object, what: str) -> T:
    """Return one typed value; `what` says in words where it stands."""
    try:
        return msgspec.convert(value, kind, strict=False)
    except msgspec.ValidationError as fault:
        raise TableDamaged(f"{what}: {fault}; mend it by hand, or put a good copy of the file back") from None


def numbered(kind: type[T], saved: Mapping[str, object], what: str) -> dict[int, T]:
    """Read entries that stand under numbers; `what` says in words where they stand."""
    found: dict[int, T] = {}
    for name, value in saved.items():
        number = whole_number(name)
        if number is None:
            raise TableDamaged(f"{what}: {name!r} is no number; mend it by hand, or put a good copy of the file back")
        found[number] = entry(kind, value, what)
    return found


def with_name(value: object, member: str, name: str) -> object:
    """Return an entry that leaves its own name to the key that it stands under."""
    return {member: name} | value if isinstance(value, dict) else value


def read_version(content: Mapping[str, Any], file: str) -> DataVersion:
    """Return the version; zeros where the table has none."""
    return entry(DataVersion, content.get("dataVersion") or {}, f"dataVersion in {file}")


def read_table(table: JsonTable, name: str, kind: type[T]) -> tuple[DataVersion, T]:
    """Load a table whose content is one section: return its version and the section."""
    content = table.load()
    return read_version(content, table.name), entry(kind, section(content, name), f"{name} in {table.name}")


def next_version(version: DataVersion, now_ms: int) -> DataVersion:
    """Return the next version, by which name servers and slaves see whether they are up to date."""
    return DataVersion(counter=version.counter + 1, state_version=version.state_version, timestamp=now_ms)
