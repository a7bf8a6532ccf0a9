"""One store, two brokers, with popped messages in flight: Java's broker goes on where ours ended, and the reverse.

Clean stops go on exactly. After a kill -9 of ours, Java may hand out again what was popped in the last seconds. After
one of Java's we hand out again, as Java itself would, what was popped after it last saved its offsets.
"""

from __future__ import annotations

import base64
import json
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.wire import decode_messages

from . import wire
from .peers import java, ours
from .timed import stored
from .waiting import eventually

pytestmark = [pytest.mark.interop, pytest.mark.slow]  # Java brokers: make interop

SEND, POP, ACK, CHANGE, BATCH_ACK = 10, 200050, 200051, 200053, 200151
TOPIC, GROUP, NAME, RETRY = "Popped", "GID_pop_store", "broker-p", "%RETRY%GID_pop_store_Popped"
SIZES = {"mappedFileSizeTimerLog": java.QUICK_BROKER["mappedFileSizeTimerLog"], "maxHashSlotNum": "1000"}
LONG_MS = 600_000


class Popped(NamedTuple):
    body: str
    topic: str  # the retry topic's name, if it came from there
    offset: int
    receipt: str
    attempts: int

    @property
    def start(self) -> int:
        return int(self.receipt.split(" ")[0])


class Popper:
    """A group that pops, by frames, from whatever broker serves the store."""

    def __init__(self, address: str) -> None:
        self.address = address

    def _call(self, code: int, fields: dict[str, Any], body: bytes = b"") -> wire.Answer:
        with wire.Client(self.address) as client:
            return client.call(code, {name: str(value) for name, value in fields.items()}, body)

    def send(self, *bodies: str) -> None:
        for body in bodies:
            fields: dict[str, Any] = {"producerGroup": "P", "topic": TOPIC, "defaultTopic": "TBW102", "queueId": 0}
            fields |= {"defaultTopicQueueNums": 1, "sysFlag": 0, "bornTimestamp": int(time.time() * 1000), "flag": 0}
            answer = self._call(SEND, fields | {"properties": f"UNIQ_KEY\x01id-{body}\x02"}, body.encode())
            assert answer.code == 0, answer.remark

    def pop(self, count: int = 32, invisible_ms: int = LONG_MS) -> list[Popped]:
        fields = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": -1, "maxMsgNums": count, "pollTime": 0}
        fields |= {"invisibleTime": invisible_ms, "bornTime": int(time.time() * 1000), "initMode": 0, "order": "false"}
        answer = self._call(POP, fields)
        assert answer.code in (0, 210), answer
        return [self._popped(answer, one) for one in decode_messages(answer.body)]

    def _popped(self, answer: wire.Answer, message: Any) -> Popped:
        receipt = message.properties.get("POP_CK")
        if receipt is not None:
            return Popped(message.body.decode(), RETRY, message.queue_offset, receipt, message.reconsume_times)
        starts = dict(part.rsplit(" ", 1) for part in answer.fields["startOffsetInfo"].split(";"))
        told = (starts["0 0"], answer.fields["popTime"], answer.fields["invisibleTime"], answer.fields["reviveQid"])
        receipt = " ".join((*told, "0", NAME, "0", str(message.queue_offset)))
        return Popped(message.body.decode(), TOPIC, message.queue_offset, receipt, message.reconsume_times)

    def ack(self, *messages: Popped) -> None:
        for one in messages:
            fields = {"consumerGroup": GROUP, "topic": one.topic, "queueId": 0, "offset": one.offset}
            answer = self._call(ACK, fields | {"extraInfo": one.receipt})
            assert answer.code == 0, answer.remark

    def batch_ack(self, *messages: Popped) -> None:
        """Messages of one answer."""
        first = messages[0].receipt.split(" ")
        bits = sum(1 << one.offset - one.start for one in messages)
        raw = bits.to_bytes((bits.bit_length() + 7) // 8, "little")
        entry = {"c": GROUP, "t": TOPIC, "r": "0", "so": int(first[0]), "q": 0, "rq": int(first[3])}
        entry |= {"pt": int(first[1]), "it": int(first[2]), "b": base64.b64encode(raw).decode()}
        body = json.dumps({"brokerName": NAME, "acks": [entry]}).encode()
        answer = self._call(BATCH_ACK, {}, body)
        assert answer.code == 0, answer.remark

    def change(self, one: Popped, invisible_ms: int) -> None:
        fields = {"consumerGroup": GROUP, "topic": one.topic, "queueId": 0, "offset": one.offset}
        answer = self._call(CHANGE, fields | {"extraInfo": one.receipt, "invisibleTime": invisible_ms})
        assert answer.code == 0, answer.remark

    def drain(self, count: int, limit_s: float = 60.0) -> list[Popped]:
        """Pop until so many came, and then some seconds more: nothing else may come."""
        held: list[Popped] = []

        def pop_on() -> bool:
            held.extend(self.pop())
            return len(held) >= count

        eventually(pop_on, f"{count} messages are handed out", limit_s, seen=lambda: [one.body for one in held])
        self.ack(*held)
        until = time.monotonic() + 8
        while time.monotonic() < until:
            more = self.pop()
            self.ack(*more)
            held.extend(more)
            time.sleep(0.5)
        return held


class Store:
    """One store folder and who serves it now."""

    def __init__(self, home: Callable[[str], Path], name: str) -> None:
        self._home, self._name = home, name
        self.folder = home(f"{name}-store")
        self.name_server = ours.NameServer(home(f"{name}-namesrv"))
        self._running: ours.Broker | java.Broker | None = None

    def ours(self, **settings: str) -> Popper:
        self._running = ours.Broker(self.folder, [self.name_server.address], SIZES | settings, name=NAME)
        return self._ready()

    def java(self, **settings: str) -> Popper:
        paths = {
            "storePathRootDir": str(self.folder / "store"),
            "storePathCommitLog": str(self.folder / "store" / "commitlog"),
        }
        settings = {"timerWheelEnable": "true", **paths, **settings}
        self._running = java.Broker(
            "5.5.0", self._home(f"{self._name}-java"), [self.name_server.address], settings, name=NAME
        )
        return self._ready()

    def _ready(self) -> Popper:
        assert self._running is not None
        return Popper(self._running.address)

    def create_topic(self) -> None:
        assert self._running is not None
        wire.create_topic(self._running.address, TOPIC, 1)

    def stop(self) -> None:
        assert self._running is not None
        self._running.program.signal(signal.SIGTERM)
        self._running.program.wait()

    def kill(self) -> None:
        if self._running is not None:
            self._running.kill()

    def offset_on_disk(self) -> int | None:
        """The group's offset in its queue, as whoever serves the store has saved it."""
        table = self._offset_file()
        if not table.exists():
            return None
        offsets: dict[str, dict[str, int]] = wire.json_with_bare_keys(table.read_bytes())["offsetTable"]
        return offsets.get(f"{TOPIC}@{GROUP}", {}).get("0")

    def offset_saved(self, offset: int) -> None:
        """Wait for that."""
        eventually(lambda: self.offset_on_disk() == offset, f"the offset {offset} is saved", seen=self.offset_on_disk)

    def lose_offsets(self) -> None:
        """Leave the store as a Java broker does that is killed in its first ten seconds: it has saved none by then."""
        for one in self._offset_file().parent.glob("consumerOffset.json*"):
            one.unlink()

    def _offset_file(self) -> Path:
        return self.folder / "store" / "config" / "consumerOffset.json"

    def revive_records(self) -> list[tuple[str, dict[str, str]]]:
        """Body and properties of all check points and acks that wait or were delivered."""
        assert self._running is not None
        found = stored(self._running.address, "rmq_sys_wheel_timer", 1)
        return [(one.body, one.properties) for one in found]


@contextmanager
def one_store(home: Callable[[str], Path], name: str) -> Iterator[Store]:
    store = Store(home, name)
    try:
        yield store
    finally:
        store.kill()
        store.name_server.kill()


def bodies(messages: list[Popped]) -> list[str]:
    return sorted((one.body for one in messages), key=lambda body: int(body[1:]))


def by_body(messages: list[Popped]) -> dict[str, Popped]:
    return {one.body: one for one in messages}


@pytest.mark.parametrize("way", ["stop", "kill"])
def test_java_goes_on_with_our_store(java_peers: None, home: Callable[[str], Path], way: str) -> None:
    with one_store(home, f"pop-ours-java-{way}") as store:
        mine = store.ours()
        store.create_topic()
        mine.send(*(f"m{number}" for number in range(12)))
        old = by_body(mine.pop(4, 80_000))
        mine.ack(old["m0"])
        eventually(store.revive_records, "the check point has left memory")
        store.offset_saved(4)
        mine.ack(old["m1"])
        mine.change(old["m2"], 60_000)
        young = by_body(mine.pop(4, 60_000))
        assert bodies([*old.values(), *young.values()]) == [f"m{number}" for number in range(8)]
        mine.ack(young["m4"])
        if way == "stop":
            store.stop()
        else:
            store.kill()

        javas = store.java()
        fresh = javas.pop()
        javas.ack(*fresh)
        if way == "stop":
            assert bodies(fresh) == ["m8", "m9", "m10", "m11"]
            javas.ack(young["m5"])  # with a receipt of ours
            held = javas.drain(4, 120.0)
            assert bodies(held) == ["m2", "m3", "m6", "m7"]
            assert {one.attempts for one in held} == {1}
        else:
            again = {"m4", "m5", "m6", "m7"}  # popped in the last seconds
            assert {"m8", "m9", "m10", "m11"} <= set(bodies(fresh)) <= {"m8", "m9", "m10", "m11"} | again
            assert again - {"m4"} <= set(bodies(fresh))
            held = javas.drain(2, 120.0)
            assert bodies(held) == ["m2", "m3"]


@pytest.mark.parametrize("way", ["stop", "kill", "kill before offsets were saved"])
def test_we_go_on_with_javas_store(java_peers: None, home: Callable[[str], Path], way: str) -> None:
    with one_store(home, f"pop-java-ours-{way.split()[-1]}") as store:
        javas = store.java()
        store.create_topic()
        javas.send(*(f"m{number}" for number in range(12)))
        popped = by_body(javas.pop(8, 40_000))
        assert len(popped) == 8
        javas.ack(popped["m0"])
        javas.batch_ack(popped["m1"], popped["m3"])
        javas.change(popped["m2"], 35_000)
        check_batch_ack(store)
        if way == "stop":
            store.stop()
        else:
            store.offset_saved(8)
            store.kill()
        if way == "kill before offsets were saved":
            store.lose_offsets()

        mine = store.ours()
        fresh = mine.pop()
        mine.ack(*fresh)
        known = 0 if way == "kill before offsets were saved" else 8
        assert bodies(fresh) == [f"m{number}" for number in range(known, 12)]
        mine.ack(popped["m4"])  # with a receipt of Java's
        mine.batch_ack(popped["m5"], popped["m6"])
        held = mine.drain(2, 90.0)
        assert bodies(held) == ["m2", "m7"]
        assert {one.attempts for one in held} == {1}


def check_batch_ack(store: Store) -> None:
    """Java's own batch ack is the record that we write for it."""
    from pyromq.broker.pop.stored.java_records import RevivePlace, StoredAck, ack_record, read_entry
    from pyromq.protocol.properties import decode_properties, encode_properties
    from pyromq.protocol.record import Record

    found = [(body, pairs) for body, pairs in store.revive_records() if pairs["TAGS"] == "bAck"]
    assert len(found) == 1
    body, pairs = found[0]
    entry = read_entry(Record(topic="", queue_id=0, body=body.encode(), properties=encode_properties(pairs)))
    assert entry is not None
    assert isinstance(entry.content, StoredAck)
    ours_ = ack_record(entry.content, int(pairs["TIMER_DELIVER_MS"]), RevivePlace("R", 0, bytes(8)), 0)
    assert ours_.body == body.encode()
    written = decode_properties(ours_.properties)
    assert {name: pairs[name] for name in written} == written


def test_to_and_fro(java_peers: None, home: Callable[[str], Path]) -> None:
    """Ours is killed, Java runs and is stopped, ours starts: what Java handed out meanwhile is not handed out again."""
    with one_store(home, "pop-to-and-fro") as store:
        mine = store.ours()
        store.create_topic()
        mine.send(*(f"m{number}" for number in range(6)))
        mine.ack(*mine.pop(2))
        mine.pop(2, 10_000)
        store.kill()
        javas = store.java()
        given = javas.pop(32, LONG_MS)
        assert {"m2", "m3", "m4", "m5"} <= set(bodies(given))
        javas.ack(*[one for one in given if one.body != "m5"])
        time.sleep(6)
        store.stop()
        mine = store.ours()
        time.sleep(3)
        assert mine.pop() == []  # m5 is hidden by Java's check point, the others are acknowledged
