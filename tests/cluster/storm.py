"""One seed: a whole cluster under load, a storm of faults, a calm; what must be true all the time, and at the end."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from pyromq.ambient import seeded_random
from pyromq.coordination.store import CoordinationUnreachable
from pyromq.testing.coordination import CoordinationFaults
from tests.cluster.cluster import Cluster, run_cluster
from tests.cluster.history import ClientHistory, MessagePlace
from tests.cluster.log_checker import LogChecker
from tests.cluster.machines import BrokerMachine, MachineMember
from tests.cluster.workload import KEYED, LATER, PLAIN, POPPED, TRANSACTED, Workload
from tests.simulation.checker import Violation

STORM_S = 8.0
CALM_S = 120.0
LOOK_S = 0.02
EVENTS = (
    "kill", "kill", "kill", "power", "power", "all-power", "pause", "pause", "isolate", "one-way", "one-way", "mend",
    "mend", "store-cut", "mute", "quorum", "clock", "slow", "name-server", "stop",
)  # fmt: skip


@dataclass(frozen=True)
class StormResult:
    """What one seed gave. `trace` is equal for two runs of one seed."""

    seed: int
    trace: str
    violation: str | None
    acks: int
    elections: int
    virtual_s: float


class Storm:
    """See the file's head."""

    def __init__(self, cluster: Cluster, *, with_clocks: bool, with_late_changes: bool) -> None:
        self.cluster, self.rng, self.clock = cluster, cluster.rng, cluster.clock
        self.history = ClientHistory(times_sure=not with_clocks)
        self.logs = LogChecker(cluster.brokers)
        self.load = Workload(self.history, self.rng, self.clock.monotonic)
        self.acks_synced = cluster.settings["ha_ack_after_flush"]
        self._with_clocks, self._with_late_changes = with_clocks, with_late_changes
        self._hiccups = self.rng.choice([0.0, 0.0, 0.0002, 0.001])
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.kinds: tuple[str, ...] = ()

    # --- the run ------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        cluster = self.cluster
        cluster.store.on_change = self._look
        cluster.start()
        self._begin_clients()
        tasks = [asyncio.create_task(self._story()), asyncio.create_task(self._look_on())]
        try:
            await asyncio.wait([*tasks, self._over], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        for ended in (self._over, *tasks):
            if ended.done() and not ended.cancelled():
                ended.result()

    def _begin_clients(self) -> None:
        one, other = self.cluster.clients
        parts = self.load.parts(one.client)
        others = [KEYED, LATER, TRANSACTED, POPPED]
        self.kinds = (PLAIN, *self.rng.sample(others, 2))
        self._senders = [one.process.begin(parts[kind]()) for kind in self.kinds]
        self._seen: set[bytes] = set()
        read = tuple(kind for kind in self.kinds if kind != POPPED)
        other.process.begin(self.load.consume(other.client(), "readers", read, self._seen))
        if POPPED in self.kinds:
            other.process.begin(self.load.pop(other.client()))

    async def _look_on(self) -> None:
        while True:
            await self.clock.sleep(LOOK_S)
            self.logs.look()
            if self.history.violation is not None:
                raise self.history.violation
            for machine in self.cluster.brokers:
                if isinstance(machine.fault, CoordinationUnreachable):  # whoever starts it tries again
                    machine.fault = None
                    self._start_later(machine)
                elif machine.fault is not None:
                    raise machine.fault

    def _look(self) -> None:
        try:
            self.logs.look()
        except Violation as fault:
            if not self._over.done():
                self._over.set_exception(fault)

    async def _story(self) -> None:
        cluster = self.cluster
        await cluster.until(lambda: len(self.history.acked) > 5, 60, "the set begins to take sends")
        for machine in cluster.brokers:
            self._make_worse(machine)
        ends = self.clock.monotonic() + STORM_S
        while self.clock.monotonic() < ends:
            await self.clock.sleep(self.rng.random() * 1.2)
            self._strike()
        await self._calm_down()
        await self._check_end()

    def _make_worse(self, machine: BrokerMachine) -> None:
        if self._with_late_changes:
            machine.coordination.faults = CoordinationFaults(
                lost=0.02, unanswered=self.rng.choice([0.0, 0.1]), late=self.rng.choice([0.0, 0.1]), late_s=3.0
            )
        if machine.process is not None:
            machine.process.hiccups = self._hiccups

    async def _calm_down(self) -> None:
        cluster = self.cluster
        cluster.note("calm")
        self._mend()
        self._hiccups = 0.0
        for machine in cluster.brokers:
            machine.coordination.faults = CoordinationFaults()
            machine.clock.stand(False)
            if machine.process is not None:
                machine.process.hiccups = 0.0
            if not machine.is_up:
                machine.start()
        for names in cluster.name_servers:
            if not names.is_up:
                names.start()
        await cluster.until(lambda: cluster.is_whole, CALM_S, "the set is whole")
        count = len(self.history.acked)
        await cluster.until(lambda: len(self.history.acked) > count + 3, CALM_S, "sends are taken again")
        self.load.is_sending = False
        await cluster.until(self._all_came, CALM_S, "consumers get all that was promised")
        await self.clock.sleep(10.0)  # for half messages that are asked about, and delays

    def _all_came(self) -> bool:
        """Return whether consumers have got all that was acknowledged or committed so far."""
        history = self.history
        popped = {body for body, place in history.acked.items() if place.topic == POPPED}
        if history.times_sure and not popped <= history.popped:  # with a wrong clock it may be invisible for long
            return False
        return self._seen >= history.awaited - popped

    # --- the end ------------------------------------------------------------------------------------------------------

    async def _check_end(self) -> None:
        reader = self.cluster.clients[0]
        found = await reader.process.begin(self._read_all())
        self.cluster.note(f"{len(found)} messages, {len(self.history.acked)} acknowledged")
        self.history.check_end(found)
        self._check_offsets()
        self.logs.look()

    def _check_offsets(self) -> None:
        """Raise Violation for an offset that a group has committed behind the end of its queue."""
        master = self.cluster.master()
        if master is None or master.life is None:
            raise Violation("the set has no master when all is mended")
        broker = master.life.broker
        for topic in (kind for kind in self.kinds if kind != POPPED):
            committed = broker.offsets.queues(topic, f"readers-{topic}")
            ends = {queue.queue_id: queue.readable_end for queue in broker.store.queues.of_topic(topic)}
            if not committed:
                raise Violation(f"nothing is committed of {topic}, all of which was consumed")
            if beyond := {queue: offset for queue, offset in committed.items() if offset > ends.get(queue, 0)}:
                raise Violation(f"offsets {beyond} of {topic} are committed, and its queues end at {ends}")

    async def _read_all(self) -> dict[MessagePlace, bytes]:
        """Return all that is there, as a consumer reads it from the first to the last offset."""
        found: dict[MessagePlace, bytes] = {}
        client = self.cluster.clients[0].client()
        async with client, client.pull_consumer("auditor", begin="first", auto_commit=False) as consumer:
            for topic in self.kinds:
                queues = await consumer.queues(topic)
                await consumer.assign(queues)
                missing = {}
                for queue in queues:
                    await consumer.seek_to_end(queue)
                    missing[queue] = consumer.position(queue)
                    await consumer.seek_to_begin(queue)
                while any(missing.values()):
                    for message in await consumer.poll(timeout=2):
                        found[MessagePlace(topic, message.queue.queue_id, message.offset)] = message.body
                        if message.offset + 1 >= missing[message.queue]:
                            missing[message.queue] = 0
        return found

    # --- faults -------------------------------------------------------------------------------------------------------

    def _strike(self) -> None:
        master, brokers = self.cluster.master(), self.cluster.brokers
        victim = master if master is not None and self.rng.random() < 0.5 else self.rng.choice(brokers)
        event, length_s = self.rng.choice(EVENTS), self.rng.random() ** 2 * 6
        self.cluster.note(f"{event} {victim.host} {length_s:.3f}")
        network, hosts = self.cluster.network, [each.host for each in brokers if each is not victim]
        match event:
            case "kill" if victim.is_up:
                victim.kill()
                self._start_later(victim)
            case "stop" if victim.is_up and victim.stopping is not None:
                victim.stopping.set()
                self._start_later(victim)
            case "power" if self._may_lose_power():
                victim.cut_power()
                self._start_later(victim)
            case "all-power" if self.acks_synced:
                for each in brokers:
                    each.cut_power()
                    self._start_later(each)
            case "pause" if victim.process is not None:
                victim.process.pause(length_s)
            case "isolate":
                network.cuts |= {pair for host in hosts for pair in ((victim.host, host), (host, victim.host))}
            case "mute":  # hears the others, and is heard by nobody
                network.cuts |= {(victim.host, host) for host in hosts}
                victim.coordination.faults.is_reachable = False
            case "one-way":
                host = self.rng.choice([*hosts, *(each.host for each in self.cluster.clients)])
                network.cuts.add(self.rng.choice([(victim.host, host), (host, victim.host)]))
            case "store-cut":
                victim.coordination.faults.is_reachable = False
            case "quorum":
                self.cluster.store.has_quorum = not self.cluster.store.has_quorum
            case "clock" if self._with_clocks:
                self._spoil_clock(victim)
            case "slow":
                network.delay_s = self.rng.choice([0.0005, 0.005, 0.05])
            case "name-server":
                names = self.rng.choice(self.cluster.name_servers)
                names.kill() if names.is_up else names.start()
            case "mend":
                self._mend()

    def _may_lose_power(self) -> bool:
        """Return whether one machine's power cut can lose nothing: the others have it all, and keep it."""
        if self.acks_synced:
            return True
        lives = [each.life for each in self.cluster.brokers if each.is_up]
        return (
            len(lives) == len(self.cluster.brokers)
            and self.cluster.is_whole
            and all(life is not None and not life.note.is_amnesiac for life in lives)
        )

    def _spoil_clock(self, victim: BrokerMachine) -> None:
        match self.rng.choice(["rate", "jump", "stand"]):
            case "rate":
                victim.clock.run_at(self.rng.choice([0.5, 1.0, 2.0]))
            case "jump":
                victim.clock.jump(self.rng.choice([-3600, -5, 5, 3600]))
            case "stand":
                victim.clock.stand(True)

    def _start_later(self, victim: BrokerMachine) -> None:
        self.clock.call_later(self.rng.random() * 3 + 0.01, self._start, victim)

    def _start(self, victim: BrokerMachine) -> None:
        if not victim.is_up:
            self.cluster.note(f"start {victim.host}")
            victim.start()
            if victim.process is not None:
                victim.process.hiccups = self._hiccups
        elif victim.stopping is not None and victim.stopping.is_set():
            self._start_later(victim)

    def _mend(self) -> None:
        self.cluster.network.cuts.clear()
        self.cluster.network.delay_s = 0.0005
        self.cluster.store.has_quorum = True
        for machine in self.cluster.brokers:
            machine.coordination.faults.is_reachable = True
            machine.clock.run_at(1.0)


def run_storm(seed: int, kind: type[MachineMember] = MachineMember) -> StormResult:
    """Run one seed to its end, or to the first promise that is broken."""
    rng = seeded_random(seed)
    settings: dict[str, Any] = {
        "ha_ack_after_flush": rng.random() < 0.3,
        "commit_log_file_bytes": rng.choice([1 << 20, 1 << 20, 1 << 16]),
        "duplicate_window_enable": True,
        "transaction_check_interval": 1500,
        "transaction_time_out": 1000,
    }
    with_clocks, with_late_changes = rng.random() < 0.25, rng.random() < 0.4

    async def main(cluster: Cluster) -> StormResult:
        for machine in cluster.brokers:
            machine.kind = kind
        storm = Storm(cluster, with_clocks=with_clocks, with_late_changes=with_late_changes)
        violation = None
        try:
            await storm.run()
        except Exception as fault:  # a part of the product that raises is found, too
            violation = f"{type(fault).__name__}: {fault}"
        cluster.note(f"{violation} {len(storm.logs.confirmed)}")
        return StormResult(
            seed, cluster.trace, violation, len(storm.history.acked), storm.logs.elections, cluster.clock.monotonic()
        )

    return run_cluster(seed, main, **settings)
