"""RocketMQ's JSON tables (topics, groups, offsets ...): one file each, replaced whole, never torn and never empty.

The broker's owners of metadata keep their own values and tell a `JsonTable` what changed; the table keeps each entry's
text, so that a write encodes only what changed since the last one. A large table is not written for every change:
`add_changes` puts them into its journal. The previous content stays beside it as `.bak`, as the Java broker does.
`table_saver.py` says when to write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from ... import logs
from ...errors import ProtocolError, PyroError
from ...model.table_change import DROPPED, TableChange
from ...protocol.json import FILE_LIMITS, parse_json
from ..files.disk import (
    AccessDenied,
    Disk,
    DiskError,
    FileMissing,
    folder_of,
    make_folder_durably,
    read_whole,
    write_temporary,
)
from .table_journal import Journal, TableVersion, applied, read_changes
from .table_text import enclose, give_integer_keys, parse_table, render, render_key

log = logs.get("pyromq.store")

_JOURNAL_FROM = 64 << 10  # bytes of a table that is written whole for every change
_MOST_CHANGES = 1000  # in one go; more are written with the table

# Written on one line by Java.
_ONE_LINE = ("timermetrics", "transactionMetrics")


class TableDamaged(PyroError):
    """Neither the table nor its .bak can be read. Starting without it would forget what it holds."""


class _Entry:
    """A value and, once it was needed, its text. Replaced when it changes, so a write may read it in another thread."""

    __slots__ = ("_text", "_value")

    def __init__(self, value: Any) -> None:
        self._value = value
        self._text: str | None = None

    def text(self, depth: int, one_line: bool) -> str:
        if self._text is None:
            self._text = render(self._value, depth, one_line)
            self._value = None
        return self._text

    def value(self) -> Any:
        value, text = self._value, self._text  # in this order: a write in another thread sets the text first
        return value if text is None else parse_json(text.encode(), FILE_LIMITS)


def _as_entries(value: Any) -> _Entry | dict[str | int, _Entry]:
    return {key: _Entry(entry) for key, entry in value.items()} if isinstance(value, dict) else _Entry(value)


class JsonTable:
    """One file. Changes from the event loop (or one thread); `write` of a snapshot from anywhere, one at a time.

    The file's members are *sections*. A section that is an object is kept entry by entry; any other is one value.
    """

    def __init__(self, disk: Disk, name: str) -> None:
        self._disk = disk
        self._name = name
        self._one_line = name.rpartition("/")[2] in _ONE_LINE
        self._sections: dict[str, _Entry | dict[str | int, _Entry]] = {}
        self._current_is_good = False
        self._base: TableVersion | None = None  # the content on disk, if that is known
        self._journal: Journal | None = None
        self._not_written: list[TableChange] = []  # since the last snapshot
        self._too_much = False  # changed for a journal
        self.changes = 0  # grows with every change: what a write covers
        self.on_change: Callable[[TableChange], None] | None = None  # sees each of them

    @property
    def name(self) -> str:
        return self._name

    def load(self) -> dict[str, Any]:
        """Return the content on disk, empty if there never was any. Raises as `read_table` does.

        Falls back to `.bak` with a loud line. The caller must not change what it gets: it may still be written. Changes
        that a crash left in the journal are written into the table before anything else."""
        found = read_table(self._disk, self._name)
        content, self._current_is_good, self._base = found.content, found.is_current, found.base
        for section, value in content.items():
            self._sections[section] = _as_entries(value)
        if found.changes:
            log.warning("changes of a table that a crash left in its journal", table=self._name, count=found.changes)
            self.save()
        return content

    def put(self, section: str, key: str | int, value: Any) -> None:
        self._entries(section)[key] = _Entry(value)
        self._changed(TableChange(section, key, value))

    def drop(self, section: str, key: str | int) -> None:
        if self._entries(section).pop(key, None) is not None:
            self._changed(TableChange(section, key, DROPPED))

    def replace(self, section: str, value: Any) -> None:
        """Set a whole section: an object entry by entry, anything else as one value."""
        self._sections[section] = _as_entries(value)
        self._changed(TableChange(section, None, value))

    def names(self) -> list[tuple[str, str | int | None]]:
        """Return section and key of all entries; the key is None where a section is one value."""
        return [
            (name, key)
            for name, part in self._sections.items()
            for key in ((None,) if isinstance(part, _Entry) else part)
        ]

    def find(self, section: str, key: str | int | None) -> TableChange | None:
        """Return an entry, or without a key a section, as the change that would make it; None: there is none."""
        part = self._sections.get(section)
        if isinstance(part, dict):
            if key is None:
                return TableChange(section, None, {name: entry.value() for name, entry in part.items()})
            part = part.get(key)
        return None if part is None else TableChange(section, key, part.value())

    def _changed(self, change: TableChange) -> None:
        self.changes += 1
        if self.on_change is not None:
            self.on_change(change)
        large = change.key is None and isinstance(change.value, dict) and len(change.value) > _MOST_CHANGES
        if large or len(self._not_written) >= _MOST_CHANGES:
            self._too_much = True
        else:
            self._not_written.append(change)

    def _entries(self, section: str) -> dict[str | int, _Entry]:
        entries = self._sections.setdefault(section, {})
        if isinstance(entries, _Entry):
            raise TypeError(f"section {section} of {self._name} is one value, not entries")
        return entries

    def snapshot(self) -> Callable[[], None]:
        """Return a call that writes the table as it is now. The call blocks, and may run in a helper thread."""
        self._not_written, self._too_much = [], False
        sections = [
            (name, part if isinstance(part, _Entry) else list(part.items())) for name, part in self._sections.items()
        ]
        return lambda: self._write(sections)

    @property
    def has_journal(self) -> bool:
        """Return whether the table on disk lacks what its journal has."""
        return self._journal is not None

    def add_changes(self) -> Callable[[], None]:
        """Return a call that writes as `snapshot` does, but of a large table only what changed, into its journal.

        Someone must `snapshot` soon.
        """
        base, changes = self._base, self._not_written
        grown = base is not None and self._journal is not None and self._journal.bytes > base.length
        if base is None or base.length < _JOURNAL_FROM or grown or self._too_much or not changes:
            return self.snapshot()
        self._not_written = []
        return lambda: self._add(changes, base)

    def _add(self, changes: list[TableChange], base: TableVersion) -> None:
        self._base = None  # until it has succeeded; after an error the next write is that of the whole table
        if self._journal is None:
            self._journal = Journal(self._disk, self._name, base)
        self._journal.add(changes)
        self._base = base

    def save(self) -> None:
        """Write now and wait for the disk. For tools and start-up; daemons go through `TableSaver`."""
        self.snapshot()()

    def _write(self, sections: list[tuple[str, _Entry | list[tuple[str | int, _Entry]]]]) -> None:
        parts = [f"{render_key(name)}:{self._section_text(part)}" for name, part in sections]
        content = enclose("{", parts, "}", 0, self._one_line).encode()
        self._base = None
        folder = folder_of(self._name)
        if folder:
            make_folder_durably(self._disk, folder)
        aside = write_temporary(self._disk, self._name, content)
        if self._current_is_good:
            self._keep_as_bak()
        self._disk.rename(aside, self._name)
        self._disk.sync_folder(folder)
        self._current_is_good = True
        self._base = TableVersion.of(content)
        if self._journal is not None:
            self._journal.close()
            self._journal = None  # it fits the old content: nobody reads it any more

    def _section_text(self, part: _Entry | list[tuple[str | int, _Entry]]) -> str:
        if isinstance(part, _Entry):
            return part.text(1, self._one_line)
        members = [f"{render_key(key)}:{entry.text(2, self._one_line)}" for key, entry in part]
        return enclose("{", members, "}", 1, self._one_line)

    def _keep_as_bak(self) -> None:
        """Give the old content a second name, so that the table itself is there at every moment."""
        second = self._name + ".bak.tmp"
        if self._disk.exists(second):
            self._disk.remove(second)
        self._disk.link(self._name, second)
        self._disk.rename(second, self._name + ".bak")


class TableFound(NamedTuple):
    """What a read of a table found."""

    content: dict[str, Any]
    is_current: bool  # it came from the table itself rather than from its `.bak`
    base: TableVersion | None = None
    changes: int = 0  # that were in the journal alone


def read_table(disk: Disk, name: str, quiet: bool = False) -> TableFound:
    """Read a table, or its `.bak` with a loud line, unless `quiet`. Raises TableDamaged.

    Raises DiskError for a file that is there and cannot be read: it may be good, and newer than its `.bak`.
    """
    faults = []
    for candidate in (name, name + ".bak"):
        try:
            data = _content(disk, candidate)
            content = parse_table(data)
        except FileMissing:
            continue
        except (ProtocolError, ValueError) as fault:
            faults.append(f"{candidate}: {fault}")
            continue
        if candidate != name and not quiet:
            reason = faults[0] if faults else f"{name} is missing"
            log.error("TABLE DAMAGED, ITS .bak IS USED: the last changes may be missing", table=name, reason=reason)
        is_current = candidate == name
        changes = read_changes(disk, name, data) if is_current else []
        applied(content, changes)
        give_integer_keys(content, name.rpartition("/")[2])
        return TableFound(
            content, candidate == name, TableVersion.of(data) if candidate == name else None, len(changes)
        )
    if faults:
        raise TableDamaged(
            f"{disk.root}: {'; '.join(faults)}. Put a good copy back (a backup, a slave's file), "
            "or move the files away to start with an empty table"
        )
    return TableFound({}, False)


def _content(disk: Disk, name: str) -> bytes:
    try:
        data = read_whole(disk, name)
    except (AccessDenied, FileMissing):
        raise
    except DiskError as fault:
        raise DiskError(
            f"{fault}; if it cannot be read again, put a good copy back, or move it away to go on with its .bak"
        ) from None
    if not data.strip():
        raise ValueError("the file is empty")
    return data


def table_names(disk: Disk) -> Iterable[str]:
    known = {
        f"config/{name.removesuffix('.bak')}"
        for name in disk.list("config")
        if name.removesuffix(".bak").endswith(".json") or name.removesuffix(".bak") in _ONE_LINE
    }
    return sorted(known)
