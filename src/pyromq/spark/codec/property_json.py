"""Properties in the other forms that a schema may ask for: an object of JSON, or the bytes of the record.

Both are one value a row for Spark, which takes a map out of Arrow pair by pair. Whole chunks at a time. No Spark.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from ...protocol.properties import rejoin_properties

_ESCAPED = r'["\\\x00-\x1f]'  # characters that stand otherwise in JSON


def as_json(maps: pa.MapArray) -> pa.Array:
    """Return each row's map as an object of JSON, in the order of its pairs."""
    pairs = pc.binary_join_element_wise(_by_dictionary(maps.keys), _quoted(maps.items), ":")
    rows = pc.binary_join(pa.ListArray.from_arrays(maps.offsets, pairs), ",")
    return pc.binary_join_element_wise("{", rows, "}", "")


def in_form(properties: Mapping[str, str], kind: pa.DataType) -> object:
    """Return the properties of one message as a value of this type."""
    if pa.types.is_binary(kind):
        return rejoin_properties(properties)
    if pa.types.is_string(kind):
        return json.dumps(properties, ensure_ascii=False, separators=(",", ":"))
    return list(properties.items())


def _quoted(texts: pa.Array) -> pa.Array:
    if pc.any(pc.match_substring_regex(texts, _ESCAPED)).as_py():
        return _by_dictionary(texts)
    return pc.binary_join_element_wise('"', texts, '"', "")


def _by_dictionary(texts: pa.Array) -> pa.Array:
    """Return the texts in quotes. Names are few, so each is written once; so is a value where one has to be escaped."""
    known = texts.dictionary_encode()
    written = [json.dumps(each, ensure_ascii=False) for each in known.dictionary.to_pylist()]
    return pa.array(written, pa.string()).take(known.indices)
