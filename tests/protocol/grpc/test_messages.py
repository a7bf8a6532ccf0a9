"""The message classes against every recorded message of Apache's clients and proxy."""

from __future__ import annotations

import base64
import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict

from pyromq.protocol.grpc import v2
from pyromq.protocol.grpc.schema import RPCS, enum_values, message_fields

ROOT = Path(__file__).parents[3]
INDEX = ROOT / "tests/golden/grpc/index.jsonl"


def recorded() -> Iterator[tuple[int, Any, bytes, Any]]:
    """Yield call, class, bytes and decoded form of each message that was recorded whole."""
    for line in INDEX.read_text("utf-8").splitlines():
        call = json.loads(line)
        for each in call["messages"]:
            if not each.get("truncated"):
                kind = getattr(v2, each["type"].rpartition(".")[2])
                yield call["call"], kind, base64.b64decode(each["b64"]), each["json"]


RECORDED = list(recorded())


def has_map(message: Any) -> bool:
    """Return whether a map of several entries is in it: their order on the wire means nothing."""
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        if field.message_type.GetOptions().map_entry:
            if len(value) > 1:
                return True
        elif any(has_map(one) for one in (value if field.is_repeated else [value])):
            return True
    return False


def test_every_recorded_message_is_encoded_as_it_came() -> None:
    assert len(RECORDED) > 1500
    for call, kind, wire, _ in RECORDED:
        message = kind.FromString(wire)
        again = message.SerializeToString()
        if has_map(message):
            assert kind.FromString(again) == message, call
            assert sorted(again) == sorted(wire), call
        else:
            assert again == wire, call


def test_every_recorded_field_has_its_name_and_value() -> None:
    for call, kind, wire, decoded in RECORDED:
        message = kind.FromString(wire)
        assert MessageToDict(message, preserving_proto_field_name=True) == decoded, call


def test_every_rpc_has_its_messages() -> None:
    names = message_fields().keys()
    assert len(RPCS) == 17
    assert {name for rpc in RPCS.values() for name in (rpc.request, rpc.response)} <= names
    assert [name for name, rpc in RPCS.items() if rpc.streams_responses] == [
        "ReceiveMessage", "PullMessage", "Telemetry",
    ]  # fmt: skip
    assert RPCS["SendMessage"].path == "/apache.rocketmq.v2.MessagingService/SendMessage"


def test_every_type_of_the_table_is_known() -> None:
    scalars = {"string", "bytes", "bool", "int32", "int64", "float", "Duration", "Timestamp"}
    known = scalars | message_fields().keys() | enum_values().keys()
    used = {field.type for fields in message_fields().values() for field in fields}
    assert used <= known


def test_plain_values_with_presence_tell_absent_from_empty() -> None:
    properties = v2.SystemProperties()
    assert not properties.HasField("tag")
    properties.tag = ""
    assert properties.HasField("tag")
    assert v2.SystemProperties.FromString(properties.SerializeToString()).HasField("tag")


def test_one_field_of_a_group_takes_the_place_of_another() -> None:
    answer = v2.ReceiveMessageResponse(status=v2.Status(code=v2.Code.OK))
    answer.delivery_timestamp.FromMilliseconds(1_700_000_000_123)
    assert answer.WhichOneof("content") == "delivery_timestamp"


def test_codes_of_newer_servers_are_kept() -> None:
    status = v2.Status.FromString(v2.Status(code=4711).SerializeToString())
    assert status.code == 4711


def test_the_types_are_those_of_the_table() -> None:
    place = ROOT / "scripts/grpc_types.py"
    spec = importlib.util.spec_from_file_location("grpc_types", place)
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert script.PLACE.read_text("utf-8") == "".join(script.stub()), "run python scripts/grpc_types.py"


@pytest.mark.parametrize("wire", [b"\x0a", b"\xff\xff\xff", b"\x0a\x05ab"])
def test_bytes_that_are_no_message_are_refused(wire: bytes) -> None:
    with pytest.raises(Exception, match="rror"):
        v2.QueryRouteRequest.FromString(wire)
