"""What every part of a broker is made with: its settings, clock, disk and helper threads, and the port it listens on.

`broker.py` makes it once, when the ports are bound, and hands it to the other files of this folder. The parts that they
make get only what they use.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ...ambient import Clock, RunBlocking
from ...audit.log import AuditLog
from ...config import Live
from ...machine.budget import Budget
from ...model.ids import pack_host
from ...store.files.disk import Disk
from ...store.tables.json_tables import JsonTable
from ...store.tables.table_saver import FOLD_S
from ...supervision import Loops
from ...transport.address import format_address
from ...transport.limits import Limits
from ...transport.settings import StrangerSettings, TransportSettings
from ..config import BrokerConfig
from ..elected.role import ElectedRole
from ..metadata.saving import SaveSoon
from ..replication.tables.carried import CARRIED
from ..replication.tables.recorder import TableRecorder


@dataclass(frozen=True, slots=True)
class Environment:
    config: BrokerConfig  # as it was at the start; what may change while the broker runs is asked of `live`
    live: Live[BrokerConfig]
    clock: Clock
    rng: random.Random
    disk: Disk
    run_blocking: RunBlocking
    loops: Loops
    budget: Budget
    port: int  # of the main listener
    ip: str  # of the host that clients are told, which may be a name
    tables_in_log: bool = False  # the log carries the tables: this broker is a member of an elected set
    recorder: TableRecorder | None = None  # of the tables, if it leads
    elected: ElectedRole | None = None  # None: this broker belongs to no elected set
    audit: AuditLog | None = None
    _saves: list[SaveSoon] = field(default_factory=list)

    @property
    def address(self) -> str:
        """Return the address that clients are given."""
        return format_address(self.config.advertised_host, self.port)

    @property
    def store_host(self) -> bytes:
        """Return the store address as it stands in records."""
        return pack_host(self.ip, self.port)

    @property
    def transport(self) -> TransportSettings:
        return self.config.part(TransportSettings)

    @property
    def is_slave(self) -> bool:
        """Return whether this broker follows a master: then nothing but that master's records enters its log."""
        return self.config.is_slave

    @property
    def limits(self) -> Limits:
        limits, config = self.transport.limits(self.budget.memory_bytes), self.config
        if not config.access.authentication_enabled:
            return limits
        return config.part(StrangerSettings).within(limits, config.max_message_bytes)

    def table(self, name: str, fold_s: float = FOLD_S, *, after_log: bool = False) -> SaveSoon:
        """Return a table of the store's folder that is written soon after each change.

        `after_log`: the log of an elected set has its changes in another form, and has them first."""
        table, recorder = JsonTable(self.disk, name), self.recorder if after_log or name in CARRIED else None
        if recorder is not None:
            recorder.watch(table)
        save = SaveSoon(table, self.run_blocking, self.clock, fold_s, recorder)
        self._saves.append(save)
        return save

    def carried_tables(self) -> dict[str, SaveSoon]:
        """Return the tables that the log of an elected set carries, by name."""
        return {save.table.name: save for save in self._saves if save.table.name in CARRIED}

    @contextmanager
    def tables_abandoned_on_failure(self) -> Iterator[None]:
        """Never write what the parts of a broker wanted to write into tables, if making them fails."""
        try:
            yield
        except BaseException:
            for save in self._saves:
                save.abandon()
            raise

    def every(self, name: str, seconds: float, act: Callable[[], None]) -> Coroutine[Any, Any, None]:
        """Return a supervised loop that acts once per interval."""
        return self.loops.keep(name, partial(self._every, seconds, act))

    async def _every(self, seconds: float, act: Callable[[], None]) -> None:
        while True:
            await self.clock.sleep(seconds)
            act()
