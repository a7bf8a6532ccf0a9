"""One store folder, two brokers: what we wrote Java opens, serves and goes on with, and we open the result again."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pyromq.ambient import SystemClock
from pyromq.broker.config import BrokerConfig
from pyromq.model.ids import pack_host
from pyromq.model.names import STATE_TOPIC
from pyromq.protocol.batch import BatchEntry, encode_batch
from pyromq.protocol.bodies.topics import TopicConfig
from pyromq.protocol.record import BLANK, CRC_PROPERTY_BYTES, Record
from pyromq.store.config import StoreConfig
from pyromq.store.files.disk import StoreLocked
from pyromq.store.files.real_disk import RealDisk
from pyromq.store.message_store import MessageStore
from pyromq.store.tools.findings import Level
from pyromq.store.tools.verify import verify_store
from pyromq.testing.clock import ManualClock
from pyromq.testing.in_process import SMALL_FILES, InProcessBroker
from tests.store.small import by_key
from tests.wire import decode_messages

from . import wire
from .peers import java
from .peers.process import ProgramFailed

pytestmark = [pytest.mark.interop, pytest.mark.slow]  # Java brokers: make interop

PULL, QUERY, SEND, MAX_OFFSET, VIEW = 11, 12, 10, 30, 33
CONFIG = StoreConfig(
    commit_log_file_bytes=1 << 20,
    queue_file_bytes=20_000,
    batch_queue_file_bytes=46_000,
    index_slots=1000,
    index_entries=4000,
)
SIZES = {
    "mappedFileSizeCommitLog": str(CONFIG.commit_log_file_bytes),
    "mappedFileSizeConsumeQueue": str(CONFIG.queue_file_bytes),
    "mapperFileSizeBatchConsumeQueue": str(CONFIG.batch_queue_file_bytes),
    "maxHashSlotNum": str(CONFIG.index_slots),
    "maxIndexNum": str(CONFIG.index_entries),
}
COUNT = 3000  # three log files, two queue files each, several index files
BODIES = [(b"message %d " % number) * (number % 40 + 1) for number in range(COUNT)]
HOST = pack_host("127.0.0.1", 10911)


def opened(root: Path) -> MessageStore:
    return MessageStore(
        RealDisk(root, create=True), CONFIG, ManualClock(), is_batch_topic=lambda topic: topic == "Inner"
    )


def written_by_us(root: Path) -> None:
    store = opened(root)
    for number, body in enumerate(BODIES):
        properties = b"KEYS\x01key-%d\x02TAGS\x01Tag%d\x02UNIQ_KEY\x01unique-%d\x02" % (number, number % 3, number)
        store.put([record(body, number % 2, properties)])
    store.put_batch(record(encode_batch([BatchEntry(b"batched %d" % n) for n in range(10)]), 2))
    inner = encode_batch([BatchEntry(b"inner %d" % n) for n in range(5)])
    wrapped = record(inner, 0, b"UNIQ_KEY\x01inner\x02INNER_NUM\x015\x02", topic="Inner", sys_flag=192)
    store.put([wrapped])
    store.close()
    (root / "config").mkdir(exist_ok=True)
    topics = {"Ours": topic("Ours", 3), "Inner": topic("Inner", 1, **{"queue.type": "BatchCQ"})}
    (root / "config" / "topics.json").write_text(json.dumps({"topicConfigTable": topics}))


def record(body: bytes, queue_id: int, properties: bytes = b"", topic: str = "Ours", sys_flag: int = 0) -> Record:
    return Record(
        topic=topic,
        queue_id=queue_id,
        body=body,
        properties=properties,
        sys_flag=sys_flag,
        born_timestamp=1,
        born_host=HOST,
        store_host=HOST,
    )


def topic(name: str, queues: int, **attributes: str) -> dict[str, Any]:
    return {"topicName": name, "readQueueNums": queues, "writeQueueNums": queues, "perm": 6, "attributes": attributes}


class Served:
    """A Java broker on a store, asked over the wire."""

    def __init__(self, home: Path) -> None:
        self.broker = java.Broker("5.5.0", home, [], SIZES)
        self.client = wire.Client(self.broker.address)

    def pulled(self, topic: str, queue_id: int) -> list[bytes]:
        """All bodies of a queue."""
        bodies: list[bytes] = []
        offset = 0
        while True:
            fields = {
                "consumerGroup": "GID_store",
                "topic": topic,
                "queueId": str(queue_id),
                "queueOffset": str(offset),
            }
            fields |= {"maxMsgNums": "32", "sysFlag": "4", "commitOffset": "0", "suspendTimeoutMillis": "0"}
            answer = self.client.call(PULL, {**fields, "subscription": "*", "subVersion": "1", "expressionType": "TAG"})
            if answer.code == 20:  # look again from where it says
                offset = int(answer.fields["nextBeginOffset"])
                continue
            if answer.code:
                assert answer.fields["nextBeginOffset"] == answer.fields["maxOffset"], answer
                return bodies
            bodies += [message.body for message in decode_messages(answer.body)]
            offset = int(answer.fields["nextBeginOffset"])

    def by_key(self, key: str, *, unique: bool = False) -> list[bytes]:
        fields = {
            "topic": "Ours",
            "key": key,
            "maxNum": "32",
            "beginTimestamp": "0",
            "endTimestamp": str((1 << 63) - 1),
        }
        answer = self.client.call(QUERY, {**fields, "_UNIQUE_KEY_QUERY": str(unique).lower()})
        return [message.body for message in decode_messages(answer.body)] if not answer.code else []

    def by_place(self, position: int) -> bytes:
        (message,) = decode_messages(self.client.call(VIEW, {"offset": str(position)}).body)
        return message.body

    def send(self, body: bytes, queue_id: int) -> int:
        fields = {"producerGroup": "PID_store", "topic": "Ours", "defaultTopic": "TBW102", "defaultTopicQueueNums": "4"}
        fields |= {"queueId": str(queue_id), "sysFlag": "0", "bornTimestamp": "1", "flag": "0", "reconsumeTimes": "0"}
        answer = self.client.call(SEND, {**fields, "properties": "KEYS\x01from-java\x02"}, body)
        assert answer.code == 0, answer
        return int(answer.fields["queueOffset"])

    def stop(self, how: signal.Signals) -> None:
        self.client.close()
        self.broker.program.signal(how)
        self.broker.program.wait(120)


@pytest.fixture(scope="module")
def served(java_peers: None, home: Callable[[str], Path]) -> Iterator[Served]:
    folder = home("shared-store")
    written_by_us(folder / "store")
    served = Served(folder)
    yield served
    served.client.close()
    served.broker.kill()


def test_java_serves_every_message_by_pull(served: Served) -> None:
    assert served.pulled("Ours", 0) == BODIES[0::2]
    assert served.pulled("Ours", 1) == BODIES[1::2]
    assert served.pulled("Ours", 2) == [b"batched %d" % n for n in range(10)]
    assert served.pulled("Inner", 0) == [b"inner %d" % n for n in range(5)]


def test_java_finds_messages_by_key_unique_key_and_place(served: Served) -> None:
    for number in range(0, COUNT, 97):
        assert served.by_key(f"key-{number}") == [BODIES[number]]
        assert served.by_key(f"unique-{number}", unique=True) == [BODIES[number]]
    assert served.by_place(0) == BODIES[0]


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_java_appends_and_we_open_the_result(
    java_peers: None, home: Callable[[str], Path], how: signal.Signals
) -> None:
    folder = home("shared-store")
    root = folder / "store"
    written_by_us(root)
    java_broker = Served(folder)
    for number in range(50):
        assert java_broker.send(b"from java %d" % number, 0) == COUNT // 2 + number
    java_broker.stop(how)

    store = opened(root)
    assert store.recovery.clean_stop is (how is signal.SIGTERM)
    assert store.recovery.damage == []
    assert all_bodies(store, 0) == BODIES[0::2] + [b"from java %d" % number for number in range(50)]
    assert len(by_key(store, "Ours", "from-java")) == 50
    assert [r.body for r in by_key(store, "Ours", "key-0")] == [BODIES[0]]
    store.put([record(b"ours again", 0)])
    store.close()
    assert verify_store(RealDisk(root), CONFIG).exit_code == Level.NOTE
    again = opened(root)
    assert all_bodies(again, 0)[-1] == b"ours again"
    again.close()


def test_a_store_is_never_shared_by_a_java_broker_and_ours(java_peers: None, home: Callable[[str], Path]) -> None:
    folder = home("shared-store")
    root = folder / "store"
    written_by_us(root)
    store = opened(root)
    before = store.commit_log.end
    with pytest.raises(ProgramFailed, match="ended without a line like"):
        java.Broker("5.5.0", folder, [], SIZES)
    store.put([record(b"undisturbed", 0)])
    assert store.commit_log.end > before
    store.close()
    java_broker = Served(folder)
    with pytest.raises(StoreLocked, match="held by another process"):
        opened(root)
    assert verify_store(RealDisk(root), CONFIG).records > COUNT  # tools may look all the same
    java_broker.send(b"java's own", 0)
    java_broker.stop(signal.SIGKILL)
    store = opened(root)
    assert all_bodies(store, 0)[-2:] == [b"undisturbed", b"java's own"]
    store.close()


def test_records_of_ours_stay_watched_after_java_appended(java_peers: None, home: Callable[[str], Path]) -> None:
    """Java knows nothing of our list of ranges with CRC: its records have none and are whole, ours without are not."""
    folder = home("shared-store")
    root = folder / "store"
    written_by_us(root)
    java_broker = Served(folder)
    java_broker.send(b"from java", 0)
    java_broker.stop(signal.SIGTERM)
    second = BLANK.unpack((root / "commitlog" / f"{0:020d}").read_bytes()[:8])[0]  # where the second record starts
    with (root / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.seek(second - CRC_PROPERTY_BYTES)
        file.write(bytes(CRC_PROPERTY_BYTES))
    report = verify_store(RealDisk(root), CONFIG)
    assert [(one.level, one.offset) for one in report.findings] == [(Level.DAMAGE, 0)]
    store = opened(root)
    assert all_bodies(store, 0) == [*BODIES[2::2], b"from java"]
    store.close()


def all_bodies(store: MessageStore, queue_id: int) -> list[bytes]:
    bodies: list[bytes] = []
    offset = 0
    while True:
        selection = store.reader.select("Ours", queue_id, offset, max_count=1000, max_bytes=1 << 24)
        if not selection.ranges:
            return bodies
        bodies += [message.body for message in decode_messages(b"".join(store.reader.read_cold(selection.ranges)))]
        offset = selection.next_offset


def test_java_is_not_disturbed_by_tables_in_the_log(java_peers: None, home: Callable[[str], Path]) -> None:
    """A member of an elected set wrote the store: Java sees one more system topic, serves, and we go on with it."""
    folder = home("tables-in-log")
    root = folder / "store"

    async def life(*bodies: bytes) -> None:
        settings = SMALL_FILES | {"store_path_root_dir": root, "listen_port": 0, "broker_name": "java-interop"}
        config = BrokerConfig(**settings)
        one = await InProcessBroker.start(
            config, clock=SystemClock(), disk=RealDisk(root, create=True), tables_in_log=True
        )
        broker = one.broker
        broker.topics.put(TopicConfig(topic_name="Ours", read_queue_nums=3, write_queue_nums=3))
        await broker.tables.topic_save.saved()
        for body in bodies:
            broker.store.put([record(body, 0)])
        broker.offsets.commit("Ours", "GID_store", 0, 1)
        assert "Ours" in broker.topics
        queue = broker.store.queues.get(STATE_TOPIC, 0)
        assert queue is not None
        assert broker.environment.recorder is not None
        assert queue.min_offset <= broker.environment.recorder.snapshot < queue.next_offset
        await one.stop()

    asyncio.run(life(b"one", b"two"))
    served = Served(folder)
    assert served.pulled("Ours", 0) == [b"one", b"two"]
    assert served.send(b"three", 0) == 2
    served.stop(signal.SIGTERM)
    asyncio.run(life(b"four"))
    store = opened(root)
    queue = store.queues.get("Ours", 0)
    assert queue is not None
    assert queue.next_offset == 4
    store.close()
