"""Who is connected, by group, language and version; members of groups, and subscriptions that differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass

from ...metrics.families import Family, words
from ...model import names
from ...model.client_info import version_name
from ...model.group import ConsumeType
from ...proxy.clients.peers import ClientPeer
from ...transport.peer import Peer
from ..clients.consumers import Consumers
from ..clients.producers import Producers
from ..clients.subscriptions import Conflict
from ..metadata.offsets import Offsets
from .meter import Meter, Series

_MODES = {ConsumeType.ACTIVELY: "pull", ConsumeType.PASSIVELY: "push", ConsumeType.POP: "pop"}


@dataclass(slots=True, eq=False, repr=False)
class ClientMetrics:
    """Event loop only."""

    meter: Meter
    consumers: Consumers
    producers: Producers
    offsets: Offsets

    async def families(self) -> AsyncIterator[Family]:
        meter = self.meter
        peers = {peer for members in self.producers.all().values() for peer in members}
        producing = Counter([_of(peer) for peer in peers])
        series = [
            (meter.labels.of(language=language, version=version, protocol_type=protocol), count)
            for (language, version, protocol), count in producing.items()
        ]
        yield meter.gauge("rocketmq_producer_connections", "Connections of producers.", [*series])
        consuming = Series()
        async for group in meter.slices.each(self.consumers.all()):
            kinds = Counter([_of(peer) for peer in group.members])
            for (language, version, protocol), count in kinds.items():
                labels = meter.labels.of(
                    consumer_group=group.name,
                    language=language,
                    version=version,
                    consume_mode=_MODES.get(group.consume_type, "push"),
                    protocol_type=protocol,
                    is_system=words(names.is_system_group(group.name)),
                )
                consuming.append((labels, count))
        yield meter.gauge("rocketmq_consumer_connections", "Connections of consumers.", consuming)
        yield meter.gauge(
            "pyromq_group_members",
            "Members of a group that are online; 0 for a group with offsets and nobody online.",
            [*await self._members()],
        )
        yield meter.gauge(
            "pyromq_subscription_conflict",
            "1 while members of a group subscribe differently, so that messages are skipped.",
            [(meter.labels.of(consumer_group=group, topic=_topic(one)), 1) for group, one in self._conflicts()],
        )

    async def _members(self) -> Series:
        found = {group.name: len(group.client_ids) for group in self.consumers.all()}
        series = Series()
        async for group in self.meter.slices.each({**dict.fromkeys(self.offsets.groups(), 0), **found}):
            if not names.is_system_group(group):
                series.append((self.meter.labels.of(consumer_group=group), found.get(group, 0)))
        return series

    def _conflicts(self) -> list[tuple[str, Conflict]]:
        return list(self.consumers.conflicts.open.items())


def _of(peer: Peer) -> tuple[str, str, str]:
    language = "other" if peer.language is None else peer.language.name.lower()
    protocol = "grpc_v2" if isinstance(peer, ClientPeer) else "remoting"
    return language, version_name(peer.version).lower(), protocol


def _topic(conflict: Conflict) -> str:
    """Return the first topic on which the two differ."""
    return conflict.wants.partition(":")[0] or conflict.other_wants.partition(":")[0]
