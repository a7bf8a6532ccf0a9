"""RocketMQ's JSON tables (topics, groups, offsets ...): one file each, replaced whole, never torn and never empty.

The broker's owners of metadata keep their own values and tell a `Table` what changed; the table keeps each entry's
text, so that a write encodes only what changed since the last one. `TableSaver` lets changes that arrive during a write
share the next one. The previous content stays beside it as `.bak`, as the Java broker does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any

from .. import logs
from ..errors import ProtocolError, PyroError
from .disk import Disk, DiskError, folder_of, make_folder_durably, read_whole, write_aside
from .table_text import enclose, parse_table, render, render_key

log = logs.get("pyromq.store")

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


class Table:
    """One file. Changes from the event loop (or one thread); `write` of a snapshot from anywhere, one at a time.

    The file's members are *sections*. A section that is an object is kept entry by entry; any other is one value.
    """

    def __init__(self, disk: Disk, name: str) -> None:
        self._disk = disk
        self._name = name
        self._one_line = name.rpartition("/")[2] in _ONE_LINE
        self._sections: dict[str, _Entry | dict[str | int, _Entry]] = {}
        self._current_is_good = False
        self.changes = 0  # grows with every change: what a write covers

    @property
    def name(self) -> str:
        return self._name

    def load(self) -> dict[str, Any]:
        """The content on disk, empty if there never was any. Raises TableDamaged.

        Falls back to `.bak` with a loud line. The caller must not change what it gets: it may still be written.
        """
        content, self._current_is_good = read_table(self._disk, self._name)
        for section, value in content.items():
            self._sections[section] = (
                {key: _Entry(entry) for key, entry in value.items()} if isinstance(value, dict) else _Entry(value)
            )
        return content

    def put(self, section: str, key: str | int, value: Any) -> None:
        self._entries(section)[key] = _Entry(value)
        self.changes += 1

    def drop(self, section: str, key: str | int) -> None:
        if self._entries(section).pop(key, None) is not None:
            self.changes += 1

    def replace(self, section: str, value: Any) -> None:
        """Set a whole section: an object entry by entry, anything else as one value."""
        self._sections[section] = (
            {key: _Entry(entry) for key, entry in value.items()} if isinstance(value, dict) else _Entry(value)
        )
        self.changes += 1

    def _entries(self, section: str) -> dict[str | int, _Entry]:
        entries = self._sections.setdefault(section, {})
        if isinstance(entries, _Entry):
            raise TypeError(f"section {section} of {self._name} is one value, not entries")
        return entries

    def snapshot(self) -> Callable[[], None]:
        """What is to be written, as of now; calling it writes (blocks, and may run in a helper thread)."""
        sections = [
            (name, part if isinstance(part, _Entry) else list(part.items())) for name, part in self._sections.items()
        ]
        return lambda: self._write(sections)

    def save(self) -> None:
        """Write now and wait for the disk. For tools and start-up; daemons go through `TableSaver`."""
        self.snapshot()()

    def _write(self, sections: list[tuple[str, _Entry | list[tuple[str | int, _Entry]]]]) -> None:
        parts = [f"{render_key(name)}:{self._section_text(part)}" for name, part in sections]
        content = enclose("{", parts, "}", 0, self._one_line).encode()
        folder = folder_of(self._name)
        if folder:
            make_folder_durably(self._disk, folder)
        aside = write_aside(self._disk, self._name, content)
        if self._current_is_good:
            self._keep_as_bak()
        self._disk.rename(aside, self._name)
        self._disk.sync_folder(folder)
        self._current_is_good = True

    def _section_text(self, part: _Entry | list[tuple[str | int, _Entry]]) -> str:
        if isinstance(part, _Entry):
            return part.text(1, self._one_line)
        members = [f"{render_key(key)}:{entry.text(2, self._one_line)}" for key, entry in part]
        return enclose("{", members, "}", 1, self._one_line)

    def _keep_as_bak(self) -> None:
        """A second name for the old content, so that the table itself is there at every moment."""
        second = self._name + ".bak.tmp"
        if self._disk.exists(second):
            self._disk.remove(second)
        self._disk.link(self._name, second)
        self._disk.rename(second, self._name + ".bak")


def read_table(disk: Disk, name: str, quiet: bool = False) -> tuple[dict[str, Any], bool]:
    """The content, and whether it came from the table itself rather than from its `.bak`. Raises TableDamaged."""
    faults = []
    for candidate in (name, name + ".bak"):
        if not disk.exists(candidate):
            continue
        try:
            content = parse_table(_content(disk, candidate), name.rpartition("/")[2])
        except (ProtocolError, DiskError, ValueError) as fault:
            faults.append(f"{candidate}: {fault}")
            continue
        if candidate != name and not quiet:
            reason = faults[0] if faults else f"{name} is missing"
            log.error("TABLE DAMAGED, ITS .bak IS USED: the last changes may be missing", table=name, reason=reason)
        return content, candidate == name
    if faults:
        raise TableDamaged(
            f"{disk.root}: {'; '.join(faults)}. Put a good copy back (a backup, a slave's file), "
            "or move the files away to start with an empty table"
        )
    return {}, False


def _content(disk: Disk, name: str) -> bytes:
    data = read_whole(disk, name)
    if not data.strip():
        raise ValueError("the file is empty")
    return data


class TableSaver:
    """Lets many changes share one write. Event loop only.

    `run_blocking` runs a function in a helper thread and resumes the caller with its result.
    """

    def __init__(self, table: Table, run_blocking: Callable[[Callable[[], None]], Awaitable[None]]) -> None:
        self._table = table
        self._run_blocking = run_blocking
        self._on_disk = table.changes
        self._round: _Round | None = None
        self.writes = 0

    async def saved(self) -> None:
        """Returns once every change made before this call is on disk. Raises what the write raised.

        After an error the changes are still there and the next call tries again: into a new file, so that a failed
        sync of the old one proves nothing about it.
        """
        wanted = self._table.changes
        while self._on_disk < wanted:
            if self._round is None:
                self._round = _Round(self._write)
            shared = self._round
            try:
                # A caller that gives up must not take the write of all others with it.
                await asyncio.shield(shared.task)
            except PyroError:
                if shared.covers >= wanted:
                    raise

    async def _write(self, shared: _Round) -> None:
        # Begins a turn of the loop after it was asked for: all who were woken by the last write share this one.
        shared.covers = self._table.changes
        write = self._table.snapshot()
        try:
            await self._run_blocking(write)
            self._on_disk = shared.covers
            self.writes += 1
        finally:
            self._round = None


class _Round:
    """One write and the number of changes that it covers."""

    def __init__(self, write: Callable[[_Round], Coroutine[Any, Any, None]]) -> None:
        self.covers = -1
        self.task = asyncio.create_task(write(self))
        self.task.add_done_callback(_seen)


def _seen(task: asyncio.Task[None]) -> None:
    """Every waiter may have given up; a failed write is worth a line even then."""
    if not task.cancelled() and (fault := task.exception()) is not None:
        log.error("a table could not be written", reason=fault)


def table_names(disk: Disk) -> Iterable[str]:
    """The JSON tables that are there, for tools that look at all of them."""
    known = {
        f"config/{name.removesuffix('.bak')}"
        for name in disk.list("config")
        if name.removesuffix(".bak").endswith(".json") or name.removesuffix(".bak") in _ONE_LINE
    }
    return sorted(known)
