"""A shop's messages for the tests of codecs: protobuf classes made at run time, Avro schemas of two versions.

`ORDER` is the class that protoc would generate of

    syntax = "proto3";
    package shop;
    message Order { int64 id = 1; string buyer = 2; }
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory


def _order_class() -> Any:
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    message = file.message_type.add(name="Order")
    message.field.add(name="id", number=1, type=field.TYPE_INT64, label=field.LABEL_OPTIONAL)
    message.field.add(name="buyer", number=2, type=field.TYPE_STRING, label=field.LABEL_OPTIONAL)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


ORDER = _order_class()

ORDER_1: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [{"name": "id", "type": "long"}, {"name": "coupon", "type": "string", "default": ""}],
}
ORDER_2: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [{"name": "id", "type": "long"}, {"name": "buyer", "type": "string", "default": "unknown"}],
}


@dataclass
class OldOrder:
    """As `ORDER_1` has it."""

    id: int
    coupon: str = ""


@dataclass
class Order:
    """As `ORDER_2` has it."""

    id: int
    buyer: str
