"""The readable queues of a topic on all brokers, as the broker needs them that assigns queues to consumers.

Its own queues are known; those of other brokers come from the name servers' route, which is asked for again every
`loadBalancePollNameServerInterval`. Asked by `assignment.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from .... import logs
from ....ambient import Clock
from ....errors import PyroError
from ....model.topic import Perm
from ....protocol.bodies.keyed import MessageQueue
from ....protocol.bodies.route import TopicRouteData
from ...metadata.topics import Topics

log = logs.get("pyromq.broker")

MOST_ROUTES = 10_000  # that are remembered
MOST_QUEUES = 100_000  # of one topic, whatever a route says

# Ask the name servers for a topic's route. None: they do not know the topic. PyroError: none of them answers.
AskRoute = Callable[[str], Awaitable[TopicRouteData | None]]
Queues = tuple[MessageQueue, ...]


@dataclass(slots=True, eq=False, repr=False)
class TopicRoutes:
    """Event loop only. `ask` is None where there is no name server: then the own queues are all there are."""

    topics: Topics
    broker_name: str
    clock: Clock
    ask: AskRoute | None
    _others: dict[str, tuple[float, Queues]] = field(default_factory=dict)  # when it was asked, queues of others
    _asking: dict[str, asyncio.Task[bool]] = field(default_factory=dict)

    def fresh(self, topic: str, interval_s: float) -> Queues | None:
        """Return the queues in Java's order, if nobody needs to be asked for them."""
        if self.ask is None:
            return self._with_own(topic, ())
        known = self._others.get(topic)
        if known is None or self.clock.monotonic() - known[0] >= interval_s:
            return None
        return self._with_own(topic, known[1])

    async def fetch(self, topic: str) -> Queues | None:
        """Ask for the route, once for all who wait. None: where the queues are is unknown, or the topic is."""
        task = self._asking.get(topic)
        if task is None:
            task = self._asking[topic] = asyncio.create_task(self._fetch(topic))
            task.add_done_callback(lambda _: self._asking.pop(topic, None))
        if not await asyncio.shield(task) and topic not in self._others:
            return None
        known = self._others.get(topic)
        return self._with_own(topic, () if known is None else known[1]) or None

    async def _fetch(self, topic: str) -> bool:
        """Note what the name servers say. False: none of them answers, and what was known before stays."""
        assert self.ask is not None
        try:
            route = await self.ask(topic)
        except PyroError as fault:
            log.warning("the route of a topic is not known, its queues stay as they were", topic=topic, why=str(fault))
            return False
        if route is None:
            self._others.pop(topic, None)
            return True
        self._others[topic] = self.clock.monotonic(), self._queues(topic, route)
        if len(self._others) > MOST_ROUTES:
            del self._others[next(iter(self._others))]
        return True

    def _queues(self, topic: str, route: TopicRouteData) -> Queues:
        parts = [one for one in route.queue_datas if one.perm & Perm.READ and one.broker_name != self.broker_name]
        if sum(max(0, one.read_queue_nums) for one in parts) > MOST_QUEUES:
            log.warning("a route names more queues than are believed, it is not used", topic=topic)
            return ()
        return tuple(
            MessageQueue(broker_name=one.broker_name, queue_id=number, topic=topic)
            for one in parts
            for number in range(one.read_queue_nums)
        )

    def _with_own(self, topic: str, others: Queues) -> Queues:
        config = self.topics.find(topic)
        count = 0 if config is None or not config.perm & Perm.READ else config.read_queue_nums
        own = (MessageQueue(broker_name=self.broker_name, queue_id=number, topic=topic) for number in range(count))
        return tuple(sorted((*own, *others)))
