"""Which brokers are there, by their heartbeats (904). In memory only: brokers tell every controller, each second."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ..ambient import Clock
from ..errors import RequestRefused
from ..model.codes import ResponseCode as Code
from ..protocol.headers.namesrv import BrokerHeartbeat
from ..transport.peer import Peer
from .electing import Candidates, LogEnd

TIMEOUT_MS = 10_000  # of a broker that does not say after which silence it counts as gone
LOWEST_PRIORITY = (1 << 31) - 1
FIRST_WORDS_S = 5.0  # after its start a controller takes nobody for gone: brokers speak each second


class ReplicaId(NamedTuple):
    cluster: str
    name: str
    replica: int


@dataclass(slots=True)
class LastHeartbeat:
    """The last heartbeat of a broker."""

    peer: Peer
    at: float  # monotonic
    timeout_s: float
    log: LogEnd


class HeardBrokers:
    """Event loop only."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._begun = clock.monotonic()
        self._heard: dict[ReplicaId, LastHeartbeat] = {}

    def note(self, heartbeat: BrokerHeartbeat, peer: Peer, *, most: int) -> None:
        """Note a heartbeat. `most`: brokers that are remembered; RequestRefused for one more."""
        if heartbeat.broker_id is None:
            raise RequestRefused("Heart beat with empty brokerId", Code.CONTROLLER_INVALID_REQUEST)
        who = ReplicaId(heartbeat.cluster_name, heartbeat.broker_name, heartbeat.broker_id)
        if who not in self._heard and len(self._heard) >= most:
            raise RequestRefused(
                f"this controller hears {most} brokers, and takes no more: raise maxBrokers", Code.SYSTEM_BUSY
            )
        timeout_ms = heartbeat.heartbeat_timeout_mills
        log = LogEnd(
            -1 if heartbeat.epoch is None else heartbeat.epoch,
            -1 if heartbeat.max_offset is None else heartbeat.max_offset,
            LOWEST_PRIORITY if heartbeat.election_priority is None else heartbeat.election_priority,
        )
        timeout_s = (TIMEOUT_MS if timeout_ms is None else timeout_ms) / 1000
        self._heard[who] = LastHeartbeat(peer, self._clock.monotonic(), timeout_s, log)

    def is_alive(self, who: ReplicaId) -> bool:
        found = self._heard.get(who)
        return found is not None and self._clock.monotonic() <= found.at + found.timeout_s

    @property
    def is_young(self) -> bool:
        """Return whether brokers had no time yet to speak to this controller."""
        return self._clock.monotonic() < self._begun + FIRST_WORDS_S

    def candidates(self, cluster: str, name: str) -> Candidates:
        heard = {
            who.replica: found.log
            for who, found in self._heard.items()
            if (who.cluster, who.name) == (cluster, name) and self.is_alive(who)
        }
        return Candidates(heard, lambda replica: replica in heard or self.is_young)

    def lost(self, peer: Peer) -> list[ReplicaId]:
        """Forget the brokers that spoke over a connection, which is closed now, and return them."""
        gone = [who for who, found in self._heard.items() if found.peer is peer]
        for who in gone:
            del self._heard[who]
        return gone

    def expire(self) -> list[tuple[ReplicaId, Peer]]:
        """Forget the brokers that were silent for too long, and return them with their connections."""
        gone = [(who, found.peer) for who, found in self._heard.items() if not self.is_alive(who)]
        for who, _ in gone:
            del self._heard[who]
        return gone
