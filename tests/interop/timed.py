"""What the tests of delays and timers share: a cluster of ours with short levels, and what a topic holds; times."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.wire import decode_messages

from . import wire
from .conftest import OwnCluster, is_known
from .peers import java, ours
from .waiting import eventually

PULL = 11
LEVELS = "1s 2s 3s"


class Stored(NamedTuple):
    body: str
    store_ms: int
    properties: dict[str, str]


@contextmanager
def cluster(home: Callable[[str], Path], name: str, **settings: str) -> Iterator[OwnCluster]:
    name_server = ours.NameServer(home(f"{name}-namesrv"))
    broker = ours.Broker(home(f"{name}-broker"), [name_server.address], {"messageDelayLevel": LEVELS, **settings})
    try:
        eventually(lambda: is_known(name_server.address, broker.name), "our broker is registered")
        yield OwnCluster(name_server, broker)
    finally:
        broker.kill()
        name_server.kill()


def stored(broker: str, topic: str, queues: int = 4) -> list[Stored]:
    """Everything in a topic, in order of store time."""
    found: list[Stored] = []
    for queue in range(queues):
        fields: dict[str, Any] = {"consumerGroup": "look", "topic": topic, "queueId": queue, "queueOffset": 0}
        fields |= {"maxMsgNums": 32, "sysFlag": 4, "commitOffset": 0, "suspendTimeoutMillis": 0}
        fields |= {"subscription": "*", "subVersion": 0, "expressionType": "TAG"}
        answer = wire.ask(broker, PULL, {name: str(value) for name, value in fields.items()})
        messages = decode_messages(answer.body) if answer.code == 0 else []
        found += [Stored(one.body.decode(), one.store_timestamp, dict(one.properties)) for one in messages]
    return sorted(found, key=lambda one: one.store_ms)


def delivered(broker: str, topic: str, count: int) -> list[Stored]:
    """As soon as so many are there."""

    def enough() -> list[Stored]:
        held = stored(broker, topic)
        return held if len(held) >= count else []

    return eventually(enough, f"{count} messages in {topic}")


def send_timed(client: java.Client, servers: str, topic: str, bodies: list[str], **how: Any) -> list[dict[str, Any]]:
    sent: list[dict[str, Any]] = client.do("send timed", servers=servers, topic=topic, bodies=bodies, **how)
    return sent
