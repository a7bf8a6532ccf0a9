"""Avro records as bodies: single-object encoding, schemas that changed, values and bodies that do not fit."""

from __future__ import annotations

import datetime
import io
import re
import sys
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypedDict
from uuid import UUID

import fastavro
import msgspec
import pydantic
import pytest

import pyromq
from pyromq.text.extras import install_command
from tests.codecs.shop import ORDER_1, ORDER_2, OldOrder, Order

CODEC = pyromq.Avro({Order: ORDER_2}, known=[ORDER_1])
OLD = pyromq.Avro({OldOrder: ORDER_1})

EVERYTHING: dict[str, Any] = {
    "type": "record",
    "name": "Everything",
    "fields": [
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "ident", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "raw", "type": "bytes"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {
            "name": "lines",
            "type": {
                "type": "array",
                "items": {"type": "record", "name": "Line", "fields": [{"name": "sku", "type": "string"}]},
            },
        },
    ],
}


@dataclass
class Line:
    sku: str


@dataclass
class Everything:
    price: Decimal
    at: datetime.datetime
    day: datetime.date
    ident: UUID
    raw: bytes
    lines: list[Line]
    note: str | None = None


class OrderDict(TypedDict):
    id: int
    buyer: str


class OrderStruct(msgspec.Struct):
    id: int
    buyer: str


class OrderModel(pydantic.BaseModel):
    id: int
    buyer: str


def test_a_body_is_the_single_object_encoding_of_the_specification() -> None:
    body = CODEC.encode(Order(1, "ann"))
    canonical = fastavro.schema.to_parsing_canonical_form(ORDER_2)
    fingerprint = bytes.fromhex(fastavro.schema.fingerprint(canonical, "CRC-64-AVRO"))
    assert body == b"\xc3\x01" + fingerprint + b"\x02\x06ann"
    of_int = bytes.fromhex(fastavro.schema.fingerprint('"int"', "CRC-64-AVRO"))
    assert of_int == 0x7275D51A3F395C8F.to_bytes(8, "little")  # the specification's own value, as a body has it


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Order, Order(7, "bob")),
        (OrderStruct, OrderStruct(7, "bob")),
        (OrderModel, OrderModel(id=7, buyer="bob")),
        (dict, {"id": 7, "buyer": "bob"}),
        (OrderDict, {"id": 7, "buyer": "bob"}),
    ],
)
def test_values_of_every_kind_go_there_and_back(kind: Any, value: Any) -> None:
    codec = pyromq.Avro({kind: ORDER_2})
    assert codec.encode(value) == CODEC.encode(Order(7, "bob"))
    found = codec.decode(codec.encode(value), kind)
    assert (found, type(found)) == (value, type(value))


def test_a_hint_may_say_more_of_a_dict_than_the_codec() -> None:
    codec = pyromq.Avro({dict: ORDER_2})
    assert codec.decode(CODEC.encode(Order(7, "bob")), dict[str, int | str]) == {"id": 7, "buyer": "bob"}


def test_logical_types_and_records_in_records() -> None:
    codec = pyromq.Avro({Everything: EVERYTHING})
    value = Everything(
        price=Decimal("9.50"),
        at=datetime.datetime(2026, 11, 17, 8, 30, tzinfo=datetime.UTC),
        day=datetime.date(2026, 11, 17),
        ident=UUID(int=5),
        raw=b"\0\xff",
        lines=[Line("a"), Line("b")],
    )
    assert codec.decode(codec.encode(value), Everything) == value


def test_a_body_of_an_older_schema_is_read_into_the_newer_one() -> None:
    assert CODEC.decode(OLD.encode(OldOrder(3, "half")), Order) == Order(3, "unknown")


def test_a_body_of_a_newer_schema_is_read_by_who_knows_it() -> None:
    body = CODEC.encode(Order(3, "ann"))
    with pytest.raises(ValueError, match=rf"not given \(fingerprint {body[2:10].hex()}\): add it to Avro\(..., known="):
        OLD.decode(body, OldOrder)
    assert pyromq.Avro({OldOrder: ORDER_1}, known=[ORDER_2]).decode(body, OldOrder) == OldOrder(3)


def test_a_body_of_another_record_is_refused() -> None:
    invoice = {"type": "record", "name": "Invoice", "fields": [{"name": "total", "type": "double"}]}
    other = pyromq.Avro({dict: invoice})
    codec = pyromq.Avro({Order: ORDER_2}, known=[invoice])
    with pytest.raises(ValueError, match="the body is no Order: SchemaResolutionError"):
        codec.decode(other.encode({"total": 1.5}), Order)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (Order("x", "ann"), "the Order does not fit its Avro schema: .*field id"),  # type: ignore[arg-type]
        ({"id": 1, "byer": "ann"}, "the dict does not fit its Avro schema: .*byer"),
        ({"buyer": "ann"}, "the dict does not fit its Avro schema: .*id"),
        (OldOrder(1), "the value is a OldOrder, and the codec has schemas of Order"),
        (3, "the value is a int, and the codec has schemas of Order"),
    ],
)
def test_values_that_do_not_fit_are_refused(value: Any, said: str) -> None:
    with pytest.raises(pyromq.BadMessage, match=said):
        CODEC.encode(value)


def test_bodies_that_are_damaged_are_refused() -> None:
    body = CODEC.encode(Order(1, "ann"))
    for bad in (b"", b'{"id":1}', body[:8]):
        with pytest.raises(ValueError, match="does not begin with C3 01 and a fingerprint"):
            CODEC.decode(bad, Order)
    for cut in range(10, len(body)):
        with pytest.raises(ValueError, match="the body is no Order"):
            CODEC.decode(body[:cut], Order)
    with pytest.raises(ValueError, match="the body is no Order: 2 bytes are left over"):
        CODEC.decode(body + b"xx", Order)


def test_types_without_a_schema_are_refused() -> None:
    with pytest.raises(TypeError, match="the Avro codec has no schema of OldOrder, only of Order"):
        CODEC.decode(CODEC.encode(Order(1, "a")), OldOrder)


@pytest.mark.parametrize(
    ("schemas", "known", "said"),
    [
        ({}, (), "schemas is {}, and not a mapping of types to Avro schemas"),
        ([ORDER_2], (), "and not a mapping of types to Avro schemas"),
        ({Order: "long"}, (), "the Avro schema of Order cannot be read"),
        ({Order: {"type": "rekord"}}, (), "the Avro schema of Order cannot be read: UnknownType"),
        ({Order: ORDER_2}, [{"type": "record"}], r"the Avro schema known\[0\] cannot be read"),
    ],
)
def test_schemas_are_checked_where_they_are_given(schemas: Any, known: Any, said: str) -> None:
    with pytest.raises(pyromq.Error, match=said):
        pyromq.Avro(schemas, known)


def test_what_asyncapi_says_of_a_type() -> None:
    found = CODEC.describe(Order)["payload"]
    assert found["schemaFormat"] == "application/vnd.apache.avro;version=1.9.0"
    fastavro.schemaless_reader(io.BytesIO(CODEC.encode(Order(1, "a"))[10:]), found["schema"], None)
    assert {each["name"] for each in found["schema"]["fields"]} == {"id", "buyer"}
    assert not [name for name in found["schema"] if name.startswith("_")]


def test_without_the_package_one_line_says_what_to_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastavro", None)
    with pytest.raises(
        pyromq.NotSupported, match=re.escape(f"fastavro is not installed. Type: {install_command('avro')}")
    ):
        pyromq.Avro({Order: ORDER_2})
