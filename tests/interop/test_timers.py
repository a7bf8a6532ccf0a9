"""Any-time delivery and recall on real time with Java's client; and a store with what waits, from broker to broker."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from . import wire
from .conftest import OwnCluster, is_known
from .peers import java, ours
from .timed import Stored, cluster, delivered, send_timed, stored
from .waiting import eventually

pytestmark = pytest.mark.interop

SETTERS = {"setDelayTimeSec": 2, "setDelayTimeMs": 1500, "setDeliverTimeMs": 1700}


@pytest.fixture(scope="module")
def timed(home: Callable[[str], Path]) -> Iterator[OwnCluster]:
    with cluster(home, "timers", recallMessageEnable="true") as running:
        yield running


@pytest.mark.parametrize("setter", list(SETTERS))
def test_none_is_early(timed: OwnCluster, java_client: Callable[..., java.Client], setter: str) -> None:
    topic, value = timed.new_topic(), SETTERS[setter]
    bodies = [f"{setter}{number}" for number in range(5)]
    sent = send_timed(java_client("5.5.0"), timed.servers, topic, bodies, set=setter, value=value)
    assert stored(timed.broker.address, topic) == []
    held = {one.body: one for one in delivered(timed.broker.address, topic, len(bodies))}
    waits = value * 1000 if setter == "setDelayTimeSec" else value
    for body, one in zip(bodies, sent, strict=True):
        assert held[body].store_ms >= one["sent"] + waits
        assert held[body].properties["UNIQ_KEY"] == one["id"]


def test_a_consumer_gets_it(timed: OwnCluster, java_client: Callable[..., java.Client]) -> None:
    topic = timed.new_topic()
    client = java_client("5.5.0")
    with client.consuming("push", timed.servers, topic, f"G_{topic}") as consumer:
        send_timed(client, timed.servers, topic, ["a", "b"], set="setDelayTimeMs", value=1200)
        eventually(lambda: sorted(consumer.bodies()) == ["a", "b"], "both were consumed")


@pytest.mark.parametrize("kind", ["", "NORMAL", "DELAY"])
def test_recall(timed: OwnCluster, java_client: Callable[..., java.Client], kind: str) -> None:
    topic = timed.new_topic(kind=kind)
    client = java_client("5.5.0")
    sent = send_timed(client, timed.servers, topic, ["gone", "stays"], set="setDelayTimeMs", value=4000)
    found = client.do("recall", servers=timed.servers, topic=topic, handle=sent[0]["handle"])
    assert found == sent[0]["id"]
    held = delivered(timed.broker.address, topic, 1)
    assert [one.body for one in held] == ["stays"]
    with pytest.raises(Exception, match="too late"):
        client.do("recall", servers=timed.servers, topic=topic, handle=sent[1]["handle"])


def test_beyond_the_limit_is_refused_as_java_refuses_it(
    timed: OwnCluster, java_client: Callable[..., java.Client]
) -> None:
    topic = timed.new_topic()
    with pytest.raises(Exception, match=r"CODE: 13.*timer message illegal"):
        send_timed(java_client("5.5.0"), timed.servers, topic, ["x"], set="setDelayTimeSec", value=259_201)


def test_kills_of_our_broker_lose_and_repeat_nothing(home: Callable[[str], Path]) -> None:
    """Real time, real files: killed with -9 while messages come due, twice."""
    with cluster(home, "timer-kills", timerFlushIntervalMs="300") as running:
        broker = running.broker
        wire.create_topic(broker.address, "Swap", 1)
        begun = int(time.time() * 1000)
        delays = {f"m{number}": 500 + number * 220 for number in range(30)}
        for body, delay_ms in delays.items():
            send(broker.address, "Swap", body, delay_ms)
        for so_many in (3, 12):
            delivered(broker.address, "Swap", so_many)
            broker.kill()
            broker.restart()
        held = delivered(broker.address, "Swap", len(delays))
        assert sorted(one.body for one in held) == sorted(delays)
        assert all(one.store_ms >= begun + delays[one.body] for one in held)


# --- one store, two brokers -------------------------------------------------------------------------------------------


def send(address: str, topic: str, body: str, delay_ms: int) -> None:
    fields: dict[str, Any] = {"producerGroup": "P", "topic": topic, "defaultTopic": "TBW102", "queueId": 0}
    fields |= {"defaultTopicQueueNums": 1, "sysFlag": 0, "bornTimestamp": int(time.time() * 1000), "flag": 0}
    fields["properties"] = f"TIMER_DELAY_MS\x01{delay_ms}\x02UNIQ_KEY\x01id-{body}\x02"
    with wire.Client(address) as client:
        answer = client.call(10, {name: str(value) for name, value in fields.items()}, body.encode())
    assert answer.code == 0, answer.remark


def ends(held: list[Stored], bodies: list[str]) -> None:
    assert [one.body for one in held] == bodies


@pytest.mark.slow  # a Java broker
def test_what_waits_in_our_store_comes_due_in_javas_broker(java_peers: None, home: Callable[[str], Path]) -> None:
    folder = home("timers-ours-java")
    name_server = ours.NameServer(home("timers-swap-namesrv"))
    sizes = {"mappedFileSizeTimerLog": java.QUICK_BROKER["mappedFileSizeTimerLog"], "maxHashSlotNum": "1000"}
    mine = ours.Broker(folder, [name_server.address], sizes)
    try:
        wire.create_topic(mine.address, "Swap", 1)
        for body, delay_ms in (("soon", 1000), ("later", 20_000), ("last", 21_000)):
            send(mine.address, "Swap", body, delay_ms)
        delivered(mine.address, "Swap", 1)
        mine.stop()
        settings = {
            "timerWheelEnable": "true",
            "storePathRootDir": str(folder / "store"),
            "storePathCommitLog": str(folder / "store" / "commitlog"),
        }
        javas = java.Broker("5.5.0", home("timers-java"), [name_server.address], settings, name=mine.name)
        try:
            ends(delivered(javas.address, "Swap", 3), ["soon", "later", "last"])
        finally:
            javas.kill()
    finally:
        mine.kill()
        name_server.kill()


@pytest.mark.slow  # a Java broker
def test_javas_broker_was_killed_with_what_waits(java_peers: None, home: Callable[[str], Path]) -> None:
    folder = home("timers-java-ours")
    name_server = ours.NameServer(home("timers-back-namesrv"))
    settings = {"timerWheelEnable": "true"}
    javas = java.Broker("5.5.0", folder, [name_server.address], settings, name="broker-p")
    mine: ours.Broker | None = None
    try:
        eventually(lambda: is_known(name_server.address, "broker-p"), "Java's broker is registered")
        wire.create_topic(javas.address, "Swap", 1)
        for body, delay_ms in (("soon", 1000), ("later", 15_000), ("last", 16_000)):
            send(javas.address, "Swap", body, delay_ms)
        delivered(javas.address, "Swap", 1)
        javas.kill()
        mine = ours.Broker(folder, [name_server.address], {"maxHashSlotNum": "1000"}, name="broker-p")
        ends(delivered(mine.address, "Swap", 3), ["soon", "later", "last"])
    finally:
        javas.kill()
        if mine is not None:
            mine.kill()
        name_server.kill()
