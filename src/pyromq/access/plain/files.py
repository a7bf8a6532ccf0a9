"""The files of ACL 1.0 on disk, where RocketMQ 4.9 looks for them: `conf/plain_acl.yml`, and all below `conf/acl`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from ...errors import ConfigError
from .accounts import MOST_BYTES, BrokenFile, PlainAccount, PlainFile, read_file
from .addresses import AddressList

MAIN = "conf/plain_acl.yml"
FOLDER = "conf/acl"
_ENDINGS = (".yml", ".yaml")
Found = bytes | str  # of a file; a text says why it cannot be read


def contents(home: Path, main: str = MAIN) -> dict[Path, Found]:
    """Return the bytes of each file that is there, in the order in which their accounts count. BrokenFile: a folder
    cannot be read. Blocks."""
    found: dict[Path, Found] = {}
    for path in _paths(home, main):
        try:
            with path.open("rb") as file:
                found[path] = file.read(MOST_BYTES + 1)
        except FileNotFoundError:
            continue
        except OSError as fault:
            found[path] = f"{path} cannot be read: {fault.strerror}"
    return found


def _paths(home: Path, main: str) -> Iterator[Path]:
    found = []
    for folder, below, names in os.walk(home / FOLDER, onerror=_unreadable):
        below[:] = [name for name in below if not name.startswith(".")]  # of Kubernetes, which removes them at any time
        shown = (name for name in names if not name.startswith("."))  # others are an editor's
        found += [path for path in map(Path(folder).joinpath, shown) if path.suffix in _ENDINGS]
    yield from sorted(found)
    if home / main not in found:
        yield home / main


def _unreadable(fault: OSError) -> None:
    if not isinstance(fault, FileNotFoundError | NotADirectoryError):
        raise BrokenFile(f"{fault.filename} cannot be read: {fault.strerror}") from None


class ReadFiles:
    """What the files say: of each its last state that was whole. `faults`: what is wrong with those that are not."""

    def __init__(self, why_no_white_lists: str = "") -> None:
        self._why_no_white_lists = why_no_white_lists
        self._seen: dict[Path, Found] = {}
        self._files: dict[Path, PlainFile] = {}
        self.faults: dict[Path, str] = {}

    def take(self, found: Mapping[Path, Found]) -> bool:
        """Read what has changed. Returns whether anything has. A file that is gone says nothing any more."""
        changed = [path for path, data in found.items() if self._seen.get(path) != data]
        gone = self._seen.keys() - found.keys()
        for path in changed:
            self._read(path, found[path])
        for path in gone:
            self._files.pop(path, None)
            self.faults.pop(path, None)
        is_same_order = list(self._seen) == list(found)
        self._seen = dict(found)
        return bool(changed) or not is_same_order

    def _read(self, path: Path, data: Found) -> None:
        self.faults.pop(path, None)
        before = self._files.get(path, PlainFile())
        try:
            if isinstance(data, str):
                raise BrokenFile(data)
            read = read_file(data, str(path))
            if not data.strip() and before.accounts:  # an editor that has only begun to write
                raise BrokenFile(f"{path} is empty: it has `accounts: []` to have none")
            if self._why_no_white_lists and read.lets_in:
                raise BrokenFile(f"{path} has white lists of addresses: {self._why_no_white_lists}")
        except ConfigError as fault:
            self.faults[path] = str(fault)
            return
        self._files[path] = read

    @property
    def white(self) -> AddressList:
        return sum((self._files[path].white for path in self._seen if path in self._files), AddressList())

    def accounts(self) -> Iterator[tuple[Path, PlainAccount]]:
        """Yield all accounts. Of those with one name the first counts."""
        for path in self._seen:
            if path in self._files:
                yield from ((path, account) for account in self._files[path].accounts)
