"""Apache Avro in single-object encoding: two bytes that say so, the fingerprint of the writer's schema, the record.

    codec = pyromq.Avro({Order: ORDER_2}, known=[ORDER_1])

By the fingerprint a reader finds the schema that a body was written with, and reads it into its own: fields that came
later get their defaults, fields that went are left out. Needs `pip install 'pyromq[avro]'`.
"""

from __future__ import annotations

import datetime
import decimal
import io
import uuid
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar, cast, get_origin

import msgspec

from ..client.errors import BadMessage, Error, NotSupported
from ..text.extras import install_command

T = TypeVar("T")
Schema = Mapping[str, Any]

MARKER = b"\xc3\x01"
SCHEMA_FORMAT = "application/vnd.apache.avro;version=1.9.0"  # the only version that AsyncAPI 3.0 names
_HEAD_BYTES = len(MARKER) + 8
# Types that fastavro reads and writes itself, as Avro's bytes and logical types.
_OWN_TYPES = (bytes, datetime.datetime, datetime.date, datetime.time, decimal.Decimal, uuid.UUID)


class Avro:
    """Any thread may use it. Values are dataclasses, msgspec structs, pydantic models, or dicts."""

    content_type = "application/avro"

    def __init__(self, schemas: Mapping[type, Schema], known: Iterable[Schema] = ()) -> None:
        """`schemas`: what values of each type are written by, and read into. `known`: what others write by, too."""
        try:
            import fastavro
        except ImportError:
            raise NotSupported("fastavro is not installed", hint=f"Type: {install_command('avro')}") from None
        self._fastavro = fastavro
        if not isinstance(schemas, Mapping) or not schemas:
            hint = "Write pyromq.Avro({Order: ORDER_SCHEMA}), or {dict: ORDER_SCHEMA} for dicts"
            raise Error(f"schemas is {schemas!r}, and not a mapping of types to Avro schemas", hint=hint)
        self._schemas = {kind: self._parsed(schema, f"of {_name(kind)}") for kind, schema in schemas.items()}
        others = [self._parsed(schema, f"known[{at}]") for at, schema in enumerate(known)]
        self._heads = {kind: MARKER + self._fingerprint(schema) for kind, schema in self._schemas.items()}
        self._writers = {self._fingerprint(schema): schema for schema in (*self._schemas.values(), *others)}

    def __repr__(self) -> str:
        return f"Avro({', '.join(map(_name, self._schemas))})"

    def encode(self, value: Any, /) -> bytes:
        """Return the value's record behind its schema's fingerprint. BadMessage for what does not fit the schema."""
        kind = self._kind_of(value)
        datum = value.model_dump() if hasattr(value, "model_dump") else value
        out = io.BytesIO()
        out.write(self._heads[kind])
        try:
            plain = msgspec.to_builtins(datum, builtin_types=_OWN_TYPES)
            self._fastavro.schemaless_writer(out, self._schemas[kind], plain, strict_allow_default=True)
        except Exception as fault:  # of fastavro's own, by kind of schema: TypeError, KeyError, OverflowError ...
            raise BadMessage(f"the {type(value).__name__} does not fit its Avro schema: {fault!r}") from None
        return out.getvalue()

    def decode(self, body: bytes, kind: type[T], /) -> T:
        """Return the body as a value of this type, read by its writer's schema. ValueError for a body that is none."""
        read_into = self._schema_of(kind)
        if body[: len(MARKER)] != MARKER or len(body) < _HEAD_BYTES:
            raise ValueError("the body is no Avro object: it does not begin with C3 01 and a fingerprint")
        fingerprint = body[len(MARKER) : _HEAD_BYTES]
        written_by = self._writers.get(fingerprint)
        if written_by is None:
            raise ValueError(
                f"the body was written by an Avro schema that this codec was not given (fingerprint "
                f"{fingerprint.hex()}): add it to Avro(..., known=[...])"
            )
        stream = io.BytesIO(body)
        stream.seek(_HEAD_BYTES)
        try:
            datum = self._fastavro.schemaless_reader(stream, written_by, read_into)
        except Exception as fault:  # what is damaged raises anything: EOFError, IndexError, UnicodeDecodeError ...
            raise ValueError(f"the body is no {_name(kind)}: {fault!r}") from None
        if stream.tell() != len(body):
            raise ValueError(f"the body is no {_name(kind)}: {len(body) - stream.tell()} bytes are left over")
        if hasattr(kind, "model_validate"):
            return kind.model_validate(datum)  # type: ignore[attr-defined, no-any-return]
        return msgspec.convert(datum, kind, builtin_types=_OWN_TYPES)

    def describe(self, kind: Any, /) -> dict[str, Any]:
        """Return the type's schema for AsyncAPI. TypeError for a type without one."""
        schema = self._schema_of(kind)
        shown = {name: value for name, value in schema.items() if not name.startswith("__")}  # those are fastavro's
        return {"payload": {"schemaFormat": SCHEMA_FORMAT, "schema": shown}}

    def _schema_of(self, kind: Any) -> dict[str, Any]:
        found = self._schemas.get(kind) or self._schemas.get(get_origin(kind) or kind)  # dict, for dict[str, int]
        if found is None:
            has = ", ".join(map(_name, self._schemas))
            raise TypeError(f"the Avro codec has no schema of {_name(kind)}, only of {has}")
        return found

    def _kind_of(self, value: Any) -> type:
        found = next((kind for kind in type(value).__mro__ if kind in self._schemas), None)
        if found is None and isinstance(value, dict) and len(self._schemas) == 1:
            return next(iter(self._schemas))  # the type may be a TypedDict, whose values are dicts
        if found is None:
            has = ", ".join(map(_name, self._schemas))
            hint = "Give its schema to the codec, or send bytes"
            raise BadMessage(f"the value is a {type(value).__name__}, and the codec has schemas of {has}", hint=hint)
        return found

    def _parsed(self, schema: Schema, whose: str) -> dict[str, Any]:
        try:
            parsed = self._fastavro.parse_schema(dict(schema))
        except Exception as fault:
            raise Error(f"the Avro schema {whose} cannot be read: {fault!r}", hint="Give it as a dict") from None
        return cast(dict[str, Any], parsed)

    def _fingerprint(self, schema: dict[str, Any]) -> bytes:
        canonical = self._fastavro.schema.to_parsing_canonical_form(schema)
        return bytes.fromhex(self._fastavro.schema.fingerprint(canonical, "CRC-64-AVRO"))


def _name(kind: Any) -> str:
    return getattr(kind, "__name__", repr(kind))
