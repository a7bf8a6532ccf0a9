"""Short stories over a change of masters: clients begin something, their master is struck, another one leads.

story = Story(cluster)
await story.begin()             # the set is whole and takes sends
...                             # what clients do
await story.strike("pause")     # another master leads; the old one comes back later, or goes on where it stood
...
await story.end()               # the set is whole, and all logs are the same, byte by byte
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from pyromq.client.errors import Error
from tests.cluster.cluster import Cluster
from tests.cluster.machines import BrokerMachine

STRIKES = ("kill", "pause")  # a dead master says nothing more; one that stood still thinks that it leads, and goes on
PAUSED_S = 7.0  # longer than a lease


class Story:
    """Event loop only. Clients' parts are tasks of a client machine's process."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.clock = cluster, cluster.clock
        self.process = cluster.clients[0].process
        self._struck: BrokerMachine | None = None

    @property
    def now(self) -> float:
        return self.clock.monotonic()

    async def begin(self) -> None:
        self.cluster.start()
        await self.cluster.until(lambda: self.cluster.is_whole, 20, "the set is whole")

    async def strike(self, how: str) -> None:
        """Take the master away, and return once another one leads."""
        before, master = self.cluster.recorded(), self.cluster.master()
        assert before is not None
        assert master is not None
        assert master.process is not None
        self._struck = master
        if how == "kill":
            master.kill()
        else:
            master.process.pause(PAUSED_S)

        def another_leads() -> bool:
            now, machine = self.cluster.recorded(), self.cluster.master()
            return now is not None and now.epoch > before.epoch and machine not in (None, master)

        await self.cluster.until(another_leads, 20, "another one leads")

    async def end(self) -> None:
        assert self._struck is not None
        if not self._struck.is_up:
            self._struck.start()
        await self.cluster.until(lambda: self.cluster.is_whole, 30, "who was struck is in the set again")
        await self.cluster.until(self._all_have_the_same, 30, "all replicas have the same log")

    def _all_have_the_same(self) -> bool:
        lives = [each.life for each in self.cluster.brokers]
        logs = [life.store.commit_log for life in lives if life is not None and life.is_open]
        if len({(log.start, log.end) for log in logs}) > 1 or len(logs) < len(lives):
            return False
        contents = {log.read(log.start, log.end - log.start) for log in logs}
        assert len(contents) == 1
        return True

    def read(self, topic: str) -> list[tuple[bytes, float]]:
        """Let a group read a topic from its first message on; return the list of what comes, and when, as it grows."""
        found: list[tuple[bytes, float]] = []
        reader = self.cluster.clients[1]

        async def read_on() -> None:
            client = reader.client()
            async with client, client.pull_consumer(f"readers-{topic}", begin="first") as consumer:
                is_assigned = False
                while True:
                    with suppress(Error):  # name servers do not know the topic yet, or the broker is away
                        if not is_assigned:
                            await consumer.assign(await consumer.queues(topic))
                            is_assigned = True
                        found.extend((message.body, self.now) for message in await consumer.poll(timeout=1))
                        continue
                    await self.clock.sleep(0.5)

        reader.process.begin(read_on())
        return found

    async def until(self, is_so: Callable[[], bool], what: str) -> None:
        """Let time pass until something is so, and some more: whatever comes too much would come then."""
        await self.cluster.until(is_so, 90, what)
        await self.clock.sleep(4.0)
