"""KV configuration: namespaces of keys and values that operators keep in the name server, in Java's `kvConfig.json`.

What is answered is what is on disk: a change is served and acknowledged once its file has replaced the old one, and
changes that arrive during a write share the next one. Event loop only; the file is written in a helper thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from .. import logs
from ..errors import ConfigError, Malformed, RequestRefused
from ..files import replace_file
from ..model.codes import ResponseCode
from ..model.foreign_text import shell_word
from ..protocol.bodies.body import Body, always_new, decode_body, encode_body
from ..protocol.json import FILE_LIMITS
from .config import NamesrvConfig

log = logs.get("pyromq.namesrv")

Table = dict[str, dict[str, str]]
RunBlocking = Callable[[Callable[[], None]], Awaitable[None]]

_ENTRY_BYTES = 8  # of a key and its value in the file besides their texts


class KvFile(Body, kw_only=True):
    config_table: Table = always_new(dict)


class _Change(NamedTuple):
    namespace: str
    key: str
    value: str | None  # None: take it away
    done: asyncio.Future[None]


class KvConfig:
    """Reads are synchronous and see whole changes only.

    `limits` is asked for each change. A file that is larger already is read and served, and it may be made smaller.
    """

    def __init__(
        self, path: Path, table: Table, run_blocking: RunBlocking, limits: Callable[[], NamesrvConfig] = NamesrvConfig
    ) -> None:
        self._path = path
        self._table = table
        self._run_blocking = run_blocking
        self._limits = limits
        self._bytes = sum(_bytes(name, entries) for name, entries in table.items())
        self._waiting: list[_Change] = []
        self._writer: asyncio.Task[None] | None = None

    @classmethod
    def open(
        cls, path: Path, run_blocking: RunBlocking, limits: Callable[[], NamesrvConfig] = NamesrvConfig
    ) -> KvConfig:
        """Return the table, empty without a file. ConfigError names one that cannot be read, and a `.bak` that can."""
        try:
            return cls(path, read(path), run_blocking, limits)
        except FileNotFoundError:
            return cls(path, {}, run_blocking, limits)
        except OSError as fault:  # the file may be good, and newer than its `.bak`
            cure = "chown or chmod it for the user that runs the name server, or mend the disk"
            raise ConfigError(f"cannot read the KV configuration {path}: {fault.strerror}; {cure}") from None
        except (ValueError, Malformed) as fault:
            raise ConfigError(f"cannot read the KV configuration {path}: {fault}; {_remedy(path)}") from None

    def get(self, namespace: str, key: str) -> str | None:
        return self._table.get(namespace, {}).get(key)

    def namespace(self, namespace: str) -> Mapping[str, str] | None:
        """Return the pairs of a namespace. None: nothing was ever put there; an emptied namespace stays, as in Java."""
        return self._table.get(namespace)

    async def put(self, namespace: str, key: str, value: str) -> None:
        """Put a value; it is on disk when this returns. RequestRefused, and nothing changed, if over a limit."""
        _check_texts(namespace, key, value, self._limits())
        await self._change(namespace, key, value)

    async def delete(self, namespace: str, key: str) -> None:
        """Delete a value; what is not there needs no write."""
        await self._change(namespace, key, None)

    async def close(self) -> None:
        """Wait until the changes that were begun are finished."""
        if self._writer is not None:
            await self._writer

    async def _change(self, namespace: str, key: str, value: str | None) -> None:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Change(namespace, key, value, done))
        if self._writer is None:
            self._writer = asyncio.get_running_loop().create_task(self._write_all())
        await done

    async def _write_all(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting, []
                draft = _Draft(self._table, self._bytes, self._limits())
                taken = [change for change in batch if draft.apply(change)]
                fault = await self._write(draft) if draft.is_changed else None
                for change in taken:
                    if change.done.done():
                        continue  # who asked has gone away
                    if fault is None:
                        change.done.set_result(None)
                    else:
                        change.done.set_exception(fault)
        finally:
            self._writer = None

    async def _write(self, draft: _Draft) -> RequestRefused | None:
        # Encoded in the helper thread too: nobody changes the draft any more.
        try:
            await self._run_blocking(lambda: replace_file(self._path, encode_body(KvFile(config_table=draft.table))))
        except OSError as fault:
            return RequestRefused(f"KV configuration not changed: cannot write {self._path}: {fault.strerror or fault}")
        except Exception as fault:  # memory that peers hold, say: whoever waits for the change must have an answer
            log.exception("the KV configuration could not be written", path=str(self._path))
            return RequestRefused(f"KV configuration not changed: {type(fault).__name__}: {fault}; try again later")
        self._table, self._bytes = draft.table, draft.bytes
        return None


class _Draft:
    """The table as it will be. Shares with the one that is served all namespaces in which nothing changes."""

    def __init__(self, table: Table, size: int, limits: NamesrvConfig) -> None:
        self.table = dict(table)
        self.bytes = size
        self.is_changed = False
        self._limits = limits
        self._own: set[str] = set()

    def apply(self, change: _Change) -> bool:
        """Apply a change and return True. False: it is refused, and its caller gets the refusal."""
        entries = self.table.get(change.namespace)
        old = None if entries is None else entries.get(change.key)
        if change.value == old:
            return True
        size = _entry_bytes(change.key, change.value) - _entry_bytes(change.key, old)
        if entries is None:
            size += len(change.namespace) + _ENTRY_BYTES
        if change.value is not None and (fault := self._fault(change, entries, old is None, size)) is not None:
            if not change.done.done():
                change.done.set_exception(fault)
            return False
        own = self._of(change.namespace)
        if change.value is None:
            del own[change.key]
        else:
            own[change.key] = change.value
        self.bytes += size
        self.is_changed = True
        return True

    def _of(self, namespace: str) -> dict[str, str]:
        if namespace not in self._own:
            self.table[namespace] = dict(self.table.get(namespace, {}))
            self._own.add(namespace)
        return self.table[namespace]

    def _fault(self, change: _Change, entries: dict[str, str] | None, is_new: bool, size: int) -> RequestRefused | None:
        limits = self._limits
        if size > 0 and self.bytes + size > limits.max_kv_bytes:
            return _over(f"with this it would have {self.bytes + size} bytes", "maxKvBytes", limits.max_kv_bytes)
        if entries is None and len(self.table) >= limits.max_kv_namespaces:
            return _over(f"it has {len(self.table)} namespaces", "maxKvNamespaces", limits.max_kv_namespaces)
        most = limits.max_kv_entries_per_namespace
        if entries is not None and is_new and len(entries) >= most:
            what = f"namespace {change.namespace} has {len(entries)} entries"
            return _over(what, "maxKvEntriesPerNamespace", most)
        return None


def _check_texts(namespace: str, key: str, value: str, limits: NamesrvConfig) -> None:
    longest = max(len(namespace), len(key))
    if longest > limits.max_kv_key_length:
        raise _over(f"a namespace or key of {longest} characters", "maxKvKeyLength", limits.max_kv_key_length)
    if len(value) > limits.max_kv_value_length:
        raise _over(f"a value of {len(value)} characters", "maxKvValueLength", limits.max_kv_value_length)


def _over(what: str, setting: str, limit: int) -> RequestRefused:
    text = f"KV configuration not changed: {what}, the limit ({setting}) is {limit}"
    return RequestRefused(text, ResponseCode.INVALID_PARAMETER)


def _bytes(namespace: str, entries: Mapping[str, str]) -> int:
    return len(namespace) + _ENTRY_BYTES + sum(_entry_bytes(key, value) for key, value in entries.items())


def _entry_bytes(key: str, value: str | None) -> int:
    return 0 if value is None else len(key) + len(value) + _ENTRY_BYTES


def read(path: Path) -> Table:
    """Read the file. OSError, ValueError or Malformed say why it cannot be read."""
    data = path.read_bytes()
    if not data.strip():
        raise ValueError("the file is empty")  # what a crash during Java's writing leaves
    return decode_body(KvFile, data, FILE_LIMITS).config_table


def _remedy(path: Path) -> str:
    backup = path.with_name(path.name + ".bak")
    try:
        entries = sum(map(len, read(backup).values()))
    except FileNotFoundError:
        return f"there is no {backup} either: put a good copy back, or move the file away to start without any"
    except (OSError, ValueError, Malformed) as fault:
        return f"nor can {backup} be ({fault}): put a good copy back, or move both away to start without any"
    broken, good = shell_word(str(path)), shell_word(str(backup))
    cure = f"`mv {broken} {broken}.broken; cp {good} {broken}`"
    return f"{backup} can be read ({entries} entries): {cure} goes on with it"
