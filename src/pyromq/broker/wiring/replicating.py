"""A master and its slaves: the HA port, and what their reports mean here."""

from __future__ import annotations

from ...transport.listening import Listening
from ..config import BrokerConfig
from ..replication.leading.ha_port import HaPort
from ..replication.leading.log_source import CommitLogSource
from ..replication.settings import ReplicationSettings
from .foundation import Foundation
from .naming import Naming


class ReplicatingParts:
    """Event loop only. `listening`: where slaves connect; None: they cannot."""

    def __init__(self, base: Foundation, naming: Naming, listening: Listening | None) -> None:
        self._listening = listening
        self.settings = base.live.config.part(ReplicationSettings)
        base.live.watch(self._use)
        source = CommitLogSource(base.store.commit_log, base.environment.run_blocking)
        self.port = HaPort(
            source, base.clock, lambda: self.settings, naming.slaves, self._changed, base.store.on_append
        )

    def accept(self) -> None:
        if self._listening is not None:
            self.port.accept(self._listening)

    async def close(self) -> None:
        await self.port.close()

    def _use(self, config: BrokerConfig) -> None:
        self.settings = config.part(ReplicationSettings)

    def _changed(self) -> None:
        """Judge anew: a slave came, went, or told how far it is."""
