"""Message classes and enums of `apache.rocketmq.v2`, made from the table of `schema.py`; types stand in `v2.pyi`.

    request = v2.SendMessageRequest.FromString(received)
    answer = v2.SendMessageResponse(status=v2.Status(code=v2.Code.OK, message="OK")).SerializeToString()

They live in a descriptor pool of their own, so that a program may load other definitions of the same names beside
them. After a change of the table, `python scripts/grpc_types.py` writes the types anew; a test compares them.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, duration_pb2, message_factory, timestamp_pb2

from .schema import Field, enum_values, message_fields

_PACKAGE = "apache.rocketmq.v2"
_GOOGLE = {"Duration": duration_pb2, "Timestamp": timestamp_pb2}
_Type = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    "string": _Type.TYPE_STRING,
    "bytes": _Type.TYPE_BYTES,
    "bool": _Type.TYPE_BOOL,
    "int32": _Type.TYPE_INT32,
    "int64": _Type.TYPE_INT64,
    "float": _Type.TYPE_FLOAT,
}


def _file(messages: dict[str, list[Field]], enums: dict[str, dict[str, int]]) -> descriptor_pb2.FileDescriptorProto:
    made = descriptor_pb2.FileDescriptorProto(name="apache/rocketmq/v2/all.proto", package=_PACKAGE, syntax="proto3")
    made.dependency.extend(each.DESCRIPTOR.name for each in _GOOGLE.values())
    for name, values in enums.items():
        enum = made.enum_type.add(name=name)
        for value, number in values.items():
            enum.value.add(name=value, number=number)
    for name, fields in messages.items():
        _describe(made.message_type.add(name=name), fields, enums)
    return made


def _describe(message: descriptor_pb2.DescriptorProto, fields: list[Field], enums: dict[str, dict[str, int]]) -> None:
    groups = list(dict.fromkeys(each.group for each in fields if each.group))
    for group in groups:
        message.oneof_decl.add(name=group)
    for each in fields:
        field = message.field.add(name=each.name, number=each.number, label=_Type.LABEL_OPTIONAL)
        if each.label == "map":
            _add_map(message, field)
            continue
        _set_type(field, each.type, enums)
        if each.label == "repeated":
            field.label = _Type.LABEL_REPEATED
        elif each.label == "oneof":
            field.oneof_index = groups.index(each.group)
    for each in fields:  # groups of one, which protobuf wants behind all others
        if each.label == "optional":
            field = next(one for one in message.field if one.name == each.name)
            field.proto3_optional = True
            field.oneof_index = len(message.oneof_decl)
            message.oneof_decl.add(name="_" + each.name)


def _add_map(message: descriptor_pb2.DescriptorProto, field: descriptor_pb2.FieldDescriptorProto) -> None:
    entry = message.nested_type.add(name="".join(word.title() for word in field.name.split("_")) + "Entry")
    entry.options.map_entry = True
    for number, name in ((1, "key"), (2, "value")):
        entry.field.add(name=name, number=number, label=_Type.LABEL_OPTIONAL, type=_Type.TYPE_STRING)
    field.label, field.type = _Type.LABEL_REPEATED, _Type.TYPE_MESSAGE
    field.type_name = f".{_PACKAGE}.{message.name}.{entry.name}"


def _set_type(field: descriptor_pb2.FieldDescriptorProto, kind: str, enums: dict[str, dict[str, int]]) -> None:
    if kind in _SCALARS:
        field.type = _SCALARS[kind]
        return
    field.type = _Type.TYPE_ENUM if kind in enums else _Type.TYPE_MESSAGE
    field.type_name = f".google.protobuf.{kind}" if kind in _GOOGLE else f".{_PACKAGE}.{kind}"


def _classes() -> dict[str, Any]:
    """Return message classes and enums by their names."""
    messages, enums = message_fields(), enum_values()
    pool = descriptor_pool.DescriptorPool()
    for each in _GOOGLE.values():
        pool.AddSerializedFile(each.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(_file(messages, enums).SerializeToString())
    names = [f"google.protobuf.{name}" for name in _GOOGLE] + [f"{_PACKAGE}.{name}" for name in messages]
    found: dict[str, Any] = {name: IntEnum(name, values) for name, values in enums.items()}
    for name in names:
        found[name.rpartition(".")[2]] = message_factory.GetMessageClass(pool.FindMessageTypeByName(name))
    return found


globals().update(_classes())
