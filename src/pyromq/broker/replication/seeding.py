"""`pyromq store seed` from a running master: its log is taken into a new slave's store, as a slave takes it.

Each record is checked, queues and index are written, what was broken off goes on where it ended. When the log is here
up to where the master's ended at the beginning, the last record is compared with the master's. Tables are not taken:
a slave gets all of them when its stream begins.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace

from ...ambient import Clock, Random
from ...errors import PyroError
from ...machine.helper_threads import helper_threads
from ...model.wire_text import whole_number
from ...protocol.headers.replication import ExchangeHaInfo
from ...protocol.requests import RequestCode as Code
from ...store.config import StoreConfig
from ...store.files.real_disk import RealDisk
from ...store.log.thread_flusher import thread_flusher
from ...store.message_store import MessageStore
from ...transport.client import Connect, RemotingClient
from ..metadata.attributes import has_batch_queues
from ..registration import Identity
from .asking import ask, masters_topics
from .following import joining
from .following.follower import Follower, FollowSettings, MasterPlace
from .following.joining import CannotFollow, MastersLog

POLL_S = 0.2
GIVE_UP_S = 30.0  # without a byte
_THREADS = 2

Progress = Callable[[int, int], None]  # bytes that are here, bytes in all


@dataclass(frozen=True, slots=True)
class MasterSource:
    """A master to take the log from, and what it says of itself."""

    place: MasterPlace
    log: MastersLog
    settings: Mapping[str, str]  # by Java's names
    batch_topics: frozenset[str]

    @property
    def bytes(self) -> int:
        return self.log.end - self.log.start

    def store_config(self) -> StoreConfig:
        """Return the master's sizes of files and levels of delays: those of a slave are the same."""
        told = {name: whole_number(self.settings.get(name)) for name in StoreConfig().file_sizes}
        config = StoreConfig().with_file_sizes({name: size for name, size in told.items() if size is not None})
        levels = self.settings.get("messageDelayLevel")
        return replace(config, message_delay_level=levels) if levels else config


async def find_source(client: RemotingClient, address: str, ha_address: str | None) -> MasterSource:
    """Ask a master about itself. CallFailed, CallRefused, Malformed; CannotFollow: it is no master."""
    _, settings = await ask(client, address, Code.GET_BROKER_CONFIG)
    _, runtime = await ask(client, address, Code.GET_BROKER_RUNTIME_INFO)
    master, told = joining.masters_log(address, settings, runtime.table), joining.read_settings(settings)
    if master.role == "SLAVE":
        raise CannotFollow(f"{address} is a slave itself: name its master")
    if ha_address is None:
        header, _ = await ask(client, address, Code.EXCHANGE_BROKER_HA_INFO, ExchangeHaInfo())
        ha_address = header.master_ha_address
    if not ha_address:
        raise CannotFollow(f"{address} does not say where its HA port is: name it with --ha")
    topics = await masters_topics(client, address)
    batch_topics = frozenset(name for name, topic in topics.entries.items() if has_batch_queues(topic.attributes))
    return MasterSource(MasterPlace(address, ha_address), master, told, batch_topics)


@dataclass(slots=True, eq=False, repr=False)
class Seeding:
    """Event loop only. The store is this process's alone, and closed whatever happens."""

    disk: RealDisk
    config: StoreConfig
    client: RemotingClient
    connect: Connect
    clock: Clock
    rng: Random

    async def take(self, source: MasterSource, progress: Progress) -> tuple[int, int]:
        """Take the log up to where the master's ended when it was asked. Return where it begins and ends here."""
        async with AsyncExitStack() as stack:
            run_blocking = stack.enter_context(helper_threads(_THREADS))
            flusher = thread_flusher(self.disk)
            store = MessageStore(
                self.disk, self.config, self.clock, run_blocking, source.batch_topics.__contains__, flusher
            )
            stack.callback(store.close)
            store.take_from_master_only()
            follower = self._follower(store, source)
            async with asyncio.TaskGroup() as tasks:
                running = [tasks.create_task(follower.run()), tasks.create_task(store.run())]
                try:
                    await self._until_all_is_here(store, follower, source, progress)
                    await store.flush_log()
                finally:
                    for task in running:
                        task.cancel()
            await follower.compare_last(source.log)
            return store.commit_log.start, store.commit_log.end

    def _follower(self, store: MessageStore, source: MasterSource) -> Follower:
        own = Identity(cluster=source.log.cluster, broker_name=source.log.broker_name, address="", broker_id=1)
        return Follower(
            store=store,
            identity=own,
            client=self.client,
            connect=self.connect,
            clock=self.clock,
            rng=self.rng,
            settings=FollowSettings(),
            find=lambda: source.place,
            look=lambda: None,
            no_master=lambda: "",
        )

    async def _until_all_is_here(
        self, store: MessageStore, follower: Follower, source: MasterSource, progress: Progress
    ) -> None:
        log, grown_at, before = store.commit_log, self.clock.monotonic(), -1
        while log.end < source.log.end:
            if follower.stopped is not None:
                raise CannotFollow(follower.stopped)
            now = self.clock.monotonic()
            if log.end != before:
                grown_at, before = now, log.end
            elif now - grown_at > GIVE_UP_S:
                raise NothingComes(
                    f"nothing has come from {source.place.ha_address} for {GIVE_UP_S:g} s ({follower.state}). May this "
                    "machine connect there (haAllow of the master)? What is here stays: the same command goes on"
                )
            progress(max(0, log.end - source.log.start), source.bytes)
            await self.clock.sleep(POLL_S)
        progress(source.bytes, source.bytes)


class NothingComes(PyroError):
    """A master does not send its log."""
