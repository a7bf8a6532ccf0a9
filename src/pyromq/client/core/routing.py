"""A topic's route as the client uses it: which queues can be written and read, and where their brokers are.

`Route` is made of one answer of a name server and never changes. `Rotation` chooses a queue. `Latencies` leaves
brokers that were slow or failed alone for a while, by Java 5's table. No awaits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ...ambient import Random
from ...model.java_hash import java_hash
from ...model.topic import MASTER_ID, Perm, parse_order
from ...protocol.bodies.keyed import MessageQueue
from ...protocol.bodies.route import QueueData, TopicRouteData

MOST_QUEUES = 100_000  # of one topic
# A send that took so many ms or more makes the broker unavailable for so many ms.
_PENALTIES_MS = ((15_000, 30_000), (5_000, 10_000), (3_000, 6_000), (1_800, 5_000), (550, 2_000), (0, 0))
_UNPUNISHED_MS = _PENALTIES_MS[-2][0]  # nearly every send
FAILED_MS = 10_000  # a failed send counts as one that took this long


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Queues are sorted as Java sorts them. `addresses` has broker name, then broker id (0 is the master)."""

    topic: str
    addresses: dict[str, dict[int, str]] = field(default_factory=dict)
    writable: tuple[MessageQueue, ...] = ()
    readable: tuple[MessageQueue, ...] = ()
    # What order keys are spread over: the writable ones, and those whose master is away while a replica is there.
    for_keys: tuple[MessageQueue, ...] = ()
    is_static: bool = False  # queues of its own kind, which this client does not know
    write_fault: str = ""  # why nothing can be written although it is there: its order setting cannot be read
    writers: frozenset[str] = field(init=False, compare=False)  # names of the brokers of `writable`

    def __post_init__(self) -> None:
        object.__setattr__(self, "writers", frozenset(queue.broker_name for queue in self.writable))
        if not self.for_keys:
            object.__setattr__(self, "for_keys", self.writable)

    def master(self, broker_name: str) -> str | None:
        replicas = self.addresses.get(broker_name)
        return None if replicas is None else replicas.get(MASTER_ID)

    def reader(self, broker_name: str, wanted_id: int = MASTER_ID) -> str | None:
        """Return where to read: the suggested replica, else the master, else any slave (the master may be away)."""
        replicas = self.addresses.get(broker_name, {})
        found = replicas.get(wanted_id) or replicas.get(MASTER_ID)
        return found or next((replicas[each] for each in sorted(replicas)), None)


def route_of(topic: str, data: TopicRouteData) -> Route:
    """Return the route: writable queues have a known master, readable ones need the permission alone.

    Order keys keep their queues while a broker is between two masters: among fewer queues they would move, and move
    back with the new master, and their order would be lost twice.

    An order topic whose setting cannot be read has no writable queue: among others its keys would move.
    """
    _check_sizes(data)
    addresses = {broker.broker_name: dict(broker.broker_addrs) for broker in data.broker_datas}
    try:
        ordered, fault = _ordered_queues(topic, parse_order(topic, data.order_topic_conf or "")), ""
    except ValueError as nonsense:
        ordered, fault = (), str(nonsense)
    parts = sorted(data.queue_datas, key=lambda part: part.broker_name)
    masters = [part for part in parts if MASTER_ID in addresses.get(part.broker_name, {})]
    present = [part for part in parts if addresses.get(part.broker_name)]
    return Route(
        topic=topic,
        addresses=addresses,
        writable=ordered or (() if fault else _queues(topic, masters, Perm.WRITE, lambda part: part.write_queue_nums)),
        for_keys=ordered or (() if fault else _queues(topic, present, Perm.WRITE, lambda part: part.write_queue_nums)),
        readable=_queues(topic, parts, Perm.READ, lambda part: part.read_queue_nums),
        is_static=bool(data.topic_queue_mapping_by_broker),
        write_fault=fault,
    )


def _check_sizes(data: TopicRouteData) -> None:
    """Raise ValueError for more queues than anybody has: each would become an object, whoever made them up.

    Brokers of one name are listed once, so all numbers are summed up.
    """
    for numbers in ("read_queue_nums", "write_queue_nums"):
        count = sum(max(0, getattr(part, numbers)) for part in data.queue_datas)
        if count > MOST_QUEUES:
            raise ValueError(f"it gives the topic {count} queues, and more than {MOST_QUEUES} are not believed")


def _queues(
    topic: str, parts: Sequence[QueueData], needed: int, count: Callable[[QueueData], int]
) -> tuple[MessageQueue, ...]:
    return tuple(
        MessageQueue(broker_name=part.broker_name, queue_id=number, topic=topic)
        for part in parts
        if part.perm & needed
        for number in range(count(part))
    )


def _ordered_queues(topic: str, counts: Mapping[str, int]) -> tuple[MessageQueue, ...]:
    """Return the queues of an order topic in the order of its setting, whichever brokers are there."""
    if sum(counts.values()) > MOST_QUEUES:
        raise ValueError(f"the order setting of {topic} names more than {MOST_QUEUES} queues")
    return tuple(
        MessageQueue(broker_name=name, queue_id=each, topic=topic)
        for name, count in counts.items()
        for each in range(count)
    )


def queue_for_key(queues: Sequence[MessageQueue], key: str) -> MessageQueue:
    """Choose as Java's SelectMessageQueueByHash does, so that producers of both languages agree."""
    code = java_hash(key)
    return queues[abs(code) % len(queues)]  # Java's remainder keeps the sign, whose absolute value it takes


class Rotation:
    """One queue after another of each topic; the first is chosen by chance, so that clients do not march in step."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._next: dict[str, int] = {}

    def next(self, queues: Sequence[MessageQueue]) -> MessageQueue:
        topic = queues[0].topic
        place = self._next.get(topic)
        if place is None:
            place = self._rng.randrange(len(queues))
        self._next[topic] = place + 1
        return queues[place % len(queues)]

    def pick(self, queues: Sequence[MessageQueue], fits: Callable[[MessageQueue], bool]) -> MessageQueue | None:
        """Return the next queue that fits; None if none does."""
        topic = queues[0].topic
        begin = self._next.get(topic, self._rng.randrange(len(queues)))
        for step in range(len(queues)):
            queue = queues[(begin + step) % len(queues)]
            if fits(queue):
                self._next[topic] = begin + step + 1
                return queue
        return None


def penalty_ms(latency_ms: float) -> int:
    return next(penalty for least, penalty in _PENALTIES_MS if latency_ms >= least)


class Latencies:
    """By broker name. Times are seconds of the monotonic clock."""

    def __init__(self) -> None:
        self._brokers: dict[str, tuple[float, float]] = {}  # latency in ms, and when it is available again
        self._turn = 0

    def sent(self, broker_name: str, latency_ms: float, now: float) -> None:
        penalty_s = 0.0 if latency_ms < _UNPUNISHED_MS else penalty_ms(latency_ms) / 1000
        self._brokers[broker_name] = latency_ms, now + penalty_s

    def failed(self, broker_name: str, now: float) -> None:
        self.sent(broker_name, FAILED_MS, now)

    def is_available(self, broker_name: str, now: float) -> bool:
        return now >= self._brokers.get(broker_name, (0.0, now))[1]

    def least_bad(self, broker_names: Iterable[str], now: float) -> str:
        """Return a broker where none is available: the faster half in turn, so that not all load falls on one."""
        ranked = sorted(broker_names, key=lambda name: self._rank(name, now))
        half = max(1, len(ranked) // 2)
        self._turn += 1
        return ranked[self._turn % half]

    def _rank(self, broker_name: str, now: float) -> tuple[bool, float, float]:
        latency_ms, available_at = self._brokers.get(broker_name, (0.0, now))
        return now < available_at, latency_ms, available_at
