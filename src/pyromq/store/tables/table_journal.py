"""Changes of a large table, added to a file beside it, so that one of them does not cost a write of the whole table.

`pyromq/journal/NAME` belongs to one content of the table, which it names by length and CRC32. Once the table was
written anew (by us, or by a Java broker, which does not know of this file) it fits no more and says nothing. So a crash
at any moment leaves a table and changes that fit, or a table that needs none.

first line  | base | length of the table | CRC32 of the table, 8 hex digits |
line        | CRC32 of the rest, 8 hex digits | space | [section, key, value], [section, key], [section, null, value] |

The last form replaces a section, the middle one drops an entry. A line that is torn ends the journal.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Any, NamedTuple

from ...errors import ProtocolError
from ...model.table_change import DROPPED, TableChange
from ...protocol.json import FILE_LIMITS, parse_json
from ..files.disk import Disk, DiskFile, read_if_there, replace_durably, sealed, unsealed
from .table_text import render

JOURNAL_FOLDER = "pyromq/journal"


class TableVersion(NamedTuple):
    """Which content of a table is meant."""

    length: int
    checksum: int

    @classmethod
    def of(cls, content: bytes) -> TableVersion:
        return cls(len(content), zlib.crc32(content))

    def line(self) -> bytes:
        return b"base %d %08x\n" % self


def journal_name(table: str) -> str:
    return f"{JOURNAL_FOLDER}/{table.rpartition('/')[2]}"


def read_changes(disk: Disk, table: str, content: bytes) -> list[TableChange]:
    """Return the changes of this content that are not in it yet."""
    lines = (read_if_there(disk, journal_name(table)) or b"").split(b"\n")
    if lines[0] + b"\n" != TableVersion.of(content).line():
        return []
    changes = []
    for line in lines[1:]:
        text = unsealed(line)
        try:
            section, key, *value = parse_json(text or b"", FILE_LIMITS)
        except (ProtocolError, ValueError):
            break
        changes.append(TableChange(section, key, value[0] if value else DROPPED))
    return changes


def applied(content: dict[str, Any], changes: Iterable[TableChange]) -> None:
    """Apply changes to a table as it was parsed, where all keys are text."""
    for section, key, value in changes:
        if key is None:
            content[section] = value
            continue
        entries = content.setdefault(section, {})
        if value is DROPPED:
            entries.pop(str(key), None)
        else:
            entries[str(key)] = value


def _line(change: TableChange) -> bytes:
    return sealed(render(change.parts(), one_line=True).encode()) + b"\n"


class Journal:
    """The journal of one content, open for adding to it. Used by the thread that writes the table, one at a time."""

    def __init__(self, disk: Disk, table: str, base: TableVersion) -> None:
        self._disk = disk
        self._name = journal_name(table)
        self._base = base
        self._file: DiskFile | None = None
        self.bytes = 0

    def add(self, changes: Iterable[TableChange]) -> None:
        """Add changes durably. After an error the journal must not be used again: nobody knows what it holds."""
        content = b"".join(map(_line, changes))
        if self._file is None:
            content = self._base.line() + content
            replace_durably(self._disk, self._name, content)
            self._file = self._disk.open(self._name)
        else:
            self._file.pwrite(self.bytes, content)
            self._file.sync()
        self.bytes += len(content)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
