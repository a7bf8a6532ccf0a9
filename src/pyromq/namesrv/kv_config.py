"""KV configuration: namespaces of keys and values that operators keep in the name server, in Java's `kvConfig.json`.

What is answered is what is on disk: a change is served and acknowledged once its file has replaced the old one, and
changes that arrive during a write share the next one. Event loop only; the file is written in a helper thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from ..errors import ConfigError, Malformed, RequestRefused
from ..files import replace_file
from ..protocol.bodies.body import Body, always_new, decode_body, encode_body
from ..protocol.json import FILE_LIMITS

ORDER_TOPIC_CONFIG = "ORDER_TOPIC_CONFIG"  # namespace: topic to `broker-a:4;broker-b:4`

Table = dict[str, dict[str, str]]
RunBlocking = Callable[[Callable[[], None]], Awaitable[None]]


class KvFile(Body, kw_only=True):
    """The file's content."""

    config_table: Table = always_new(dict)


class KvConfig:
    """Reads are synchronous and see whole changes only."""

    def __init__(self, path: Path, table: Table, run_blocking: RunBlocking) -> None:
        self._path = path
        self._table = table
        self._run_blocking = run_blocking
        self._waiting: list[tuple[Callable[[Table], object], asyncio.Future[None]]] = []
        self._writer: asyncio.Task[None] | None = None

    @classmethod
    def open(cls, path: Path, run_blocking: RunBlocking) -> KvConfig:
        """Empty if there is no file. ConfigError names one that cannot be read, and the `.bak` that could be used."""
        try:
            return cls(path, read(path), run_blocking)
        except FileNotFoundError:
            return cls(path, {}, run_blocking)
        except (OSError, ValueError, Malformed) as fault:
            raise ConfigError(f"cannot read the KV configuration {path}: {fault}; {_remedy(path)}") from None

    def get(self, namespace: str, key: str) -> str | None:
        return self._table.get(namespace, {}).get(key)

    def namespace(self, namespace: str) -> Mapping[str, str] | None:
        """None if nothing was ever put there; an emptied namespace stays, as in Java."""
        return self._table.get(namespace)

    async def put(self, namespace: str, key: str, value: str) -> None:
        """On disk when this returns. RequestRefused if it cannot be written; then nothing has changed."""
        await self._change(lambda table: table.setdefault(namespace, {}).__setitem__(key, value))

    async def delete(self, namespace: str, key: str) -> None:
        """The same; what is not there needs no write."""
        await self._change(lambda table: table.get(namespace, {}).pop(key, None))

    async def close(self) -> None:
        """Changes that were begun are finished."""
        if self._writer is not None:
            await self._writer

    async def _change(self, change: Callable[[Table], object]) -> None:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((change, done))
        if self._writer is None:
            self._writer = asyncio.get_running_loop().create_task(self._write_all())
        await done

    async def _write_all(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting, []
                table = {namespace: dict(entries) for namespace, entries in self._table.items()}
                for change, _ in batch:
                    change(table)
                fault = await self._write(table)
                for _, done in batch:
                    if done.done():
                        continue  # who asked has gone away
                    if fault is None:
                        done.set_result(None)
                    else:
                        done.set_exception(fault)
        finally:
            self._writer = None

    async def _write(self, table: Table) -> RequestRefused | None:
        if table == self._table:
            return None
        content = encode_body(KvFile(config_table=table))
        try:
            await self._run_blocking(lambda: replace_file(self._path, content))
        except OSError as fault:
            return RequestRefused(f"KV configuration not changed: cannot write {self._path}: {fault.strerror or fault}")
        self._table = table
        return None


def read(path: Path) -> Table:
    """OSError, ValueError or Malformed say why it cannot be."""
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
    return f"{backup} can be read ({entries} entries): `cp {backup} {path}` goes on with it"
