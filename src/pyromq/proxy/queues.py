"""Queues of routes: as clients are shown them, and the ones that a send or a receive goes to."""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

from ..model.java_hash import java_hash
from ..model.topic import MASTER_ID, Perm
from ..protocol.bodies.route import QueueData, TopicRouteData
from ..protocol.grpc.v2 import Code, Permission
from .backend import Backend
from .statuses import refused

_REMEMBERED = 20_000  # topics whose next queue is known
_LCG, _BITS = 2862933555777941757, (1 << 64) - 1


class WriteQueue(NamedTuple):
    broker: str
    queue_id: int


class Queues:
    """Event loop only. Sends and receives that may go anywhere take turns."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._turns: OrderedDict[str, int] = OrderedDict()
        self._written: dict[str, tuple[TopicRouteData, list[WriteQueue]]] = {}  # by topic: of the route that it has now

    async def for_send(self, topic: str, sharding_key: str = "") -> WriteQueue:
        """Return the queue of a key, or the next one. Denied (40402, 40300) without a topic or a queue."""
        queues = self._queues_of(topic, await self._backend.route(topic))
        if not queues:
            raise refused(Code.FORBIDDEN, "no writable queue")
        if sharding_key:
            return queues[consistent_hash(java_hash(sharding_key), len(queues))]
        turn = self._turn(topic)
        in_turn = (queues[(turn + step) % len(queues)] for step in range(len(queues)))
        return next((one for one in in_turn if not self._backend.is_away(one.broker)), queues[turn % len(queues)])

    def _queues_of(self, topic: str, route: TopicRouteData) -> list[WriteQueue]:
        """Return the route's queues; they are sorted out once for as long as a gateway keeps the route."""
        known = self._written.get(topic)
        if known is None or known[0] is not route:
            if len(self._written) >= _REMEMBERED:
                self._written.clear()
            known = self._written[topic] = route, write_queues(route)
        return known[1]

    async def for_receive(self, topic: str, broker: str) -> str:
        """Return the broker to ask: the named one if it can be read from, else the next. Denied (40402, 40300)."""
        readable = readable_brokers(await self._backend.route(topic))
        if not readable:
            raise refused(Code.FORBIDDEN, "no readable queue")
        return broker if broker in readable else readable[self._turn(topic) % len(readable)]

    def _turn(self, topic: str) -> int:
        number = self._turns.get(topic, -1) + 1
        self._turns[topic] = number
        self._turns.move_to_end(topic)
        if len(self._turns) > _REMEMBERED:
            self._turns.popitem(last=False)
        return number


def masters(route: TopicRouteData) -> set[str]:
    """Return the brokers that have a master, or somebody who acts as one."""
    return {
        one.broker_name
        for one in route.broker_datas
        if MASTER_ID in one.broker_addrs or (one.enable_acting_master and one.broker_addrs)
    }


def write_queues(route: TopicRouteData) -> list[WriteQueue]:
    known = masters(route)
    return sorted(
        WriteQueue(one.broker_name, number)
        for one in route.queue_datas
        if one.perm & Perm.WRITE and one.broker_name in known
        for number in range(one.write_queue_nums)
    )


def readable_brokers(route: TopicRouteData) -> list[str]:
    known = masters(route)
    return sorted(
        one.broker_name
        for one in route.queue_datas
        if one.perm & Perm.READ and one.read_queue_nums and one.broker_name in known
    )


def shown_queues(queue: QueueData) -> list[Permission]:
    """Return the permission of each queue that clients are shown: readable ones first, then writable, then both."""
    read = queue.read_queue_nums if queue.perm & Perm.READ else 0
    write = queue.write_queue_nums if queue.perm & Perm.WRITE else 0
    if not queue.perm & Perm.READ_WRITE:
        return [Permission.NONE] * max(1, queue.read_queue_nums, queue.write_queue_nums)
    both = min(read, write)
    return [
        *([Permission.READ] * (read - both)),
        *([Permission.WRITE] * (write - both)),
        *([Permission.READ_WRITE] * both),
    ]


def consistent_hash(value: int, buckets: int) -> int:
    """Return Guava's bucket of a number: what Java's proxy sends a message group to."""
    state = value & _BITS
    candidate = 0
    while True:
        state = (_LCG * state + 1) & _BITS
        fraction = ((state >> 33) + 1) / (1 << 31)
        following = int((candidate + 1) / fraction)
        if following >= buckets:
            return candidate
        candidate = following
