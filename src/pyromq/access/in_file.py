"""Users and permissions of a server without a store, in a file of their own: name servers and controllers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ..ambient import Clock
from ..errors import ConfigError
from ..files import replace_file
from .administration import AccessAdmin
from .gate import AccessGate
from .sealing import SivSeal, key_in
from .settings import AccessSettings
from .sharing.stamps import Stamps
from .signatures import inner_sign
from .table import AccessTable

RunBlocking = Callable[[Callable[[], None]], Awaitable[None]]


class FileRows:
    """Implements `table.Rows`. Event loop only; `run_blocking` writes in a helper thread. Changes share a write."""

    def __init__(self, path: Path, run_blocking: RunBlocking) -> None:
        self._path = path
        self._run_blocking = run_blocking
        self._sections: dict[str, dict[str, Any]] = {}
        self._writing = asyncio.Lock()
        self._changes = self._on_disk = 0

    def load(self) -> Mapping[str, Any]:
        """Return the content, empty without a file. ConfigError names one that cannot be read."""
        try:
            self._sections = json.loads(self._path.read_bytes())
        except FileNotFoundError:
            pass
        except (OSError, ValueError) as fault:
            raise ConfigError(
                f"cannot read the users in {self._path}: {fault}; mend it, or put {self._path}.bak in its place"
            ) from None
        return self._sections

    def put(self, section: str, key: str, value: Any) -> None:
        self._sections.setdefault(section, {})[key] = value
        self._changes += 1

    def drop(self, section: str, key: str) -> None:
        if self._sections.get(section, {}).pop(key, None) is not None:
            self._changes += 1

    async def saved(self) -> None:
        wanted = self._changes
        async with self._writing:
            if self._on_disk >= wanted:
                return
            covers, content = self._changes, json.dumps(self._sections, indent=1).encode()
            await self._run_blocking(lambda: replace_file(self._path, content))
            self._on_disk = covers


class AccessInFile:
    """The table, the gate before all handlers, and what signs the server's own requests. Event loop only.

    `gate` None: nobody is asked who he is."""

    def __init__(
        self,
        settings: AccessSettings,
        file: Path,
        *,
        server: str,
        is_loopback: bool,
        cluster: str,
        clock: Clock,
        run_blocking: RunBlocking,
    ) -> None:
        """`file`: of users and policies; the key that seals their passwords is beside it. `server`: what stamps of
        changes made here say. `cluster`: what policies must name for requests about the server as a whole."""
        self.table = AccessTable(
            FileRows(file, run_blocking),
            SivSeal(partial(key_in, file.with_suffix(".key"), settings.access_secret)),
            Stamps(clock.now_ms, server),
            settings.acl_conflict,
        )
        self.table.begin(settings)
        self.table.warn_if_nobody(settings)
        self.admin = AccessAdmin(self.table, settings, is_loopback=is_loopback)
        gate = AccessGate(self.table.directory, settings, cluster=cluster, clock=clock)
        self.gate = gate if settings.authentication_enabled else None
        self.sign = inner_sign(settings)

    async def close(self) -> None:
        await self.table.saved()
