"""The columns that a read gives: names, types in Arrow's and in Spark's words, and what is said of an unknown one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..errors import ConfigError
from ..model.ids import host_text
from ..model.message import Property, StoredMessage
from ..protocol.messages import UnreadableMessage

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

TIMESTAMP = pa.timestamp("us", tz="UTC")
MAP = pa.map_(pa.string(), pa.string())

# name: Arrow's type, Spark's, and its value in a message that is read alone (a broker's name is in none)
COLUMNS: dict[str, tuple[pa.DataType, str, Callable[[StoredMessage], Any]]] = {
    "topic": (pa.string(), "string", lambda each: each.topic or None),
    "brokerName": (pa.string(), "string", lambda each: None),
    "queueId": (pa.int32(), "int", attrgetter("queue_id")),
    "queueOffset": (pa.int64(), "bigint", attrgetter("queue_offset")),
    "msgId": (pa.string(), "string", attrgetter("message_id")),
    "keys": (pa.string(), "string", lambda each: each.properties.get(Property.KEYS)),
    "tags": (pa.string(), "string", lambda each: each.properties.get(Property.TAGS)),
    "body": (pa.binary(), "binary", lambda each: None if isinstance(each, UnreadableMessage) else each.body),
    "properties": (MAP, "map<string,string>", lambda each: list(each.properties.items())),
    "flag": (pa.int32(), "int", attrgetter("flag")),
    "sysFlag": (pa.int32(), "int", attrgetter("sys_flag")),
    "bornTimestamp": (TIMESTAMP, "timestamp", attrgetter("born_timestamp")),
    "bornHost": (pa.string(), "string", lambda each: host_text(each.born_host)),
    "storeTimestamp": (TIMESTAMP, "timestamp", attrgetter("store_timestamp")),
    "storeHost": (pa.string(), "string", lambda each: host_text(each.store_host)),
    "reconsumeTimes": (pa.int32(), "int", attrgetter("reconsume_times")),
    "commitLogOffset": (pa.int64(), "bigint", attrgetter("physical_offset")),
    "storeSize": (pa.int32(), "int", attrgetter("store_size")),
}
DDL = ", ".join(f"{name} {spark}" for name, (_, spark, _) in COLUMNS.items())

# Python and Spark show the years 1 to 9999; a sender may write any number as its time.
_FIRST_MS, _LAST_MS = -62_135_596_800_000, 253_402_300_799_999

_SHOWN = 120  # characters of what Arrow says of a value, which may be a whole body


def arrow_schema(names: Iterable[str] = COLUMNS) -> pa.Schema:
    names = list(names)
    check_columns(names)
    return pa.schema({name: COLUMNS[name][0] for name in names})


def check_columns(names: Sequence[str]) -> None:
    """Raise ConfigError for a column that does not exist; it names the nearest that does."""
    for name in names:
        if name not in COLUMNS:
            nearest = get_close_matches(name, COLUMNS, 1, 0.4)
            hint = f"did you mean {nearest[0]}? " if nearest else ""
            raise ConfigError(f"schema: there is no column {name!r}; {hint}The columns are {', '.join(COLUMNS)}")


def arrow_of(schema: StructType) -> pa.Schema:
    """Return Spark's schema as Arrow's: columns that nobody asks for are not made.

    ConfigError for a column that does not exist, or one whose type cannot be made.
    """
    from pyspark.sql.pandas.types import to_arrow_schema

    check_columns(schema.names)
    found = to_arrow_schema(schema, timezone="UTC")
    for field, asked in zip(found, schema, strict=True):
        own, name, _ = COLUMNS[field.name]
        if field.type == own or (own == MAP and field.type in (pa.string(), pa.binary())):
            continue  # and Arrow's functions need not be loaded for it, where a process only plans
        try:
            pa.nulls(0, own).cast(field.type)
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid, pa.ArrowTypeError):
            raise ConfigError(
                f"schema: column {field.name} is {name}, which does not become {asked.dataType.simpleString()}"
            ) from None
    return found


def as_type(array: pa.Array, field: pa.Field, place: Callable[[int], str]) -> pa.Array:
    """Return the column in the type that the query gave it. ConfigError names the `place` of a value that does not fit.

    Which values fit is known only when they are read: a body may hold anything.
    """
    if array.type.equals(field.type):
        return array
    try:
        return array.cast(field.type)
    except pa.ArrowInvalid as fault:
        row = next(row for row in range(len(array)) if not _fits(array.slice(row, 1), field.type))
        raise ConfigError(
            f"schema: column {field.name} of {place(row)} does not become {field.type} ({str(fault)[:_SHOWN]}); read "
            f"it as {COLUMNS[field.name][1]}, which holds every value, and convert it in the query (try_cast)"
        ) from None


def _fits(value: pa.Array, kind: pa.DataType) -> bool:
    try:
        value.cast(kind)
    except pa.ArrowInvalid:
        return False
    return True


def timestamps(milliseconds: npt.NDArray[np.int64]) -> pa.Array:
    """Return the times, null where no calendar has one."""
    absurd = (milliseconds < _FIRST_MS) | (milliseconds > _LAST_MS)
    if not absurd.any():
        return pa.array(milliseconds * 1000).cast(TIMESTAMP)
    return pa.array(np.where(absurd, 0, milliseconds) * 1000, mask=absurd).cast(TIMESTAMP)
