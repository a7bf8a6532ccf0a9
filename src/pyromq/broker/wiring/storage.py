"""The store and what watches over its files: the disk's room, retention, and the notes on what went."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

from ...errors import PyroError
from ...kernel import state
from ...kernel.state import Reason
from ...store.files.disk import DiskLock
from ...store.log.flush import LogFlusher
from ...store.log.retention import DiskSpaceGate, Retention, RetentionConfig
from ...store.message_store import MessageStore
from ...store.tables.quarantine import TABLE, Quarantine
from ..intake.intake import Intake
from ..loop_quarantine import LoopQuarantine
from ..messages.expired import Expired
from ..quarantine_release import put_released
from .environment import Environment
from .tables import Tables


class Storage:
    """Event loop only. Making it recovers the store; the `lock` on it is the store's from then on."""

    def __init__(self, environment: Environment, tables: Tables, flusher: LogFlusher | None, lock: DiskLock) -> None:
        config, clock = environment.config, environment.clock
        self.store = MessageStore(
            environment.disk,
            config,
            clock,
            environment.run_blocking,
            tables.is_batch_topic,
            flusher,
            lock,
            environment.budget.shares,
        )
        retention = config.part(RetentionConfig)
        self.append_gate = state.Gate()  # the kernel's
        self.gate = DiskSpaceGate(environment.disk, retention, clock, partial(self.append_gate.set, Reason.DISK))
        self.retention = Retention(self.store, self.gate, self.store.files_in_use, retention, clock)
        self._environment = environment
        self._quarantine_save = environment.table(TABLE)
        self.quarantine = Quarantine(self._quarantine_save.table, clock.now_ms, self._quarantine_save.changed)
        self._expired_save = environment.table("pyromq/expired.json")
        self.expired = Expired(self._expired_save.table, self.store, clock.now_ms, self._expired_save.changed)

    def refusal(self) -> str | None:
        """Return why nothing may be written; None if it may."""
        return self.gate.why_refused()

    def loop_quarantine(self, loop: str) -> LoopQuarantine:
        """Return the quarantine for one of the loops that handle records."""
        return LoopQuarantine(self.quarantine, loop)

    async def put_released(self, intake: Intake) -> None:
        """Put released records again at a start. The list of them is on disk then, so that a kill repeats nothing."""
        environment = self._environment
        await put_released(self.quarantine, self.store, environment.disk, intake, environment.store_host)
        with suppress(PyroError):  # a disk that is full: the list is written later
            await self._quarantine_save.saved()

    async def keep_quarantined(self, start: int, end: int) -> None:
        """Copy what is in quarantine out of a log file that is about to be deleted."""
        for copy in self.quarantine.copying(self._environment.disk, start, end, self.store.commit_log.read):
            self.quarantine.copied(await self._environment.run_blocking(copy))

    async def close_tables(self) -> None:
        await self._quarantine_save.close()
        await self._expired_save.close()
