"""Every request that was recorded at the Java name server, asked of ours. Where ours differs on purpose:

- *encoding*: answered in the encoding of the request, as 4.9 does; 5.x answers in JSON always.
- *missing field*: a required field that is missing is refused with code 1 and named; Java answers 0, 22, or a
  NullPointerException's text.
- *901 remark*: Java forgets to clear its `not set any response code`.
- *cut code*: an unknown code that a binary header may have cut off gets a hint behind Java's words.
- *319*: ours lists settings that Java has not, and shows where changes are really kept.
- *list order*: topic lists are sorted; Java's are in hash order.
"""

from __future__ import annotations

import base64
import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pyromq.config import properties
from pyromq.protocol.bodies.body import DataVersion
from pyromq.protocol.bodies.registration import encode_registration
from pyromq.protocol.bodies.topics import TopicConfig
from pyromq.protocol.command import Command
from pyromq.protocol.json import parse_json
from pyromq.protocol.requests import ROWS
from pyromq.protocol.requests import RequestCode as Code
from tests.namesrv.world import Talk, World, broker_body, broker_header
from tests.wire import FrameDecoder

GOLDEN = Path(__file__).parents[1] / "golden"

OF_THE_MACHINE = {"configStorePath", "kvConfigPath", "rocketmqHome", "bindAddress", "listenPort"}


class Exchange(msgspec.Struct):
    pair: int
    code: int
    request: dict[str, Any]
    response: dict[str, Any]

    @property
    def fields(self) -> dict[str, str]:
        return self.request["header"].get("extFields") or {}

    @property
    def request_frame(self) -> bytes:
        return base64.b64decode(self.request["frame_b64"])

    @property
    def answer(self) -> Command:
        """Java's response."""
        (command,) = FrameDecoder().feed(base64.b64decode(self.response["frame_b64"]))
        return command

    def __str__(self) -> str:
        return f"{self.code}-{self.request['serialize']}-{self.pair}"


@cache
def exchanges() -> list[Exchange]:
    pairs: dict[int, dict[str, Any]] = {}
    with (GOLDEN / "frames" / "index.jsonl").open("rb") as lines:
        for line in lines:
            frame = msgspec.json.decode(line)
            if frame["peer"] == "namesrv":
                pairs.setdefault(frame["pair"], {})[frame["dir"]] = frame
    return [
        Exchange(pair, both["request"]["requestCode"], both["request"], both["response"])
        for pair, both in pairs.items()
        if "response" in both
    ]


def of(*codes: int) -> list[Exchange]:
    return [one for one in exchanges() if one.code in codes]


@cache
def broker_topics() -> dict[str, TopicConfig]:
    """What the recorded broker had, and a unit topic that it got later."""
    with gzip.open(GOLDEN / "store-clean.json.gz") as file:
        table = json.load(file)["answers"]["allTopicConfig"]["topicConfigTable"]
    topics = {name: msgspec.convert(config, TopicConfig) for name, config in table.items()}
    return topics | {"GoldenUnit": TopicConfig(topic_name="GoldenUnit", topic_sys_flag=3)}


def recorded_header() -> Any:
    return broker_header(broker_addr="127.0.0.1:20911", ha_server_addr="127.0.0.1:20912")


async def as_recorded(world: World, exchange: Exchange) -> Talk:
    """The name server as Java's was when this was recorded: one broker with its topics, a little KV configuration."""
    talk = await world.talk()
    topics = broker_topics()
    if exchange.code in (Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, Code.GET_TOPICS_BY_CLUSTER) and exchange.fields:
        listed = parse_json(bytes(exchange.answer.body))["topicList"]
        topics = {name: topics.get(name, TopicConfig(topic_name=name)) for name in listed} or topics
    if exchange.code in (Code.WIPE_WRITE_PERM_OF_BROKER, Code.ADD_WRITE_PERM_OF_BROKER):
        topics = topics | {"Another": TopicConfig(topic_name="Another")}
        assert len(topics) == 49
    held = DataVersion(counter=31, timestamp=1794769205361)
    if exchange.code == Code.QUERY_DATA_VERSION and exchange.answer.body:
        held = msgspec.json.decode(exchange.answer.body, type=DataVersion)
    body = encode_registration(broker_body(topics, held))
    assert (await talk.ask(Code.REGISTER_BROKER, recorded_header(), body)).code == 0
    puts = [("ns1", "k1", "v1")]
    if exchange.code == Code.GET_KV_CONFIG:
        puts.append(("ORDER_TOPIC_CONFIG", "GoldenFifo", "broker-a:4"))
    if exchange.pair in (688, 691):
        puts.append(("ORDER_TOPIC_CONFIG", "GoldenOrder", "broker-a:2"))
    for namespace, key, value in puts:
        assert (await talk.ask(Code.PUT_KV_CONFIG, namespace=namespace, key=key, value=value)).code == 0
    return talk


async def ours(world: World, exchange: Exchange) -> Command:
    response = await (await as_recorded(world, exchange)).ask_raw(exchange.request_frame)
    assert response.is_response
    assert response.opaque == exchange.answer.opaque
    assert response.version == exchange.answer.version
    assert response.encoding.name == exchange.request["serialize"]  # see "encoding"
    return response


def lacks_a_field(exchange: Exchange) -> bool:
    """Sent with an empty header, to a request that has required fields."""
    without = (Code.GET_BROKER_CLUSTER_INFO, Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, Code.GET_NAMESRV_CONFIG)
    lists = (Code.GET_UNIT_TOPIC_LIST, Code.GET_HAS_UNIT_SUB_TOPIC_LIST, Code.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST)
    others = (Code.UPDATE_NAMESRV_CONFIG, Code.GET_SYSTEM_TOPIC_LIST_FROM_NS)
    return not exchange.fields and exchange.code not in (*without, *lists, *others)


UNSUPPORTED = [one for one in exchanges() if one.response["code"] == 3]
LISTS = (206, 224, 304, 311, 312, 313)
SPECIAL = {*LISTS, 105, 319, 318}
GOOD = [one for one in exchanges() if one.response["code"] != 3 and not lacks_a_field(one)]


async def test_we_serve_exactly_the_requests_that_java_serves(world: World) -> None:
    talk = await world.talk()
    served = {code for code in ROWS if (await talk.ask(code)).code != 3}
    assert served == {one.code for one in exchanges() if one.response["code"] != 3}
    assert len(served) == 23


@pytest.mark.parametrize("exchange", UNSUPPORTED, ids=str)
async def test_what_java_does_not_support_is_not_supported(world: World, exchange: Exchange) -> None:
    response = await ours(world, exchange)
    assert response.code == 3
    assert response.remark is not None
    assert response.remark.startswith(exchange.answer.remark or "?")  # see "cut code"


@pytest.mark.parametrize(
    "exchange", [one for one in exchanges() if lacks_a_field(one) and one not in UNSUPPORTED], ids=str
)
async def test_a_missing_field_is_named(world: World, exchange: Exchange) -> None:
    response = await ours(world, exchange)
    assert response.code == 1
    assert response.remark is not None
    assert "missing required field" in response.remark  # see "missing field"


@pytest.mark.parametrize("exchange", [one for one in GOOD if one.code not in SPECIAL], ids=str)
async def test_the_answer_is_javas(world: World, exchange: Exchange) -> None:
    """Code, fields, remark and body, byte for byte."""
    response, java = await ours(world, exchange), exchange.answer
    assert (response.code, response.fields) == (java.code, java.fields)
    if exchange.code != Code.GET_BROKER_MEMBER_GROUP:  # see "901 remark"
        assert response.remark == java.remark
    assert response.body == java.body


# GoldenAuto and its like were asked for before they existed.
ROUTES = [one for one in GOOD if one.code == 105]


@pytest.mark.parametrize("exchange", ROUTES, ids=str)
async def test_the_route_is_javas(world: World, exchange: Exchange) -> None:
    java = exchange.answer
    talk = await as_recorded(world, exchange)
    if java.code == 17:
        await talk.ask(Code.DELETE_TOPIC_IN_NAMESRV, topic=exchange.fields["topic"])
    response = await talk.ask_raw(exchange.request_frame)
    assert (response.code, response.remark, response.body) == (java.code, java.remark, java.body)


@pytest.mark.parametrize("exchange", [one for one in GOOD if one.code in LISTS], ids=str)
async def test_the_topic_list_is_javas(world: World, exchange: Exchange) -> None:
    response = await ours(world, exchange)
    mine, java = parse_json(bytes(response.body)), parse_json(bytes(exchange.answer.body))
    if exchange.code == 206 and not exchange.fields:
        assert set(mine["topicList"]) == set(broker_topics())
        return
    assert mine.get("brokerAddr") == java.get("brokerAddr")
    assert sorted(mine["topicList"]) == sorted(java["topicList"])  # see "list order"


@pytest.mark.parametrize("exchange", of(319), ids=str)
async def test_the_settings_are_javas(world: World, exchange: Exchange) -> None:
    response = await ours(world, exchange)
    mine = {entry.key: entry.value for entry in properties.parse(bytes(response.body).decode())}
    java = {entry.key: entry.value for entry in properties.parse(bytes(exchange.answer.body).decode())}
    assert len(java) == 40
    assert java.keys() - mine.keys() == {"rocketmqHome"}  # nothing is installed here
    differing = {key for key in java if key in mine and mine[key] != java[key]}
    assert differing <= OF_THE_MACHINE | {"orderMessageEnable"}  # see "319"; order topics keep their queues in ours
    assert list(mine) == sorted(mine)


@pytest.mark.parametrize("exchange", of(318), ids=str)
async def test_settings_are_changed_or_black_listed_as_in_java(world: World, exchange: Exchange) -> None:
    response = await ours(world, exchange)
    assert (response.code, response.remark) == (exchange.answer.code, exchange.answer.remark)


async def test_the_recorded_registration_of_a_java_broker_is_taken_whole(world: World) -> None:
    exchange = next(one for one in of(103) if one.request["header"]["version"] == 513)
    talk = await world.talk()
    response = await talk.ask_raw(exchange.request_frame)
    assert (response.code, response.body) == (0, b"")
    listed = parse_json(bytes((await talk.ask(Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)).body))["topicList"]
    assert len(listed) == 16
    assert "rmq_sys_SYNC_BROKER_MEMBER_broker-a" in listed
