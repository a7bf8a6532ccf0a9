"""Write the types of the gRPC messages, `src/pyromq/protocol/grpc/v2.pyi`, from the table in `schema.py` beside it.

Called by hand after a change of the table: `python scripts/grpc_types.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pyromq.protocol.grpc.schema import Field, enum_values, message_fields

PLACE = Path(__file__).parents[1] / "src/pyromq/protocol/grpc/v2.pyi"
SCALARS = {"string": "str", "bytes": "bytes", "bool": "bool", "int32": "int", "int64": "int", "float": "float"}
HEAD = """# Made by scripts/grpc_types.py from the table in schema.py.
from collections.abc import Iterable, Mapping, MutableMapping
from enum import IntEnum

from google.protobuf.duration_pb2 import Duration as Duration
from google.protobuf.internal.containers import RepeatedCompositeFieldContainer, RepeatedScalarFieldContainer
from google.protobuf.message import Message as _Message
from google.protobuf.timestamp_pb2 import Timestamp as Timestamp
"""


def types(field: Field, enums: set[str]) -> tuple[str, str]:
    """Return the type of a field as it is read, and as the constructor takes it."""
    is_plain = field.type in SCALARS or field.type in enums
    item = SCALARS.get(field.type, "int" if field.type in enums else field.type)
    if field.label == "map":
        return "MutableMapping[str, str]", "Mapping[str, str]"
    if field.label == "repeated":
        container = "RepeatedScalarFieldContainer" if is_plain else "RepeatedCompositeFieldContainer"
        return f"{container}[{item}]", f"Iterable[{item}]"
    return item, item


def stub() -> Iterator[str]:
    """Yield the parts of the file."""
    yield HEAD
    enums = enum_values()
    for name, values in enums.items():
        yield f"\nclass {name}(IntEnum):\n"
        yield from (f"    {value} = {number}\n" for value, number in values.items())
    for name, fields in message_fields().items():
        yield f"\nclass {name}(_Message):\n"
        seen = [(field, *types(field, set(enums))) for field in fields]
        for field, read, _ in seen:
            is_message = field.label in ("map", "repeated") or read not in SCALARS.values()
            if is_message:
                yield f"    @property\n    def {field.name}(self) -> {read}: ...\n"
            else:
                yield f"    {field.name}: {read}\n"
        yield "    def __init__(\n        self,\n        *,\n"
        yield from (f"        {field.name}: {taken} | None = ...,\n" for field, _, taken in seen)
        yield "    ) -> None: ...\n"


if __name__ == "__main__":
    PLACE.write_text("".join(stub()), "utf-8")
