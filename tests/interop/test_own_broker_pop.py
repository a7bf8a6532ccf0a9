"""Java's push consumers that let our broker assign their queues (`setClientRebalance(false)`) and pop, over kills."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from . import wire
from .conftest import OwnCluster, needed
from .peers import java
from .waiting import eventually

pytestmark = pytest.mark.interop

THREADS = 20  # of a Java consumer
POLLING_INFO, SET_MODE = 200055, 401
INVISIBLE_MS = 5_000  # the shortest that Java's client takes
# Clients look twice a second at what they shall do, not each 20 s.
IMPATIENT = ("-Drocketmq.client.rebalance.waitInterval=500", "-Drocketmq.client.rebalance.minInterval=100")


@pytest.fixture(scope="module")
def client(home: Callable[[str], Path]) -> Iterator[java.Client]:
    needed(java.runtime)
    needed(partial(java.classes, "5.5.0"))
    running = java.Client("5.5.0", home("pop-client"), jvm=[*java.QUICK, *IMPATIENT])
    yield running
    running.kill()


@pytest.fixture
def together() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


class Group:
    """A group on a topic of its own, and its Java members."""

    def __init__(self, client: java.Client, own: OwnCluster, together: ExitStack) -> None:
        self.client, self.own, self._together = client, own, together
        self.topic = own.new_topic(queues=4)
        self.name = f"GID_{self.topic}"
        self.members: list[java.Consuming] = []

    def set_mode(self, mode: str) -> None:
        body = f'{{"topic":"{self.topic}","consumerGroup":"{self.name}","mode":"{mode}","popShareQueueNum":0}}'
        with wire.Client(self.own.broker.address) as tool:
            assert tool.call(SET_MODE, body=body.encode()).code == 0

    def join(self, **more: int) -> java.Consuming:
        wanted = {"invisible": INVISIBLE_MS, **more}
        member = self.client.consuming("assigned", self.own.servers, self.topic, self.name, **wanted)
        self.members.append(self._together.enter_context(member))
        return member

    @property
    def waiting_pops(self) -> int:
        fields = {"topic": self.topic, "consumerGroup": self.name, "queueId": "-1"}
        return int(wire.ask(self.own.broker.address, POLLING_INFO, fields).fields["pollingNum"])

    def pops(self) -> None:
        eventually(lambda: self.waiting_pops >= len(self.members), f"all {len(self.members)} members pop")

    def pulls(self) -> None:
        eventually(lambda: self.waiting_pops == 0, "nobody pops any more")

        def owned() -> set[str]:
            return set(itertools.chain.from_iterable(one.owned() for one in self.members))

        eventually(lambda: len(owned()) == 4, "all queues are pulled", seen=owned)

    def send(self, prefix: str, count: int) -> list[str]:
        bodies = [f"{prefix}{number}" for number in range(count)]
        self.client.send_by("sync", self.own.servers, self.topic, bodies)
        return bodies

    def received(self) -> list[str]:
        return sorted(itertools.chain.from_iterable(member.bodies() for member in self.members))

    def have(self, bodies: list[str], *, exactly: bool = True) -> None:
        def missing() -> set[str]:
            return set(bodies) - set(self.received())

        eventually(lambda: not missing(), f"all {len(bodies)} have arrived", seen=missing)
        if exactly:
            assert self.received() == sorted(bodies)


@pytest.fixture
def group(client: java.Client, own: OwnCluster, together: ExitStack) -> Group:
    return Group(client, own, together)


def test_two_members_share_every_queue_by_popping(group: Group) -> None:
    group.set_mode("POP")
    first, second = group.join(pause=20), group.join(pause=20)
    group.pops()
    group.have(group.send("m", 200))
    assert first.bodies()
    assert second.bodies()
    queues = [{message["queue"] for message in member.received()} for member in (first, second)]
    assert queues == [{0, 1, 2, 3}] * 2


def test_what_fails_comes_again_and_is_counted(group: Group) -> None:
    group.set_mode("POP")
    member = group.join(failures=1)
    group.pops()
    bodies = group.send("f", 3)
    eventually(lambda: len(member.received()) == 6, "each comes twice", seen=member.received)
    times = [(message["body"], message["times"]) for message in member.received()]
    assert sorted(times) == sorted((body, count) for body in bodies for count in (0, 1))


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_nothing_is_lost_when_the_broker_goes_away_under_pops(group: Group, own: OwnCluster, end: str) -> None:
    group.set_mode("POP")
    for _ in range(2):
        group.join(pause=5)
    group.pops()
    sending = group.client.sending(own.servers, group.topic, "m")
    eventually(lambda: len(group.received()) > 50, "messages flow")
    for _ in range(2):
        wanted = len(sending.acknowledged()) + 50
        own.broker.stop() if end == "stop" else own.broker.kill()
        own.restart_broker()
        eventually(partial(has_acknowledged, sending, wanted), "the producer goes on")
    group.have(sending.stop(), exactly=False)
    group.pops()


def has_acknowledged(sending: java.Sending, count: int) -> bool:
    return len(sending.acknowledged()) >= count


def test_a_group_switched_from_pull_to_pop_and_back_repeats_nothing(group: Group) -> None:
    group.set_mode("PULL")
    for _ in range(2):
        group.join()
    group.pulls()
    sent = group.send("pulled-", 20)
    group.have(sent)
    for mode in ("POP", "PULL", "POP"):
        group.set_mode(mode)
        group.pops() if mode == "POP" else group.pulls()
        sent += group.send(f"{mode}{len(sent)}-", 20)
        group.have(sent)


def test_a_group_switched_under_load_loses_nothing_and_repeats_what_was_in_hand_alone(
    group: Group, own: OwnCluster
) -> None:
    """Java's client forgets what its threads are busy with when it stops pulling a queue: those messages come again."""
    group.set_mode("PULL")
    for _ in range(2):
        group.join(pause=2)
    group.pulls()
    sending = group.client.sending(own.servers, group.topic, "m")
    modes = ("POP", "PULL", "POP", "PULL")
    for mode in modes:
        wanted = len(sending.acknowledged()) + 50
        group.set_mode(mode)
        group.pops() if mode == "POP" else group.pulls()
        eventually(partial(has_acknowledged, sending, wanted), "messages flow")
    sent = sending.stop()
    group.have(sent, exactly=False)
    again = Counter(group.received()) - Counter(sent)
    most = THREADS * len(group.members) * modes.count("POP")
    assert again.total() <= most, again
