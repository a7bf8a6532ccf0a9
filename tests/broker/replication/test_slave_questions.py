"""What a Java 5.5.0 slave asks its master, as it was recorded, asked of ours with the same tables: the same answers."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pyromq.model.message import Property
from pyromq.model.topic import Perm
from pyromq.protocol.bodies.body import DataVersion, encode_body
from pyromq.protocol.bodies.topics import TopicConfig
from pyromq.protocol.command import Command
from pyromq.protocol.requests import RequestCode as Code
from pyromq.store.timer.timer_state import TimerCheck
from tests.broker.running import Running, running_broker
from tests.broker.virtual import virtual_broker
from tests.support import GOLDEN
from tests.wire import FrameDecoder

TABLES: dict[int, str] = {
    Code.GET_ALL_TOPIC_CONFIG: "topics.json",
    Code.GET_ALL_CONSUMER_OFFSET: "consumerOffset.json",
    Code.GET_ALL_DELAY_OFFSET: "delayOffset.json",
    Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: "subscriptionGroup.json",
    Code.GET_ALL_MESSAGE_REQUEST_MODE: "messageRequestMode.json",
}
PAGED: dict[int, str] = {
    Code.GET_ALL_TOPIC_CONFIG: "topicConfigTable",
    Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: "subscriptionGroupTable",
}
# As the recorded master was set.
RECORDED: dict[str, Any] = {
    "broker_cluster_name": "HaCluster",
    "default_topic_queue_nums": 2,
    "trace_topic_enable": False,
}


def exchanges() -> dict[int, list[tuple[bytes, Command]]]:
    """By code: the bytes of each request, and the answer to it."""
    found: dict[int, list[tuple[bytes, Command]]] = {}
    asked: dict[int, bytes] = {}
    with gzip.open(GOLDEN / "ha" / "classic-frames.jsonl.gz", "rt") as lines:
        rows = [json.loads(line) for line in lines]
    for row in rows:
        if "frame_b64" not in row:
            continue
        frame = base64.b64decode(row["frame_b64"])
        if row["kind"] == "request":
            asked[row["header"]["opaque"]] = frame
        else:
            (answer,) = FrameDecoder().feed(frame)
            found.setdefault(row["requestCode"], []).append((asked[answer.opaque], answer))
    return found


EXCHANGES = exchanges()


async def answer_to(address: str, frame: bytes) -> Command:
    """What a broker answers to these very bytes."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(frame)
    decoder, received = FrameDecoder(), list[Command]()
    while not received:
        received = list(decoder.feed(await reader.read(1 << 20)))
    writer.close()
    await writer.wait_closed()
    return received[0]


def ordered(body: bytes, table: str) -> bytes:
    """The same JSON with one of its maps in order of the names: Java's maps have none of their own."""
    content = json.loads(body)
    content[table] = dict(sorted(content[table].items()))
    return json.dumps(content, separators=(",", ":")).encode()


@pytest.fixture
async def master(tmp_path: Path) -> AsyncIterator[Running]:
    """A broker with the tables that the recorded master had at the end of the recording."""
    config = tmp_path / "config"
    config.mkdir()
    for code, name in TABLES.items():
        (config / name).write_bytes(EXCHANGES[code][-1][1].body)
    async with running_broker(tmp_path, **RECORDED) as running:
        yield running


@pytest.mark.parametrize("code", TABLES, ids=TABLES.values())
async def test_a_recorded_question_gets_the_recorded_answer(master: Running, code: int) -> None:
    asked, recorded = EXCHANGES[code][-1]
    answer = await answer_to(master.address, asked)
    assert (answer.code, answer.fields, answer.opaque) == (recorded.code, recorded.fields, recorded.opaque)
    ours, theirs = bytes(answer.body), bytes(recorded.body)
    if code == Code.GET_ALL_TOPIC_CONFIG:
        # Static topics are not there yet: their table has no time of a change.
        stamp = msgspec.json.decode(theirs)["mappingDataVersion"]["timestamp"]
        theirs = theirs.replace(b'"timestamp":%d},"topicConfigTable"' % stamp, b'"timestamp":0},"topicConfigTable"')
    if code in PAGED:
        assert len(ours) == len(theirs)
        ours, theirs = ordered(ours, PAGED[code]), ordered(theirs, PAGED[code])
    assert ours == theirs


async def test_the_timer_tells_a_slave_what_javas_told(tmp_path: Path) -> None:
    """Six timed messages have been taken in, as when the last answers were recorded; three of them wait."""
    recorded, counted = (EXCHANGES[code][-1][1].body for code in (Code.GET_TIMER_CHECK_POINT, Code.GET_TIMER_METRICS))
    check = TimerCheck(*_longs(recorded))
    assert check.pack() == bytes(recorded)
    async with virtual_broker(tmp_path) as broker:
        for number in range(6):
            await broker.send("HaTimer", properties={Property.TIMER_DELAY_SEC: str(3600 if number % 2 else 3)})
        await broker.advance(5)
        told = TimerCheck(*_longs((await broker.call(Code.GET_TIMER_CHECK_POINT)).body))
        answer = msgspec.json.decode((await broker.call(Code.GET_TIMER_METRICS)).body)
    assert told[1:5] == check[1:5]  # bytes of the timer log, queue offset twice, state version
    assert told.read_ms % 1000 == check.read_ms % 1000 == 0
    theirs = msgspec.json.decode(counted)
    assert answer["timingCount"]["HaTimer"]["count"] == theirs["timingCount"]["HaTimer"]["count"] == 3
    assert _shape(answer) == _shape(theirs)


def _longs(data: bytes | memoryview) -> Iterator[int]:
    for at in range(0, len(data), 8):
        yield int.from_bytes(data[at : at + 8], "big")


def _shape(value: Any) -> Any:
    """The members in their order, without what they say."""
    return [(name, _shape(one)) for name, one in value.items()] if isinstance(value, dict) else type(value)


# --- pages ------------------------------------------------------------------------------------------------------------


async def asked_as_java_asks(broker: Running, page: int) -> set[str]:
    """Topics, page by page, up to where Java's slave stops asking (BrokerOuterAPI.getAllTopicConfig)."""
    names: set[str] = set()
    seen, version = 0, ""
    while True:
        answer = await broker.call(Code.GET_ALL_TOPIC_CONFIG, topicSeq=seen, maxTopicNum=page, dataVersion=version)
        content = msgspec.json.decode(answer.body)
        names |= content["topicConfigTable"].keys()
        seen += len(content["topicConfigTable"])
        version = msgspec.json.encode(content["dataVersion"]).decode()
        if seen >= int(answer.fields["totalTopicNum"]) - 1:
            return names


@pytest.mark.parametrize("page", range(1, 12))
async def test_a_java_slave_gets_every_topic_although_it_stops_one_early(tmp_path: Path, page: int) -> None:
    async with running_broker(tmp_path) as broker:
        for number in range(7):
            broker.broker.topics.put(TopicConfig(topic_name=f"T{number}", perm=Perm.READ_WRITE))
        assert await asked_as_java_asks(broker, page) == set(broker.broker.topics.all())


@pytest.mark.parametrize("page", range(1, 12))
async def test_groups_come_whole_too(tmp_path: Path, page: int) -> None:
    async with running_broker(tmp_path) as broker:
        groups, seen, names = broker.broker.groups, 0, set[str]()
        version = encode_body(groups.version or DataVersion()).decode()
        while seen < len(groups) - 1:
            answer = await broker.call(
                Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, groupSeq=seen, maxGroupNum=page, dataVersion=version
            )
            found = msgspec.json.decode(answer.body)["subscriptionGroupTable"]
            names |= found.keys()
            seen += len(found)
        assert names == set(groups.all())
