"""Which queues of a topic each member of a group takes: the same answer as Java's for the same input, member by member.

Every member computes this by itself, so a mixed group of Java and Python consumers shares the queues only if both
compute the same. `tests/client/recorded/allocations.json` holds what Java's own classes answered. No awaits, no state.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from ...model.allocation import AVERAGE, BY_CIRCLE, average, average_by_circle
from ...protocol.bodies.keyed import MessageQueue


class Strategy(Protocol):
    """Any function that says which queues a member gets. Both lists are sorted; all of a group need the same one."""

    def __call__(
        self, member: str, queues: Sequence[MessageQueue], members: Sequence[str], /
    ) -> list[MessageQueue]: ...


class NamedStrategy(Strategy, Protocol):
    """One of ours, with the name that Java has for it."""

    @property
    def name(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Average:
    """Contiguous blocks; the first (queues mod members) members get one more."""

    name: str = AVERAGE

    def __call__(self, member: str, queues: Sequence[MessageQueue], members: Sequence[str]) -> list[MessageQueue]:
        return average(member, queues, members)


@dataclass(frozen=True, slots=True)
class AverageByCircle:
    """Queue i goes to member i mod members."""

    name: str = BY_CIRCLE

    def __call__(self, member: str, queues: Sequence[MessageQueue], members: Sequence[str]) -> list[MessageQueue]:
        return average_by_circle(member, queues, members)


@dataclass(frozen=True, slots=True)
class Fixed:
    """Always the same list, whoever else is there."""

    queues: tuple[MessageQueue, ...]
    name: str = "CONFIG"

    def __call__(self, member: str, queues: Sequence[MessageQueue], members: Sequence[str]) -> list[MessageQueue]:
        return list(self.queues)


@dataclass(frozen=True, slots=True)
class MachineRoom:
    """Queues of brokers named `room@name` in the given rooms: equal blocks, then the rest one by one."""

    rooms: frozenset[str]
    name: str = "MACHINE_ROOM"

    def __call__(self, member: str, queues: Sequence[MessageQueue], members: Sequence[str]) -> list[MessageQueue]:
        if member not in members:
            return []
        place = members.index(member)
        parts = {queue: queue.broker_name.split("@") for queue in queues}
        near = [queue for queue, names in parts.items() if len(names) == 2 and names[0] in self.rooms]
        share, extra = divmod(len(near), len(members))
        taken = near[place * share : (place + 1) * share]
        if place < extra:
            taken.append(near[share * len(members) + place])
        return taken


@dataclass(frozen=True, slots=True)
class MachineRoomNearby:
    """Queues go to members of their own room by `inner`; those of rooms without members are shared by all."""

    inner: NamedStrategy
    room_of_broker: Callable[[MessageQueue], str]
    room_of_member: Callable[[str], str]

    @property
    def name(self) -> str:
        return f"MACHINE_ROOM_NEARBY-{self.inner.name}"

    def __call__(self, member: str, queues: Sequence[MessageQueue], members: Sequence[str]) -> list[MessageQueue]:
        if member not in members:
            return []
        queues_of: dict[str, list[MessageQueue]] = {}
        for queue in queues:
            queues_of.setdefault(self.room_of_broker(queue), []).append(queue)
        members_of: dict[str, list[str]] = {}
        for each in members:
            members_of.setdefault(self.room_of_member(each), []).append(each)
        own = self.room_of_member(member)
        taken = self.inner(member, queues_of.pop(own, []), members_of[own])
        for room in sorted(queues_of):
            if room not in members_of:
                taken += self.inner(member, queues_of[room], members)
        return taken


@dataclass(frozen=True, slots=True)
class ConsistentHash:
    """Each member stands on a ring of MD5 values at `virtual_nodes` places; a queue goes to the next one on it."""

    virtual_nodes: int = 10
    name: str = "CONSISTENT_HASH"

    def __call__(self, member: str, queues: Sequence[MessageQueue], members: Sequence[str]) -> list[MessageQueue]:
        if member not in members:
            return []
        ring = {_place(f"{each}-{number}"): each for each in members for number in range(self.virtual_nodes)}
        places = sorted(ring)
        taken = []
        for queue in queues:
            # Java hashes what the queue's `toString` writes.
            text = f"MessageQueue [topic={queue.topic}, brokerName={queue.broker_name}, queueId={queue.queue_id}]"
            at = bisect_left(places, _place(text))
            if ring[places[at % len(places)]] == member:
                taken.append(queue)
        return taken


def _place(key: str) -> int:
    return int.from_bytes(hashlib.md5(key.encode(), usedforsecurity=False).digest()[:4], "big")
