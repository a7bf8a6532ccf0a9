"""The columns that a read gives: names, types in Arrow's and in Spark's words, and what is said of an unknown one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

TIMESTAMP = pa.timestamp("us", tz="UTC")
MAP = pa.map_(pa.string(), pa.string())

# name: (Arrow's type, Spark's)
COLUMNS: dict[str, tuple[pa.DataType, str]] = {
    "topic": (pa.string(), "string"),
    "brokerName": (pa.string(), "string"),
    "queueId": (pa.int32(), "int"),
    "queueOffset": (pa.int64(), "bigint"),
    "msgId": (pa.string(), "string"),
    "keys": (pa.string(), "string"),
    "tags": (pa.string(), "string"),
    "body": (pa.binary(), "binary"),
    "properties": (MAP, "map<string,string>"),
    "flag": (pa.int32(), "int"),
    "sysFlag": (pa.int32(), "int"),
    "bornTimestamp": (TIMESTAMP, "timestamp"),
    "bornHost": (pa.string(), "string"),
    "storeTimestamp": (TIMESTAMP, "timestamp"),
    "storeHost": (pa.string(), "string"),
    "reconsumeTimes": (pa.int32(), "int"),
    "commitLogOffset": (pa.int64(), "bigint"),
    "storeSize": (pa.int32(), "int"),
}
DDL = ", ".join(f"{name} {spark}" for name, (_, spark) in COLUMNS.items())

# Python and Spark show the years 1 to 9999; a sender may write any number as its time.
_FIRST_MS, _LAST_MS = -62_135_596_800_000, 253_402_300_799_999


def arrow_schema(names: Iterable[str] = COLUMNS) -> pa.Schema:
    names = list(names)
    check_columns(names)
    return pa.schema([pa.field(name, COLUMNS[name][0]) for name in names])


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
        own, name = COLUMNS[field.name]
        if field.type == own:
            continue  # and Arrow's functions need not be loaded for it, where a process only plans
        try:
            pa.nulls(0, own).cast(field.type)
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid, pa.ArrowTypeError):
            raise ConfigError(
                f"schema: column {field.name} is {name}, which does not become {asked.dataType.simpleString()}"
            ) from None
    return found


def timestamps(milliseconds: npt.NDArray[np.int64]) -> pa.Array:
    """Return the times, null where no calendar has one."""
    absurd = (milliseconds < _FIRST_MS) | (milliseconds > _LAST_MS)
    if not absurd.any():
        return pa.array(milliseconds * 1000).cast(TIMESTAMP)
    return pa.array(np.where(absurd, 0, milliseconds) * 1000, mask=absurd).cast(TIMESTAMP)
