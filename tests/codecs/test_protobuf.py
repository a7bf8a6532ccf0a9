"""Protobuf messages as bodies: the wire format of everybody, defaults that are no bytes, what is none."""

from __future__ import annotations

import re
import sys
from typing import Any

import pytest
from google.protobuf.struct_pb2 import Value
from google.protobuf.timestamp_pb2 import Timestamp

import pyromq
from pyromq.text.extras import install_command
from tests.codecs.shop import ORDER

CODEC = pyromq.Protobuf()


def test_bodies_are_protobufs_own_wire_format() -> None:
    assert CODEC.encode(ORDER(id=1, buyer="ann")) == b"\x08\x01\x12\x03ann"
    assert CODEC.decode(b"\x08\x01\x12\x03ann", ORDER) == ORDER(id=1, buyer="ann")
    assert CODEC.decode(CODEC.encode(Timestamp(seconds=7)), Timestamp).seconds == 7


def test_a_message_of_defaults_has_a_body_that_every_reader_takes() -> None:
    body = CODEC.encode(ORDER())
    assert body  # brokers refuse none
    assert CODEC.decode(body, ORDER) == ORDER()
    foreign = ORDER.FromString(body)
    assert (foreign.id, foreign.buyer) == (0, "")


@pytest.mark.parametrize("value", [{"id": 1}, "text", 3, None, ORDER])
def test_other_values_are_refused_with_their_type(value: Any) -> None:
    with pytest.raises(pyromq.BadMessage, match=f"the value is a {type(value).__name__}, and not a protobuf message"):
        CODEC.encode(value)


@pytest.mark.parametrize("body", [b'{"id": 1}', b"\xff", b"\x12\x05ann"])
def test_other_bodies_are_refused(body: bytes) -> None:
    with pytest.raises(ValueError, match="the body is no Order: "):
        CODEC.decode(body, ORDER)


@pytest.mark.parametrize("kind", [dict, list[int], int | None])
def test_other_types_are_refused(kind: Any) -> None:
    with pytest.raises(TypeError, match="is no class of protobuf messages"):
        CODEC.decode(b"\x08\x01", kind)


def test_what_asyncapi_says_of_a_message() -> None:
    assert CODEC.describe(ORDER) == {
        "name": "shop.Order",
        "x-protobuf": {"message": "shop.Order", "file": "shop.proto"},
    }
    assert CODEC.describe(Value)["x-protobuf"]["file"] == "google/protobuf/struct.proto"


def test_without_the_package_one_line_says_what_to_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "google.protobuf.message", None)
    with pytest.raises(
        pyromq.NotSupported, match=re.escape(f"protobuf is not installed. Type: {install_command('protobuf')}")
    ):
        pyromq.Protobuf()
