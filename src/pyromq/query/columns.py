"""The columns of a topic in SQL, and how a batch of the Spark source's columns becomes one of them.

They are the source's columns with two differences: a message has one `tag`, and `body` is text, so that JSON in it can
be asked for. A body that is no text is null there; `bodyBytes` has every body as it was sent.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from ..spark.schema import COLUMNS

TAG, TEXT, BYTES = "tag", "body", "bodyBytes"
_MADE_OF = {TAG: "tags", TEXT: "body", BYTES: "body"}
_TYPES = {TEXT: pa.string(), BYTES: pa.binary()}
NAMES = [*(TAG if name == "tags" else name for name in COLUMNS), BYTES]

SCHEMA = pa.schema({name: _TYPES.get(name) or COLUMNS[_MADE_OF.get(name, name)][0] for name in NAMES})


def source_columns(names: Iterable[str]) -> list[str]:
    """Return the columns of the Spark source from which these are made."""
    return list(dict.fromkeys(_MADE_OF.get(name, name) for name in names))


def as_named(batch: pa.RecordBatch, names: Iterable[str]) -> pa.RecordBatch:
    """Return the named columns."""
    made = {}
    for name in names:
        found = batch.column(_MADE_OF.get(name, name))
        if name == TEXT:
            found = as_text(found)
        made[name] = found
    schema = pa.schema([SCHEMA.field(name) for name in made])
    return pa.RecordBatch.from_arrays(list(made.values()), schema=schema)


def as_text(bodies: pa.Array) -> pa.Array:
    """Return bodies as strings, null where they are no UTF-8."""
    try:
        return bodies.cast(pa.string())
    except pa.ArrowInvalid:
        pass
    is_text = np.array([_is_text(each) for each in bodies.to_pylist()], np.bool_)
    kept = pa.array(np.where(is_text, np.arange(len(bodies)), -1), mask=~is_text)
    return bodies.take(kept).cast(pa.string())


def _is_text(body: bytes | None) -> bool:
    try:
        (body or b"").decode()
    except UnicodeDecodeError:
        return False
    return True
