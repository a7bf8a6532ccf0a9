"""A master and its slaves: the HA port, and what their reports mean for sends."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from ... import logs
from ...protocol.bodies.replication import HAClientRuntimeInfo
from ...transport.address import parse_address
from ...transport.listening import Listening
from ..config import BrokerConfig
from ..elected.role import ElectedRole
from ..replication.leading.confirm import SlaveReport, judge
from ..replication.leading.copies import OtherCopies, SlaveCopies
from ..replication.leading.elected_copies import ElectedCopies
from ..replication.leading.elected_streams import ElectedStreams
from ..replication.leading.ha_port import HaPort
from ..replication.leading.log_source import CommitLogSource
from ..replication.leading.status import ReplicationStatus
from ..replication.settings import ReplicationSettings
from ..replication.stream_tls import port_opening
from .foundation import Foundation
from .naming import Naming

log = logs.get("pyromq.broker")

JUDGED_EVERY_S = 1.0


def copies_of(base: Foundation) -> OtherCopies:
    """Return what a master's sends wait for besides its own disk."""
    store, live, role = base.store, base.live, base.environment.elected
    if role is not None and role.mastership is not None:
        elected = ElectedCopies(store, role.mastership, role.mastership.acting.state.minimum)
        role.mastership.on_change.append(elected.judge)
        role.mastership.on_over.append(elected.give_up)
        return elected
    copies = SlaveCopies(
        store, base.clock, live.config.part(ReplicationSettings), lambda: store.commit_log.end, store.on_append
    )
    live.watch(lambda config: copies.use_settings(config.part(ReplicationSettings)))
    return copies


class ReplicatingParts:
    """Event loop only. `listening`: where slaves connect; None: they cannot."""

    def __init__(self, base: Foundation, naming: Naming, copies: OtherCopies, listening: Listening | None) -> None:
        self._base = base
        self._copies = copies
        self._listening = listening
        self._identity = naming.identity
        self.settings = base.live.config.part(ReplicationSettings)
        store = base.store
        source = CommitLogSource(store.commit_log, base.environment.run_blocking)
        self._streams = self._elected_streams(base.environment.elected, source)
        members = naming.slaves if self._streams is None else self._replicas
        wires = None if self._streams is None else self._streams.wire
        opening = port_opening(base.environment.transport, self.settings.ha_tls)
        self.port = HaPort(
            source, base.clock, lambda: self.settings, members, self._judge, store.on_append, wires, opening
        )
        base.storage.retention.wanted_from = self.port.wanted_from
        base.live.watch(self._use)
        self._judge()

    def _elected_streams(self, role: ElectedRole | None, source: CommitLogSource) -> ElectedStreams | None:
        """Return the streams of an elected set's master; None: this broker is none."""
        if role is None or role.mastership is None:
            return None
        streams = ElectedStreams(role.mastership, source, role.epochs, role.me)
        role.mastership.on_over.append(streams.close)
        return streams

    async def _replicas(self) -> list[str]:
        """Return the addresses of all replicas of this elected set."""
        role = self._base.environment.elected
        return [] if role is None else role.members()

    def status(self, followed: Callable[[], HAClientRuntimeInfo | None]) -> ReplicationStatus:
        """Return who answers questions about replication. `followed`: what a slave sees of its master."""
        log_tail = self._base.store.commit_log
        return ReplicationStatus(
            self._identity,
            lambda: self.settings,
            lambda: self.port.senders,
            lambda: log_tail.end,
            log_tail.end,
            followed,
        )

    def trouble(self) -> str | None:
        """Return why sends are refused for want of slaves; None: they are not."""
        standing = self._copies.standing
        if not standing.refuses:
            return None
        return f"{standing.in_sync} of {standing.minimum} slaves are in sync (minInSyncReplicas): sends are refused"

    def figures(self) -> dict[str, str]:
        """Return what the runtime information shows; nothing of a lone master."""
        senders = [sender for sender in self.port.senders if sender.is_streaming]
        if not senders and not self._copies.is_sync:
            return {}
        end, role = self._base.store.commit_log.end, self._base.environment.elected
        in_sync = self._copies.standing.in_sync
        if role is not None and role.mastership is not None:
            in_sync = len(role.mastership.acting.state.in_sync) - 1
        behind = max((end - sender.acked for sender in senders), default=0)
        return {
            "pyromqSlaves": str(len(senders)),
            "pyromqSlavesInSync": str(in_sync),
            "pyromqSlavesBehind": str(behind),
        }

    def accept(self) -> None:
        if self._listening is None:
            return
        self.port.accept(self._listening)
        if isinstance(self._copies, SlaveCopies) and self._copies.is_sync:
            log.info(
                "sends are answered once slaves have them",
                copies=self.settings.needed_copies,
                keys="inSyncReplicas, which is 2 unless it is set (Java: 1, which waits for nobody); minInSyncReplicas",
                minimum=self.settings.classic_minimum,
            )

    def loops(self) -> list[Coroutine[Any, Any, None]]:
        return [self._base.environment.every("slaves in sync", JUDGED_EVERY_S, self._judge)]

    async def close(self) -> None:
        if self._streams is not None:
            self._streams.close()
        await self.port.close()
        self._copies.close()

    def _use(self, config: BrokerConfig) -> None:
        self.settings = config.part(ReplicationSettings)
        self._judge()

    def _judge(self) -> None:
        """Judge anew: a slave came, went, or told how far it is; or time has passed."""
        if not isinstance(self._copies, SlaveCopies):
            return  # an elected set judges by its own rules
        if not self._copies.is_sync and not self.port.senders and not self._copies.standing.in_sync:
            return  # a lone master
        reports = [
            SlaveReport(parse_address(sender.address)[0], sender.acked, sender.heard)
            for sender in self.port.senders
            if sender.is_streaming
        ]
        end, now = self._base.store.commit_log.end, self._base.clock.monotonic()
        self._copies.use(judge(reports, self.port.member_hosts, end, now, self.settings))
