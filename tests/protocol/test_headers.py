"""Typed headers: every recorded one reads, goes out again, and says what is wrong with a bad one."""

from __future__ import annotations

import msgspec
import pytest

from pyromq.errors import Malformed
from pyromq.model.boundary import Boundary
from pyromq.protocol.command import Encoding, decode_header
from pyromq.protocol.headers.clients import UnregisterClient
from pyromq.protocol.headers.header import Header, RpcHeader, TopicHeader
from pyromq.protocol.headers.namesrv import GetRouteInfo, RegisterBroker
from pyromq.protocol.headers.offsets import GetMaxOffset, QueryConsumerOffset, SearchOffset
from pyromq.protocol.headers.pull import PullMessage
from pyromq.protocol.headers.send import SHORT_NAMES, SendMessage, SendMessageV2
from pyromq.protocol.requests import NOTHING, ROWS
from pyromq.protocol.row import AnyRow

from .recorded import Recorded, recorded_frames

FROM_HOOKS = {"ReqT", "x"}  # a client hook's mark, and the recorder's own nonsense field


def row_of(frame: Recorded) -> AnyRow | None:
    return ROWS.get(frame.request_code)


def fields_of(frame: Recorded) -> dict[str, str]:
    return decode_header(Encoding[frame.encoding], frame.header_bytes, 1024).fields


def kind_of(frame: Recorded) -> type[Header] | None:
    row = row_of(frame)
    if row is None:
        return None
    return row.takes.header if frame.is_request else row.gives.header


def is_empty_probe(frame: Recorded) -> bool:
    """The recorder also sent every code with an empty header, to see what Java does."""
    return frame.is_request and not set(fields_of(frame)) - FROM_HOOKS


def test_every_recorded_header_goes_through_its_type() -> None:
    seen = 0
    for frame in recorded_frames():
        kind = kind_of(frame)
        fields = fields_of(frame)
        if kind is None:
            assert row_of(frame) is None or not set(fields) - FROM_HOOKS, frame
            continue
        if is_empty_probe(frame) or (not frame.is_request and not fields):
            continue
        if (
            frame.encoding == "ROCKETMQ"
            and frame.header["extFields"].get("b" if kind is SendMessageV2 else "topic") == ""
        ):
            with pytest.raises(Malformed, match="`topic`"):  # sent empty on purpose, which is absent in this encoding
                kind.from_fields(fields)
            continue
        typed = kind.from_fields(fields)
        out = typed.to_fields()
        assert {name: value for name, value in fields.items() if name not in FROM_HOOKS}.items() <= out.items(), frame
        assert kind.from_fields(out) == typed
        defaults = {f.encode_name for f in msgspec.structs.fields(kind) if not f.required and f.default is not None}
        assert set(out) - set(fields) <= defaults, frame  # the short names have none
        seen += 1
    assert seen == 621


def test_an_empty_header_is_refused_by_the_name_of_a_field() -> None:
    refused = 0
    for frame in recorded_frames():
        kind = kind_of(frame)
        if kind is None or not is_empty_probe(frame):
            continue
        required = [f.encode_name for f in msgspec.structs.fields(kind) if f.required]
        if not required:
            kind.from_fields(fields_of(frame))
            continue
        with pytest.raises(Malformed, match=f"missing required field `({'|'.join(required)})`") as raised:
            kind.from_fields(fields_of(frame))
        assert raised.value.code == 1
        refused += 1
    assert refused > 100


def test_unknown_fields_are_ignored() -> None:
    header = GetMaxOffset.from_fields({"topic": "T", "queueId": "3", "ReqT": "0", "AccessKey": "me"})
    assert header == GetMaxOffset(topic="T", queue_id=3, committed=True)


@pytest.mark.parametrize(
    ("sent", "read"), [("true", True), ("false", False), ("1", True), ("0", False), ("TRUE", True)]
)
def test_booleans_as_clients_send_them(sent: str, read: bool) -> None:
    assert GetMaxOffset.from_fields({"topic": "T", "queueId": "0", "committed": sent}).committed is read


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"topic": "T"}, "missing required field `queueId`"),
        ({"topic": "T", "queueId": "x"}, r"Expected `int`, got `str` - at `\$.queueId`, it is 'x'"),
        ({"topic": "T", "queueId": ""}, r"\$.queueId"),
        ({"topic": "T", "queueId": "1.5"}, r"\$.queueId"),
        ({"topic": "T", "queueId": "2147483648"}, r"<= 2147483647 - at `\$.queueId`"),
        ({"topic": "T", "queueId": "0", "committed": "maybe"}, r"\$.committed"),
    ],
)
def test_a_bad_field_is_named(fields: dict[str, str], words: str) -> None:
    with pytest.raises(Malformed, match=words):
        GetMaxOffset.from_fields(fields)


def test_none_is_left_out_and_everything_else_is_text() -> None:
    header = QueryConsumerOffset(consumer_group="G", topic="T", queue_id=-1, set_zero_if_not_found=False, nsd=True)
    assert header.to_fields() == {
        "consumerGroup": "G",
        "topic": "T",
        "queueId": "-1",
        "setZeroIfNotFound": "false",
        "nsd": "true",
    }


SEND = SendMessage(
    producer_group="PG",
    topic="T",
    default_topic="TBW102",
    default_topic_queue_nums=4,
    queue_id=1,
    sys_flag=0,
    born_timestamp=1_700_000_000_000,
    flag=0,
    properties="TAGS\x01A\x02",
    reconsume_times=0,
    unit_mode=False,
    batch=False,
    max_reconsume_times=16,
    bname="broker-a",
    lo=False,
)


def test_the_short_names_are_the_long_ones() -> None:
    short = SendMessageV2(**{name: getattr(SEND, name) for name in SEND.__struct_fields__})
    long_fields, short_fields = SEND.to_fields(), short.to_fields()
    assert set("abcdefghijklmn") <= set(short_fields)
    assert {SHORT_NAMES.get(name, name): value for name, value in short_fields.items()} == long_fields
    assert short_fields["n"] == "broker-a"
    assert SendMessageV2.from_fields(short_fields).to_fields() == short_fields
    assert SendMessageV2._from_any_names(short_fields) == short
    assert isinstance(short, SendMessage)


def test_a_bad_short_field_is_named_both_ways() -> None:
    with pytest.raises(Malformed, match="missing required field `producerGroup`, sent as `a`"):
        SendMessageV2.from_fields({"b": "T"})
    fields = SendMessageV2.from_fields(
        {"a": "P", "b": "T", "c": "D", "d": "4", "e": "0", "f": "0", "g": "0", "h": "0"}
    ).to_fields()
    with pytest.raises(Malformed, match=r"\$.queueId`, it is 'many', sent as `e`"):
        SendMessageV2.from_fields(fields | {"e": "many"})


@pytest.mark.parametrize(
    ("sent", "read"), [("LOWER", Boundary.LOWER), ("upper", Boundary.UPPER), ("?", Boundary.LOWER)]
)
def test_boundaries_of_a_search_by_time(sent: str, read: Boundary) -> None:
    header = SearchOffset.from_fields({"topic": "T", "queueId": "0", "timestamp": "5", "boundaryType": sent})
    assert header.boundary_type is read


def test_names_that_do_not_follow_the_rule() -> None:
    assert UnregisterClient(client_id="c").to_fields() == {"clientID": "c"}
    assert GetRouteInfo.from_fields({"topic": "T", "__ZONE_NAME": "z", "__ZONE_MODE": "true"}).zone_mode is True
    assert "proxyFrowardClientId" in PullMessage.__struct_encode_fields__
    assert "bodyCrc32" in RegisterBroker.__struct_encode_fields__


def test_codes_and_headers_are_linked_in_one_table() -> None:
    empty = {int(row) for row in ROWS.values() if row.takes is NOTHING and row.gives is NOTHING}
    # Without 306, 316, 329 and 200056, which say what to do by their codes alone: legacy numbers, internals of the
    # controller, 4.9's own ACL, and a number without a meaning yet.
    assert empty - {306, 316, 329, 200056} == (
        {13, 22, 23, 27, 47, 50, 51, 52, 53, 209, 210, 211, 212, 213, 214, 301, 302, 200072} | set(range(1014, 1019))
    )


def test_field_names_are_unique_in_each_header() -> None:
    for row in ROWS.values():
        for kind in (row.takes.header, row.gives.header):
            if kind is not None:
                assert len(set(kind.__struct_encode_fields__)) == len(kind.__struct_encode_fields__)
    assert issubclass(TopicHeader, RpcHeader)


def test_short_names_are_read_the_same_the_quick_way() -> None:
    fields = SendMessageV2(**{name: getattr(SEND, name) for name in SEND.__struct_fields__}).to_fields()
    for given in (fields, fields | {"AccessKey": "who", "zzz": "1"}, SEND.to_fields()):
        quick, slow = SendMessageV2.from_fields(given), SendMessageV2._from_any_names(given)
        assert {name: getattr(quick, name) for name in slow.__struct_fields__} == {
            name: getattr(slow, name) for name in slow.__struct_fields__
        }
    assert SendMessageV2.from_fields(fields).to_fields() == fields
    with pytest.raises(Malformed, match=r"queueId.*sent as `e`"):
        SendMessageV2.from_fields(fields | {"e": "many"})
