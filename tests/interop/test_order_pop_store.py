"""Messages in order and modes of groups on one store, under our broker and Java's by turns: blocks and attempts."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from . import wire
from .conftest import needed
from .peers import java, ours

pytestmark = [pytest.mark.interop, pytest.mark.slow]  # a Java broker that stops cleanly: make interop

POP, ACK, SET_MODE, MODES, SEND = 200050, 200051, 401, 402, 10
GROUP, TOPIC = "GID_order", "Ordered"
HELD_MS = 600_000


class Asked:
    """A broker of either kind, asked over the wire."""

    def __init__(self, address: str) -> None:
        self._client = wire.Client(address)

    def close(self) -> None:
        self._client.close()

    def send(self, count: int) -> None:
        fields = {"producerGroup": "P", "topic": TOPIC, "defaultTopic": "TBW102", "defaultTopicQueueNums": "1"}
        fields |= {"queueId": "0", "sysFlag": "0", "bornTimestamp": "1", "flag": "0", "properties": ""}
        for _ in range(count):
            assert self._client.call(SEND, fields, b"m").code == 0

    def pop(self, attempt: str, count: int = 3) -> wire.Answer:
        fields = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": "0", "maxMsgNums": str(count), "order": "true"}
        fields |= {"invisibleTime": str(HELD_MS), "pollTime": "0", "bornTime": "0", "initMode": "0"}
        return self._client.call(POP, fields | {"attemptId": attempt})

    def ack(self, popped: wire.Answer, offset: int) -> int:
        start = popped.fields["startOffsetInfo"].split(" ")[2]
        receipt = f"{start} {popped.fields['popTime']} {HELD_MS} 999 0 broker-a 0 {offset}"
        fields = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": "0", "offset": str(offset), "extraInfo": receipt}
        return self._client.call(ACK, fields).code

    def set_mode(self, mode: str) -> None:
        body = json.dumps({"topic": TOPIC, "consumerGroup": GROUP, "mode": mode, "popShareQueueNum": 2})
        assert self._client.call(SET_MODE, body=body.encode()).code == 0

    def mode(self) -> str:
        modes = json.loads(self._client.call(MODES).body)["messageRequestModeMap"]
        return str(modes[TOPIC][GROUP]["mode"])


def offsets(popped: wire.Answer) -> str:
    return popped.fields["msgOffsetInfo"].rpartition(" ")[2]


@pytest.fixture
def folder(home: Callable[[str], Path]) -> Path:
    needed(java.runtime)
    needed(partial(java.classes, "5.5.0"))
    return home("order-store")


def by_us(folder: Path, act: Callable[[Asked], None], *, kill: bool = False) -> None:
    broker = ours.Broker(folder, [], name="broker-a")
    asked = Asked(broker.address)
    try:
        act(asked)
        asked.close()
        broker.kill() if kill else broker.stop()
    finally:
        broker.kill()


def by_java(folder: Path, act: Callable[[Asked], None]) -> None:
    broker = java.Broker("5.5.0", folder, [], {"timerWheelEnable": "true"}, name="broker-a")
    asked = Asked(broker.address)
    try:
        act(asked)
        asked.close()
        broker.program.signal(signal.SIGTERM)
        broker.program.wait(120)
    finally:
        broker.kill()


def test_each_goes_on_exactly_where_the_other_was(folder: Path) -> None:
    popped: list[wire.Answer] = []

    def begin(broker: Asked) -> None:
        wire_topic(broker)
        broker.set_mode("POP")
        popped.append(broker.pop("a-1"))
        assert offsets(popped[0]) == "0,1,2"
        assert [broker.ack(popped[0], offset) for offset in (0, 2)] == [0, 0]

    def java_goes_on(broker: Asked) -> None:
        assert broker.mode() == "POP"
        assert broker.pop("other").code == 210, "held by a-1"
        again = broker.pop("a-1")
        assert (offsets(again), again.fields["orderCountInfo"]) == ("1,2,3", "0 0 0")
        assert broker.ack(popped[0], 1) == 0, "a receipt of before: nothing"
        assert broker.pop("other").code == 210
        popped.append(again)
        assert broker.ack(again, 1) == 0
        broker.set_mode("PULL")

    def we_go_on(broker: Asked) -> None:
        assert broker.mode() == "PULL"
        assert broker.pop("other").code == 210, "held by a-1, of Java's broker"
        assert [broker.ack(popped[1], offset) for offset in (3, 2)] == [0, 0]
        assert offsets(broker.pop("b-1", 1)) == "4"

    by_us(folder, begin)
    by_java(folder, java_goes_on)
    by_us(folder, we_go_on)


def test_java_goes_on_after_we_were_killed(folder: Path) -> None:
    def begin(broker: Asked) -> None:
        wire_topic(broker)
        popped = broker.pop("a-1")
        assert [broker.ack(popped, offset) for offset in (0, 1, 2)] == [0, 0, 0]

    def java_goes_on(broker: Asked) -> None:
        first = int(offsets(broker.pop("b-1")).split(",")[0])
        assert first <= 3, "nothing is skipped"

    by_us(folder, begin, kill=True)
    by_java(folder, java_goes_on)


def wire_topic(broker: Asked) -> None:
    broker.send(8)
