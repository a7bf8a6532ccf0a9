"""A table of users in a file of its own, for servers without a store: name servers and gateways."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from ..errors import ConfigError
from ..files import replace_file


class FileRows:
    """Implements `table.Rows`. Event loop only; `run_blocking` writes in a helper thread. Changes share a write."""

    def __init__(self, path: Path, run_blocking: Callable[[Callable[[], None]], Awaitable[None]]) -> None:
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
