"""Properties in the other forms that a schema may ask for: an object of JSON, or the bytes of the record.

Both are one value a row for Spark, which takes a map out of Arrow pair by pair. Whole chunks at a time. No Spark.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...protocol.properties import rejoin_properties


def as_json(maps: pa.MapArray) -> pa.Array:
    """Return each row's map as an object of JSON, in the order of its pairs."""
    if _is_plain(maps.items):
        heads = _by_dictionary(maps.keys, lambda name: f'{_written(name)}:"')
        pairs = pc.binary_join_element_wise(heads, maps.items, '"', "")
    else:
        names, values = (_by_dictionary(each, _written) for each in (maps.keys, maps.items))
        pairs = pc.binary_join_element_wise(names, values, ":")
    rows = pc.binary_join(pa.ListArray.from_arrays(maps.offsets, pairs), ",")
    return pc.binary_join_element_wise("{", rows, "}", "")


def in_form(properties: Mapping[str, str], kind: pa.DataType) -> object:
    """Return the properties of one message as a value of this type."""
    if pa.types.is_binary(kind):
        return rejoin_properties(properties)
    if pa.types.is_string(kind):
        return json.dumps(properties, ensure_ascii=False, separators=(",", ":"))
    return list(properties.items())


def _is_plain(texts: pa.Array) -> bool:
    """Return whether nothing in the texts has to be escaped."""
    _, _, data = texts.buffers()
    if data is None:
        return True
    octets = np.frombuffer(data, np.uint8)
    return not ((octets < 32) | (octets == ord('"')) | (octets == ord("\\"))).any()


def _written(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _by_dictionary(texts: pa.Array, write: Callable[[str], str]) -> pa.Array:
    """Return what is written for each text. Names are few, so each is written once."""
    known = texts.dictionary_encode()
    return pa.array([write(each) for each in known.dictionary.to_pylist()], pa.string()).take(known.indices)
