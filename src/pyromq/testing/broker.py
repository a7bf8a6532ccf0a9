"""A whole name server and broker for tests: in this process, on a disk in memory, its clock in the test's hand.

    async def test_delay(rmq_broker, rmq_client):
        await rmq_client.send("mail", b"x", delay=3600)
        await rmq_broker.clock.advance(hours=1)
        assert await rmq_client.receive_one("mail", group="t")

The real ones, not stand-ins: groups, offsets, retries, timers, transactions work as in production, and survive
`restart` and `kill`. Clients made here reach it through memory; other programs through its sockets on loopback.
"""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from contextlib import AsyncExitStack
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Unpack

from .. import logs
from ..ambient import seeded_random, usual_clock
from ..broker.config import BrokerConfig
from ..client.arguments import check_count, check_topic
from ..client.client import Client
from ..client.config import ClientConfig
from ..client.consume.push_consumer import PushConsumer
from ..client.keywords import ClientSettings
from ..client.middleware import Middleware
from ..config import Loaded
from ..model import names
from ..model.message import StoredMessage
from ..namesrv.config import NamesrvConfig
from ..namesrv.server import NameServer
from ..protocol.bodies.topics import TopicConfig
from ..protocol.messages import unwrap
from ..store.message_store import run_at_once
from ..transport.memory import MemoryNetwork
from .clock import ManualClock
from .faults import Faults
from .in_process import SMALL_FILES, InProcessBroker, virtual_loops
from .settling import NotSettled, Settling
from .simulated_disk import SimulatedDisk

log = logs.get("pyromq.testing")

PATIENCE_S = 5.0
STOP_S = 600.0  # of virtual time, for a stop whose handlers have had their grace
FOUND_AGAIN_S = 5.0  # of virtual time: clients do not try to connect more often than every few seconds
FLUSHES_PER_CLEANING = 6
SETTINGS: dict[str, Any] = SMALL_FILES | {
    "broker_name": "broker-a",
    "listen_port": 0,
    "fast_listen_port": 0,
    "max_loop_lag_ms": 1 << 40,  # hours pass in one turn here
    "recall_message_enable": True,
}

ToItsEnd = Callable[[Coroutine[Any, Any, None], str, float], Awaitable[None]]


class RmqBroker:
    """Event loop only. Used by `async with`, or as the fixture `rmq_broker`."""

    def __init__(self, **settings: Any) -> None:
        _check_names(settings)
        self.clock = ManualClock()
        self.clock.quiet = self.settle
        self.network = MemoryNetwork()
        self.disk = SimulatedDisk(now_ms=self.clock.now_ms)
        self.faults = Faults(self.clock, lambda: self.disk, lambda: self.broker)
        self._rng = seeded_random(1)
        self._settings = SETTINGS | settings
        self._clients: list[Client] = []
        self._stack = AsyncExitStack()
        self.waiting_handlers = 0  # those of `receive`, which wait for the test
        self.patience_s: float | None = PATIENCE_S  # of real time, for handlers that wait for the outside; None: none
        self._is_ending = False
        self._settling = Settling(lambda: self.network.is_quiet, self._handlers_run, self.hold.__code__)

    # --- start and stop -------------------------------------------------------------------------------------------

    async def __aenter__(self) -> RmqBroker:
        folder = Path(self._stack.enter_context(TemporaryDirectory(prefix="pyromq-test-")))  # its overlay of settings
        self._names = NameServer(
            Loaded(NamesrvConfig(kv_config_path=folder / "kv.json", listen_port=0)),
            clock=self.clock,
            rng=self._rng,
            run_blocking=run_at_once,
            connect=self.network.connect,
        )
        self.namesrv = await self._names.listen()
        self.network.listen(self.namesrv, self._names.server.attach)
        self._config = BrokerConfig(**self._settings, store_path_root_dir=folder, namesrv_addr=(self.namesrv,))
        await self._start()
        self._stack.enter_context(usual_clock.replaced_by(self.clock))
        return self

    async def __aexit__(self, *_: object) -> None:
        self._is_ending = True
        try:
            for client in self._clients:
                await self._while_time_passes(client.stop())
            await self._end_life(self._life.stop())
            await self._while_time_passes(self._names.stop())
        finally:
            await self._stack.aclose()

    async def _start(self) -> None:
        self._life = await InProcessBroker.start(
            self._config,
            clock=self.clock,
            disk=self.disk,
            connect=self.network.connect,
            faults=self.faults,
            loops=virtual_loops(FLUSHES_PER_CLEANING),
        )
        self.broker, self.address = self._life.broker, self._life.address
        self._config = replace(self._config, listen_port=int(self.address.rpartition(":")[2]))
        self.network.listen(self.address, self.broker.servers[0].attach)
        await self.settle()

    async def _end_life(self, end: Coroutine[Any, Any, None]) -> None:
        self.network.unlisten(self.address)
        await self._while_time_passes(end)

    async def restart(self) -> None:
        """Stop cleanly and start on the same disk and port. Takes 5 s of the clock: clients find it again."""
        await self._end_life(self._life.stop())
        await self._start()
        await self.clock.advance(FOUND_AGAIN_S)

    async def kill(self) -> None:
        """Kill as `kill -9` does, then start on what the disk has. Takes 5 s of the clock, too."""
        await self._end_life(self._life.kill())
        self.disk = self.disk.kill()
        await self._start()
        await self.clock.advance(FOUND_AGAIN_S)

    async def _while_time_passes(self, work: Coroutine[Any, Any, None]) -> None:
        """Advance the clock until the work is done: what is being stopped may wait for its own time-outs."""
        task = asyncio.get_running_loop().create_task(work)
        await self.settle()
        while not task.done():
            await self.clock.advance(1)
        task.result()

    async def _to_its_end(self, stop: Coroutine[Any, Any, None], group: str, grace_s: float) -> None:
        """Await a consumer's stop, letting time go on by itself once nobody has moved it for `patience_s` of real time.

        The stop gives handlers time of a clock that the test cannot move while it waits for the stop.
        """
        if self._is_ending:
            await stop  # time passes already
            return
        task = asyncio.get_running_loop().create_task(stop)
        patience_s = PATIENCE_S if self.patience_s is None else self.patience_s
        try:
            seen = -1.0
            while seen < self.clock.monotonic() and not task.done():  # the test may move it, from another task
                seen = self.clock.monotonic()
                await self._settling.over(task, patience_s)
            if not task.done():
                await self._pass_grace(task, group, grace_s)
        finally:
            task.cancel()  # who waited here was cancelled, or it does not end
        task.result()

    async def _pass_grace(self, task: asyncio.Task[None], group: str, grace_s: float) -> None:
        where = self._settling.handlers()
        log.warning("a stop waits for handlers: the clock goes on by itself", group=group, grace_s=grace_s, where=where)
        kept, self.patience_s = self.patience_s, None
        until = self.clock.monotonic() + grace_s + STOP_S
        try:
            while not task.done():
                if self.clock.monotonic() > until:
                    raise NotSettled(f"group {group!r} does not stop, its handlers were cancelled: {where}")
                await self.clock.advance(1)
        finally:
            self.patience_s = kept

    # --- clients --------------------------------------------------------------------------------------------------

    async def client(self, *, middleware: Sequence[Middleware] = (), **settings: Unpack[ClientSettings]) -> Client:
        """Return a client on this clock that is stopped with the broker."""
        own: dict[str, Any] = {"name_servers": (self.namesrv,), "instance": f"t{len(self._clients)}", **settings}
        config = ClientConfig(**own)
        client = Client(
            config,
            clock=self.clock,
            rng=self._rng,
            connect=self.network.connect,
            middleware=middleware,
            make_consumer=partial(_BroughtToEnd, self._to_its_end),
        )
        await client.start()
        self._clients.append(client)
        return client

    async def settle(self) -> None:
        """Wait until requests, replies, flushes and handlers that are under way have ended, but for the clock's.

        NotSettled if something does not end within `patience_s` of real time.
        """
        waits = await self._settling.settled(self.patience_s)
        self._life.check_loops()
        if waits and not self._is_ending:
            raise NotSettled(
                f"still under way after {self.patience_s:g} s of real time: {'; '.join(waits)}. Wait for it by the "
                "broker's clock, give it more time (rmq_broker.patience_s = 30), or leave it alone (= None)"
            )
        if waits:
            log.warning("a handler still runs, the end goes on without it", where="; ".join(waits))
            self.patience_s = None

    async def hold(self, received: asyncio.Event) -> None:
        """Let a handler wait until the test has received its message. Time may go on meanwhile."""
        self.waiting_handlers += 1
        try:
            await received.wait()
        finally:
            self.waiting_handlers -= 1

    def _handlers_run(self) -> bool:
        return sum(client.running_handlers for client in self._clients) > self.waiting_handlers

    # --- what it holds -----------------------------------------------------------------------------------------------

    async def create_topic(self, topic: str, queues: int = 4, **attributes: str) -> None:
        """Create a topic that the name server knows when this returns. Error, if its name or the number is none."""
        check_topic(topic)
        check_count("queues", queues, example=4)
        self.broker.topics.put(
            TopicConfig(topic_name=topic, read_queue_nums=queues, write_queue_nums=queues, attributes=attributes)
        )
        await self.settle()

    @property
    def topics(self) -> list[str]:
        return sorted(self.broker.topics.all())

    @property
    def groups(self) -> list[str]:
        return sorted(self.broker.groups.all())

    def messages(self, topic: str) -> list[StoredMessage]:
        """Return everything that a topic holds, in the order in which it was stored; `%DLQ%group` works too.

        LookupError, if there is no such topic, or group.
        """
        self._check_there(topic)
        found: list[StoredMessage] = []
        for queue in self.broker.store.queues.of_topic(topic):
            for offset in range(queue.min_offset, queue.readable_end):
                entry = queue.entry_at(offset)
                record = None if entry is None else self.broker.store.reader.record_at(entry.position)
                found += [] if record is None else unwrap(record)
        return sorted(found, key=lambda message: message.physical_offset)

    def lag(self, topic: str, group: str) -> int:
        """Return how many messages the group has not committed yet. LookupError, if there is no such topic."""
        self._check_there(topic)
        done = self.broker.offsets.queues(topic, group)
        queues = self.broker.store.queues.of_topic(topic)
        places = [(queue.readable_end, max(queue.min_offset, done.get(queue.queue_id, 0))) for queue in queues]
        return sum(max(0, end - committed) for end, committed in places)

    def _check_there(self, topic: str) -> None:
        """Raise LookupError for a topic that is not there: a mistyped name would pass as an empty one."""
        group = topic.removeprefix(names.DLQ_PREFIX).removeprefix(names.RETRY_PREFIX)
        if topic in self.broker.topics.all() or (group != topic and group in self.groups):
            return  # that of a group is made when it is needed
        known = self.topics if group == topic else [topic.removesuffix(group) + each for each in self.groups]
        near = difflib.get_close_matches(topic, known, n=1, cutoff=0.5)
        raise LookupError(f"there is no topic {topic!r}" + (f": did you mean {near[0]!r}?" if near else ""))


class _BroughtToEnd(PushConsumer):
    """A consumer whose stop comes to an end although the clock stands: the broker lets time go on where nobody does."""

    def __init__(self, to_its_end: ToItsEnd, *rest: Any) -> None:
        super().__init__(*rest)
        self._to_its_end = to_its_end

    async def _finish(self) -> None:
        await self._to_its_end(super()._finish(), self.group, self.options.grace_s)


def _check_names(settings: Collection[str]) -> None:
    known = [field.name for field in fields(BrokerConfig)]
    for name in settings:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]!r}?" if near else "see docs/configuration.md, in Python's spelling"
            raise TypeError(f"the broker has no setting {name!r}: {hint}")
