"""Topics that are not there yet, made for sends with an order key: on all brokers first, and then the send.

If the send itself made the topic, on its own broker, the number of queues would grow when the next broker makes it too,
and the second message of a key would go to another queue than the first. The session asks for it. A send without a key
makes its topic by being sent, as with Java's clients; if a key follows soon, the topic is completed first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from ... import logs
from ...ambient import Clock
from ...model.codes import ResponseCode
from ...protocol.bodies.topics import TopicConfig
from ...protocol.headers.admin import CreateTopic
from ...protocol.headers.header import TopicName
from ...protocol.requests import RequestCode
from ..core.routing import Route
from ..errors import Error, NoBroker, TimedOut, TopicNotFound
from .answers import Answer, bad_order

log = logs.get("pyromq.client")

KNOWN_AFTER_S = 10.0  # brokers tell name servers of a new topic at once
SENT_LATELY_S = 10.0  # later the topic counts as it is: other clients have keys in its queues by then
_PAUSE_S = 0.02


@dataclass(slots=True, eq=False)
class KeyedTopics:
    """Event loop only. All who wait for the same topic wait for one making.

    `read_route` asks a name server, `learn` is given the route of a topic that was made.
    """

    clock: Clock
    ask: Callable[..., Awaitable[Answer[Any, Any]]]
    read_route: Callable[[str], Awaitable[Route]]
    learn: Callable[[Route], None]
    _made: dict[str, asyncio.Task[Route]] = field(default_factory=dict)
    # What a send without a key was sent by, and until when: its topic may be on some of these brokers only.
    _sent: dict[str, tuple[Route, float]] = field(default_factory=dict)

    def note_sent(self, wanted: Route) -> None:
        """Note that a send without a key makes the topic, on one broker of the route."""
        now = self.clock.monotonic()
        self._sent = {topic: one for topic, one in self._sent.items() if one[1] > now}
        self._sent[wanted.topic] = wanted, now + SENT_LATELY_S

    def may_be_partial(self, topic: str) -> bool:
        return topic in self._sent

    async def complete(self, route: Route) -> Route:
        """Return the route. If a send of ours has just made the topic on some of its brokers, make it on all first."""
        wanted, until = self._sent.get(route.topic, (route, 0.0))
        if route.writers >= wanted.writers or self.clock.monotonic() >= until:
            self._sent.pop(route.topic, None)
            return route
        made = await self.make(wanted)
        return route if made is wanted else made

    def being_made(self, topic: str) -> asyncio.Task[Route] | None:
        return self._made.get(topic)

    async def make(self, wanted: Route) -> Route:
        """Make the topic as `wanted` on all its brokers. Return its route once the name servers have all of it.

        Where no broker lets us make it, `wanted` is returned: the send makes the topic then.
        """
        topic = wanted.topic
        task = self._made.get(topic)
        if task is None:
            task = self._made[topic] = asyncio.get_running_loop().create_task(self._make(wanted))
            task.add_done_callback(lambda done: self._ended(topic, done))
        return await asyncio.shield(task)

    def _ended(self, topic: str, done: asyncio.Task[Route]) -> None:
        del self._made[topic]
        self._sent.pop(topic, None)
        if not done.cancelled():
            done.exception()  # whoever still waits gets it

    async def _make(self, wanted: Route) -> Route:
        names = sorted(wanted.writers)
        having = await asyncio.gather(*(self._make_on(name, wanted) for name in names))
        made = {name for name, has_it in zip(names, having, strict=True) if has_it}
        if not made:
            return wanted
        try:
            async with self.clock.timeout(KNOWN_AFTER_S):
                route = await self._route_with(wanted.topic, made)
        except TimeoutError:
            raise TimedOut(f"{wanted.topic!r} was made, and no name server knows it on {sorted(made)} yet") from None
        self.learn(route)
        return route

    async def _make_on(self, broker_name: str, wanted: Route) -> bool:
        """Return whether this broker has the topic now. One that it has already stays as it is."""
        topic, address = wanted.topic, wanted.master(broker_name)
        queues = sum(queue.broker_name == broker_name for queue in wanted.writable)
        config = TopicConfig(topic_name=topic, read_queue_nums=queues, write_queue_nums=queues)
        either = (ResponseCode.SUCCESS, ResponseCode.TOPIC_NOT_EXIST)
        try:
            known = await self.ask(address, RequestCode.GET_TOPIC_CONFIG, TopicName(topic=topic), expected=either)
            if known.code == ResponseCode.TOPIC_NOT_EXIST:
                await self.ask(address, RequestCode.UPDATE_AND_CREATE_TOPIC, CreateTopic.of(config))
        except Error as fault:
            log.warning("a topic for order keys is not made on a broker", topic=topic, broker=broker_name, fault=fault)
            return False
        return True

    async def _route_with(self, topic: str, brokers: set[str]) -> Route:
        while True:
            try:
                route = await self.read_route(topic)
            except (TopicNotFound, NoBroker):
                pass
            else:
                if route.write_fault:
                    raise bad_order(route)
                if route.writers >= brokers:
                    return route
            await self.clock.sleep(_PAUSE_S)
