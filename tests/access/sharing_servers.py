"""What a server keeps of users and tells others of them, without a disk and without sockets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from pyromq.access.administration import AccessAdmin
from pyromq.access.sealing import SivSeal
from pyromq.access.settings import AccessSettings
from pyromq.access.sharing.exchange import UserExchange
from pyromq.access.sharing.stamps import Stamps
from pyromq.access.table import AccessTable


class Memory:
    """Implements `table.Rows` without a disk."""

    def __init__(self) -> None:
        self.sections: dict[str, dict[str, Any]] = {}

    def load(self) -> dict[str, dict[str, Any]]:
        return self.sections

    def put(self, section: str, key: str, value: Any) -> None:
        self.sections.setdefault(section, {})[key] = value

    def drop(self, section: str, key: str) -> None:
        self.sections.get(section, {}).pop(key, None)

    async def saved(self) -> None:
        return None


class SharingServer(NamedTuple):
    table: AccessTable
    exchange: UserExchange


def server_with(settings: AccessSettings, rows: Memory, now_ms: Callable[[], int], name: str) -> SharingServer:
    """Return the users of a server with inner credentials: those of its rows, and those of its settings."""
    seal = SivSeal(lambda: name.encode().ljust(64, b"k"))
    table = AccessTable(rows, seal, Stamps(now_ms, name))
    table.begin(settings)
    exchange = AccessAdmin(table, settings, is_loopback=False).exchange
    assert exchange is not None
    return SharingServer(table, exchange)
