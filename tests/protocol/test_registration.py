"""The body of REGISTER_BROKER in its three forms."""

from __future__ import annotations

import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.errors import Malformed
from pyromq.model.client_info import Version
from pyromq.protocol.bodies.body import DataVersion, encode_body
from pyromq.protocol.bodies.registration import RegisterBrokerBody, RegistrationReader, body_crc, encode_registration
from pyromq.protocol.bodies.topics import (
    TopicConfig,
    TopicConfigAndMappingSerializeWrapper,
    TopicQueueMappingInfo,
)
from tests.cpu_time import cpu_s
from tests.wire import decode_registration

V5 = Version.V5_5_0
V4 = Version.V4_9_4

BODY = RegisterBrokerBody(
    filter_server_list=["127.0.0.1:1"],
    topic_config_serialize_wrapper=TopicConfigAndMappingSerializeWrapper(
        data_version=DataVersion(counter=3, timestamp=5),
        topic_config_table={
            "T": TopicConfig(topic_name="T", perm=6, attributes={"message.type": "FIFO"}),
            "%RETRY%G": TopicConfig(topic_name="%RETRY%G", read_queue_nums=1, write_queue_nums=1),
        },
        topic_queue_mapping_info_map={
            "S": TopicQueueMappingInfo(topic="S", bname="broker-a", total_queues=4, curr_id_map={0: 1}, epoch=9)
        },
    ),
)


def part(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def deflated(*parts: bytes) -> bytes:
    return zlib.compress(b"".join(parts))


VERSION = part(b'{"counter":1,"stateVersion":0,"timestamp":5}')


@pytest.mark.parametrize("compressed", [False, True])
def test_both_forms_go_there_and_back(compressed: bool) -> None:
    assert decode_registration(encode_registration(BODY, compressed), V5, compressed) == BODY


def test_the_compressed_form_is_known_by_itself() -> None:
    """Brokers of 5.x write compressed=false even when they compress."""
    assert decode_registration(encode_registration(BODY, compressed=True), V5, compressed=False) == BODY


def test_below_5_the_compressed_form_has_no_mappings() -> None:
    old = decode_registration(encode_registration(BODY, compressed=True), V4, compressed=True)
    assert old.topic_config_serialize_wrapper.topic_queue_mapping_info_map == {}
    assert list(old.topic_config_serialize_wrapper.topic_config_table) == ["T", "%RETRY%G"]
    assert decode_registration(deflated(VERSION, part(b"")[:4], part(b"[]")), V4, True).filter_server_list == []


def test_below_3_0_11_the_body_is_the_bare_table() -> None:
    table = TopicConfigAndMappingSerializeWrapper(topic_config_table={"T": TopicConfig(topic_name="T")})
    body = decode_registration(encode_body(table), version=0)
    assert list(body.topic_config_serialize_wrapper.topic_config_table) == ["T"]
    # A whole body sent with such a version registers nothing, as seen in Java.
    assert (
        decode_registration(encode_registration(BODY), version=0).topic_config_serialize_wrapper.topic_config_table
        == {}
    )


def test_no_body_changes_no_topic() -> None:
    assert decode_registration(b"", V5) == RegisterBrokerBody()


def test_attributes_may_hold_blanks_or_be_absent() -> None:
    topics = [b"A 1 2 6 SINGLE_TAG", b'B 1 2 6 SINGLE_TAG {"a":"b c"}']
    data = deflated(VERSION, struct.pack(">i", 2), *map(part, topics), part(b"[]"))
    table = decode_registration(data, V4, True).topic_config_serialize_wrapper.topic_config_table
    assert table["A"] == TopicConfig(topic_name="A", read_queue_nums=1, write_queue_nums=2)
    assert table["B"].attributes == {"a": "b c"}


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"x\x9cgarbage", "no deflate stream"),
        (encode_registration(BODY, compressed=True)[:-9], "cut off"),
        (deflated(b"\0\0"), "ends at byte 0 where a length was expected"),
        (deflated(struct.pack(">i", 100)), "a part of 100 bytes at 4 of 4"),
        (deflated(struct.pack(">i", -1)), "a part of -1 bytes"),
        (deflated(part(b"nonsense")), "the body is no DataVersion"),
        (
            deflated(VERSION, struct.pack(">i", 1), part(b"T 1 2")),
            "no `topic read write perm filter attributes`: 'T 1 2'",
        ),
        (deflated(VERSION, struct.pack(">i", 1), part(b"T x 2 6 SINGLE_TAG")), "no `topic read write"),
        (deflated(VERSION, struct.pack(">i", 1), part(b"T 4294967296 2 6 SINGLE_TAG")), "<= 2147483647"),
        (deflated(VERSION, struct.pack(">i", 2**31 - 1)), "where a length was expected"),
        (deflated(VERSION, bytes(4), part(b"{}")), "Expected `array`"),
        (b'{"topicConfigSerializeWrapper":7}', "the body is no RegisterBrokerBody"),
    ],
)
def test_a_bad_registration_is_refused_in_words(data: bytes, words: str) -> None:
    with pytest.raises(Malformed) as raised:
        decode_registration(data, V5)
    assert words in str(raised.value)


def test_inflation_is_bounded() -> None:
    bomb = zlib.compress(bytes(32 << 20), 9)
    assert len(bomb) < 40_000
    with pytest.raises(Malformed, match="inflates to more than 1048576 bytes"):
        decode_registration(bomb, V5, max_inflated=1 << 20)
    plain = VERSION + bytes(4) + part(b"[]") + bytes(4)
    assert decode_registration(zlib.compress(plain), V5, max_inflated=len(plain))


def test_the_crc_of_a_body() -> None:
    assert body_crc(b"hello") == zlib.crc32(b"hello") & 0x7FFF_FFFF
    assert body_crc(b"a") == 0x68B7BE43  # the top bit of e8b7be43 is cut


names = st.text("abcXYZ%_-019", min_size=1, max_size=12)


@given(
    st.dictionaries(
        names,
        st.builds(
            TopicConfig,
            read_queue_nums=st.integers(0, 100),
            perm=st.integers(0, 15),
            attributes=st.dictionaries(names, st.text(max_size=6), max_size=2),
        ),
        max_size=4,
    ),
    st.booleans(),
)
def test_any_table_goes_there_and_back(table: dict[str, TopicConfig], compressed: bool) -> None:
    for name, topic in table.items():
        topic.topic_name = name
    body = RegisterBrokerBody(
        topic_config_serialize_wrapper=TopicConfigAndMappingSerializeWrapper(topic_config_table=table)
    )
    assert decode_registration(encode_registration(body, compressed), V5, compressed) == body


# --- what reading it may cost ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("compressed", [False, True])
def test_a_large_registration_is_read_topic_by_topic(compressed: bool) -> None:
    topics = {f"T{number}": TopicConfig(topic_name=f"T{number}") for number in range(3_000)}
    body = RegisterBrokerBody(
        topic_config_serialize_wrapper=TopicConfigAndMappingSerializeWrapper(topic_config_table=topics)
    )
    reader = RegistrationReader(encode_registration(body, compressed), V5, compressed)
    assert sum(1 for _ in reader.read_slices()) >= 3_000
    assert reader.body == body


def test_a_deflate_stream_is_inflated_step_by_step_and_not_beyond_the_limit() -> None:
    steps = RegistrationReader(zlib.compress(bytes(64 << 20)), V5).read_slices()
    for _ in range(100):
        next(steps)
    with pytest.raises(Malformed, match="inflates to more than 33554432 bytes"):
        list(steps)


@pytest.mark.parametrize(
    "data",
    [
        b"{" + b"," * 3_900_000 + b"}",
        b"{" + b"," * 190_000 + b"}",
        b'{"filterServerList":[' + b'"",' * 1_900_000 + b'""]}',
        b"{" + b",".join(b"%d:0" % number for number in range(90_000)) + b"}",
    ],
    ids=["commas", "fewer commas", "filter servers", "odd keys"],
)
def test_a_hostile_registration_is_refused_before_work_is_spent_on_it(data: bytes) -> None:
    """Up to 3 s of the name server's loop each. The margin is wide."""

    def refused() -> None:
        with pytest.raises(Malformed):
            decode_registration(data, V5)

    assert cpu_s(refused) < 0.15


def test_a_topic_that_is_null_is_absent() -> None:
    data = b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"T":null,"U":{"topicName":"U"}}}}'
    assert list(decode_registration(data, V5).topic_config_serialize_wrapper.topic_config_table) == ["U"]


def test_a_table_with_keys_as_java_writes_them_is_read_in_full() -> None:
    """A broker with 8,000 topics, one of them static: only what is odd is repaired."""
    topics = {f"topic-{number}": TopicConfig(topic_name=f"topic-{number}") for number in range(8_000)}
    mapping = TopicQueueMappingInfo(
        topic="topic-1", bname="b", total_queues=4, curr_id_map=dict.fromkeys(range(500), 1)
    )
    body = RegisterBrokerBody(
        topic_config_serialize_wrapper=TopicConfigAndMappingSerializeWrapper(
            topic_config_table=topics, topic_queue_mapping_info_map={"topic-1": mapping}
        )
    )
    assert decode_registration(encode_registration(body), V5) == body
