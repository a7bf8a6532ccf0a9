"""JSON bodies: every recorded one goes through its type and out again; the dialects; what is wrong with a bad one."""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
import re
from collections import Counter
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pyromq.protocol.bodies
from pyromq.errors import Malformed, RequestRefused
from pyromq.model.group import ConsumeFromWhere, ConsumeType, MessageModel
from pyromq.protocol.bodies.body import Body, body_parts, decode_body, encode_body
from pyromq.protocol.bodies.groups import UserInfo
from pyromq.protocol.bodies.heartbeat import ConsumerData, HeartbeatData, SubscriptionData
from pyromq.protocol.bodies.keyed import ByQueue, MessageQueue
from pyromq.protocol.bodies.offsets import ConsumeStats, OffsetWrapper, ResetOffsetBody
from pyromq.protocol.bodies.route import BrokerData, ClusterInfo, KVTable, QueueData, TopicRouteData
from pyromq.protocol.bodies.topics import TopicConfig, TopicConfigAndQueueMapping, TopicQueueMappingDetail
from pyromq.protocol.json import ANSWER_LIMITS, Dialect, JsonLimits, parse_json
from pyromq.protocol.requests import ROWS
from pyromq.protocol.row import Content

from .recorded import Recorded, recorded_frames

# Written by hand for the recording, with members left out or in another order than Java's classes have.
HAND_MADE = {42, 46, 103, 217, 400, 401, 906, 200151}
JAVAS_OWN_ORDER = {2003}  # built as a map in Java, not as a class


def all_bodies() -> list[type[Body]]:
    modules = [
        importlib.import_module(f"{pyromq.protocol.bodies.__name__}.{info.name}")
        for info in pkgutil.iter_modules(pyromq.protocol.bodies.__path__)
    ]
    found = {kind for module in modules for _, kind in inspect.getmembers(module, inspect.isclass)}
    return sorted(
        (kind for kind in found if issubclass(kind, Body) and kind is not Body), key=lambda kind: kind.__name__
    )


def content_of(frame: Recorded) -> Content[Any, Any] | None:
    row = ROWS.get(frame.request_code)
    return None if row is None else row.takes if frame.is_request else row.gives


def body_kind(frame: Recorded) -> Any:
    content = content_of(frame)
    return content.body if content is not None and content.is_json else None


def recorded_bodies() -> list[tuple[Recorded, Any]]:
    pairs = [(frame, body_kind(frame)) for frame in recorded_frames() if frame.body and not frame.truncated]
    return [(frame, kind) for frame, kind in pairs if kind is not None]


def test_every_recorded_body_goes_through_its_type() -> None:
    forms: Counter[str] = Counter()
    for frame, kind in recorded_bodies():
        body = decode_body(kind, frame.body)
        written = {dialect: encode_body(body, dialect) for dialect in Dialect}
        for text in written.values():
            assert decode_body(kind, text) == body, frame
        if frame.body in written.values():
            forms["the same bytes"] += 1
            continue
        assert frame.request_code in HAND_MADE | JAVAS_OWN_ORDER, frame
        if frame.request_code in JAVAS_OWN_ORDER:
            assert json.loads(written[Dialect.STANDARD]) == json.loads(frame.body)
        forms["another order, or defaults added"] += 1
    assert forms["the same bytes"] == 167
    assert forms["another order, or defaults added"] == 16


@pytest.mark.parametrize("dialect", Dialect)
def test_the_parts_of_every_recorded_body_are_the_body(dialect: Dialect) -> None:
    for frame, kind in recorded_bodies():
        body = decode_body(kind, frame.body, ANSWER_LIMITS)
        assert b"".join(body_parts(body, dialect)) == encode_body(body, dialect), frame


@pytest.mark.parametrize("dialect", Dialect)
def test_the_parts_of_an_empty_body_are_the_body(dialect: Dialect) -> None:
    for kind in all_bodies():
        if not any(field.required for field in msgspec.structs.fields(kind)):
            assert b"".join(body_parts(kind(), dialect)) == encode_body(kind(), dialect), kind


def test_no_recorded_json_is_without_a_type() -> None:
    for frame in recorded_frames():
        if frame.truncated or not re.match(rb"\s*[\[{]", frame.body) or frame.code == 3442:
            continue
        content = content_of(frame)
        assert content is not None, frame
        assert content.body is not None or frame.request_code in HAND_MADE, frame


@pytest.mark.parametrize("kind", all_bodies(), ids=lambda kind: kind.__name__)
def test_members_stand_in_javas_order_and_none_is_left_out(kind: type[Body]) -> None:
    fields = msgspec.structs.fields(kind)
    body = kind(**{f.name: _sample(f.type) for f in fields if f.required})
    for dialect in Dialect:
        members = parse_json(encode_body(body, dialect))
        assert list(members) == sorted(members)
        assert None not in members.values()
        left_out = {f.encode_name for f in fields} - set(members)
        assert left_out == {f.encode_name for f in fields if not f.required and f.default in (None, "")}


def _sample(kind: Any) -> Any:
    return {str: "x", int: 1}[kind] if kind in (str, int) else kind()


def test_there_is_a_type_for_every_class_of_the_inventory() -> None:
    assert len(all_bodies()) >= 95


MQ = MessageQueue(broker_name="broker-a", queue_id=1, topic="T")
MQ_JSON = '{"brokerName":"broker-a","queueId":1,"topic":"T"}'


def test_object_keys_in_both_dialects() -> None:
    body = ResetOffsetBody(offset_table=ByQueue({MQ: 7}))
    assert encode_body(body, Dialect.JAVA) == f'{{"offsetTable":{{{MQ_JSON}:7}}}}'.encode()
    quoted = json.dumps(MQ_JSON)
    assert encode_body(body, Dialect.STANDARD) == f'{{"offsetTable":{{{quoted}:7}}}}'.encode()
    for dialect in Dialect:
        assert decode_body(ResetOffsetBody, encode_body(body, dialect)) == body


def test_object_keys_with_object_values() -> None:
    body = ConsumeStats(offset_table=ByQueue({MQ: OffsetWrapper(broker_offset=5)}))
    assert encode_body(body, Dialect.JAVA) == (
        b'{"consumeTps":0.0,"offsetTable":{' + MQ_JSON.encode() + b':{"brokerOffset":5,"consumerOffset":0,'
        b'"lastTimestamp":0,"pullOffset":0}}}'
    )


def test_numeric_keys_in_both_dialects() -> None:
    broker = BrokerData(broker_addrs={0: "127.0.0.1:10911"}, broker_name="broker-a", cluster="DefaultCluster")
    route = TopicRouteData(
        broker_datas=[broker],
        queue_datas=[QueueData(broker_name="broker-a", perm=6, read_queue_nums=4, write_queue_nums=4)],
    )
    java = (
        b'{"brokerDatas":[{"brokerAddrs":{0:"127.0.0.1:10911"},"brokerName":"broker-a","cluster":"DefaultCluster",'
        b'"enableActingMaster":false}],"filterServerTable":{},"queueDatas":[{"brokerName":"broker-a","perm":6,'
        b'"readQueueNums":4,"topicSysFlag":0,"writeQueueNums":4}]}'
    )
    assert encode_body(route, Dialect.JAVA) == java
    assert encode_body(route, Dialect.STANDARD) == java.replace(b"{0:", b'{"0":')
    clusters = ClusterInfo(broker_addr_table={"broker-a": broker}, cluster_addr_table={"DefaultCluster": ["broker-a"]})
    assert b'"brokerAddrs":{0:"127' in encode_body(clusters, Dialect.JAVA)
    assert decode_body(TopicRouteData, java) == route


def test_a_subclass_writes_its_members_among_its_parents() -> None:
    body = TopicConfigAndQueueMapping(
        topic_name="T", mapping_detail=TopicQueueMappingDetail(topic="T", curr_id_map={1: 2})
    )
    text = encode_body(body, Dialect.JAVA)
    assert text.startswith(b'{"attributes":{},"mappingDetail":{"currIdMap":{1:2},"dirty":false')
    assert list(parse_json(text)) == sorted(parse_json(text))


def test_lists_of_bodies() -> None:
    users = [UserInfo(username="a"), UserInfo(username="b", password="p")]
    for dialect in Dialect:
        assert encode_body(users, dialect) == b'[{"username":"a"},{"password":"p","username":"b"}]'
        assert encode_body([BrokerData(broker_name="b", broker_addrs={0: "x"})], dialect)
    assert decode_body(list[UserInfo], b'[{"username":"a"},{"password":"p","username":"b"}]') == users
    assert encode_body([]) == b"[]"


def test_a_heartbeat_of_the_cpp_client() -> None:
    """Enums by place, the version as text, sets left out."""
    body = decode_body(
        HeartbeatData,
        b'{"clientID":"c","consumerDataSet":[{"consumeFromWhere":4,"consumeType":1,"groupName":"G","messageModel":0,'
        b'"subscriptionDataSet":[{"subString":"*","subVersion":"17","topic":"T","expressionType":"TAG"}]}]}',
    )
    assert body == HeartbeatData(
        client_id="c",
        consumer_data_set=[
            ConsumerData(
                consume_from_where=ConsumeFromWhere.FIRST_OFFSET,
                consume_type=ConsumeType.PASSIVELY,
                group_name="G",
                message_model=MessageModel.BROADCASTING,
                subscription_data_set=[SubscriptionData(sub_string="*", sub_version=17, topic="T")],
            )
        ],
    )
    assert b'"consumeType":"CONSUME_PASSIVELY"' in encode_body(body)


def test_null_means_absent() -> None:
    topic = decode_body(TopicConfig, b'{"topicName":"T","attributes":null,"perm":null,"order":null}')
    assert topic == TopicConfig(topic_name="T")


@pytest.mark.parametrize(
    ("kind", "text", "words"),
    [
        (KVTable, b"", "the body is no KVTable: not JSON: a value was expected, but the text ends at character 0"),
        (KVTable, b"{", "the body is no KVTable: not JSON: '}' was expected"),
        (KVTable, b"[]", "Expected `object`, got `array`"),
        (KVTable, b'{"table":{"a":1}}', r"Expected `str`, got `int` - at `$.table[...]`"),
        (QueueData, b'{"perm":6}', "missing required field `brokerName`"),
        (QueueData, b'{"brokerName":"b","perm":2147483648}', "Expected `int` <= 2147483647 - at `$.perm`"),
        (ResetOffsetBody, b'{"offsetTable":{{"brokerName":"b","queueId":4294967296,"topic":"T"}:1}}', "2147483647"),
        (BrokerData, b'{"brokerName":"b","brokerAddrs":{"x":"a"}}', "brokerAddrs"),
        (HeartbeatData, b'{"clientID":"c","consumerDataSet":[{"groupName":"G","consumeType":9}]}', "no member 9"),
        (HeartbeatData, b'{"clientID":"c","consumerDataSet":[{"groupName":"G","consumeType":"?"}]}', "consumeType"),
        (ResetOffsetBody, b'{"offsetTable":{"x":1}}', "the body is no ResetOffsetBody"),
        (ResetOffsetBody, b'{"offsetTable":{{"topic":"T"}:1}}', "missing required field `brokerName`"),
        (ResetOffsetBody, b'{"offsetTable":[1]}', "Expected `object`"),
        (list[UserInfo], b"{}", "Expected `array`"),
        (KVTable, b'{"x":' * 50_000, "nested deeper than 64"),
    ],
)
def test_a_bad_body_is_a_bad_request_not_a_broken_frame(kind: Any, text: bytes, words: str) -> None:
    with pytest.raises(Malformed) as raised:
        decode_body(kind, text)
    assert words in str(raised.value)
    assert isinstance(raised.value, RequestRefused)
    assert raised.value.code == 1


def test_the_number_of_values_is_bounded() -> None:
    many = b'{"topicList":[' + b",".join([b'""'] * 2000) + b"]}"
    with pytest.raises(Malformed, match="the limit is 1000"):
        decode_body(KVTable, many, JsonLimits(values=1000))


names = st.text("abcXYZ%_-0189", min_size=1, max_size=12)
queues = st.builds(MessageQueue, broker_name=names, queue_id=st.integers(-1, (1 << 31) - 1), topic=names)


@given(
    st.builds(
        TopicRouteData,
        broker_datas=st.lists(
            st.builds(
                BrokerData,
                broker_addrs=st.dictionaries(st.integers(0, 1 << 40), names, max_size=3),
                broker_name=names,
                cluster=st.none() | names,
                enable_acting_master=st.booleans(),
                zone_name=st.none() | st.text(max_size=5),
            ),
            max_size=3,
        ),
        order_topic_conf=st.none() | st.text(max_size=10),
        queue_datas=st.lists(st.builds(QueueData, broker_name=names, perm=st.integers(0, 15)), max_size=3),
    ),
    st.sampled_from(Dialect),
)
def test_routes_go_there_and_back(route: TopicRouteData, dialect: Dialect) -> None:
    assert decode_body(TopicRouteData, encode_body(route, dialect)) == route


@given(
    st.builds(
        ResetOffsetBody,
        offset_table=st.dictionaries(queues, st.integers(-(1 << 63), (1 << 63) - 1), max_size=4).map(ByQueue),
    ),
    st.sampled_from(Dialect),
)
def test_maps_by_queue_go_there_and_back(body: ResetOffsetBody, dialect: Dialect) -> None:
    assert decode_body(ResetOffsetBody, encode_body(body, dialect)) == body


@given(st.sampled_from(all_bodies()), st.binary(max_size=80) | st.text("{}[]:,\"'01a", max_size=40).map(str.encode))
def test_any_text_is_a_body_or_malformed(kind: type[Body], text: bytes) -> None:
    try:
        decode_body(kind, text)
    except Malformed as fault:
        assert kind.__name__ in str(fault)  # noqa: PT017
