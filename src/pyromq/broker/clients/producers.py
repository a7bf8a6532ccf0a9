"""Who produces: the members of producer groups. Pure. Transaction checks and replies find their clients here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ...access.rights import EVERYTHING, Rights
from ...transport.peer import Peer
from .memberships import Memberships

_PRODUCER_BYTES = 600  # an estimate of what one client in one group takes


@dataclass(slots=True)
class ConnectedProducer:
    """One client in one group."""

    peer: Peer
    client_id: str
    seen: float
    seen_ms: int  # the same by the wall clock, for those who ask
    rights: Rights = EVERYTHING  # of the user who sends its heartbeats


class Producers:
    """Event loop only. Invariant: a group is here while it has members; `_groups_of` mirrors them, and `_heard` and
    `_users` have each of their connections."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[Peer, ConnectedProducer]] = {}
        self._groups_of = Memberships()
        self._heard: dict[Peer, float] = {}
        self._users: dict[Peer, str] = {}  # who sent its last heartbeat, here or to a gateway; "": nobody is asked
        self._clients: dict[str, dict[Peer, int]] = {}  # by id: over which connections, in how many groups
        self._count = 0
        self._turn = 0

    def register(
        self,
        peer: Peer,
        client_id: str,
        group: str,
        now: float,
        now_ms: int,
        rights: Rights = EVERYTHING,
        user: str = "",
    ) -> bool:
        """Note a heartbeat. Return True if the client is new in this group."""
        members = self._groups.setdefault(group, {})
        before = members.get(peer)
        is_new = before is None
        if before is None or before.client_id != client_id:
            if before is not None:
                self._leave(before)
            groups = self._clients.setdefault(client_id, {})
            groups[peer] = groups.get(peer, 0) + 1
        members[peer] = ConnectedProducer(peer, client_id, now, now_ms, rights)
        self._groups_of.add(peer, group)
        self._heard[peer] = now
        self._users[peer] = user
        self._count += is_new
        return is_new

    def renew(self, peer: Peer, now: float, now_ms: int) -> bool:
        """Note a heartbeat of a connection that says nothing new. False: it is a member of no group."""
        groups = self._groups_of.of(peer)
        if not groups:
            return False
        for group in groups:
            member = self._groups[group][peer]
            member.seen, member.seen_ms = now, now_ms
        self._heard[peer] = now
        return True

    @property
    def table_bytes(self) -> int:
        return self._count * _PRODUCER_BYTES

    def count_with(self, peer: Peer, groups: set[str]) -> int:
        """Return how many groups the connection would be a member of after a heartbeat with these."""
        return len(groups | self._groups_of.of(peer))

    def growth(self, peer: Peer, groups: set[str]) -> int:
        """Estimate how many bytes more are kept after such a heartbeat."""
        return (self.count_with(peer, groups) - len(self._groups_of.of(peer))) * _PRODUCER_BYTES

    def unregister(self, peer: Peer, group: str) -> None:
        members = self._groups.get(group, {})
        gone = members.pop(peer, None)
        if gone is None:
            return
        self._count -= 1
        self._leave(gone)
        if not members:
            del self._groups[group]
        if self._groups_of.remove(peer, group):
            del self._heard[peer], self._users[peer]

    def lose(self, peer: Peer) -> None:
        for group in list(self._groups_of.of(peer)):
            self.unregister(peer, group)

    def silent_since(self, moment: float) -> list[Peer]:
        return [peer for peer, heard in self._heard.items() if heard < moment]

    def members(self, group: str) -> Mapping[Peer, ConnectedProducer]:
        return self._groups.get(group, {})

    def all(self) -> Mapping[str, Mapping[Peer, ConnectedProducer]]:
        return self._groups

    def in_turn(self, group: str) -> Iterator[ConnectedProducer]:
        """Yield the members, beginning with another one each time: who is asked for a transaction's outcome."""
        members = list(self._groups.get(group, {}).values())
        self._turn += 1
        for place in range(len(members)):
            yield members[(self._turn + place) % len(members)]

    def find_client(self, client_id: str) -> Peer | None:
        """Find a client by its id, in whatever group, where it was heard last: there a reply is to go.

        Of several users that say they are this client it is the first one: others want his replies."""
        peers = self._clients.get(client_id)
        if peers is None:
            return None
        first = self._users[next(iter(peers))]
        return max((peer for peer in peers if self._users[peer] == first), key=self._heard.__getitem__)

    def _leave(self, producer: ConnectedProducer) -> None:
        groups = self._clients[producer.client_id]
        groups[producer.peer] -= 1
        if not groups[producer.peer]:
            del groups[producer.peer]
        if not groups:
            del self._clients[producer.client_id]
