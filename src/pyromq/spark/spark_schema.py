"""Spark's schema of a read as Arrow's. Columns that nobody asks for are not made, so the schema is what prunes."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from ..errors import ConfigError
from .schema import COLUMNS, check_columns


def arrow_of(schema: StructType) -> pa.Schema:
    """Return the Arrow schema. ConfigError for a column that does not exist, or one whose type cannot be made."""
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
