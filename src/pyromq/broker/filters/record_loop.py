"""An expression and the way to its properties in a record as one generated loop: what a filtered pull asks of each.

Only the properties that the expression names are looked at, by their bytes and where they lie. What is odd about one
(no value, no end, its name is the end of another's) is left to `find_property`. `filters.RecordFilter` runs it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from ...model.filters.generated import define
from ...model.filters.sql92 import EvaluationFault, Sql92
from ...protocol.properties import find_property
from ...protocol.record import properties_at

MOST_PROPERTIES = 8  # that are looked up one by one; for more it is quicker to decode all

Loop: TypeAlias = Callable[[Iterable[bytes], Callable[[EvaluationFault], object]], Iterator[bytes]]

_LOOP = """\
def accepted(records, failed):
    for raw in records:
        at = properties_at(raw)
{lookups}
        try:
            if {condition} is True:
                yield raw
        except EvaluationFault as fault:
            failed(fault)
"""
_LOOKUP = """\
        name = raw.rfind({head!r}, at)
        if name < 0:
            p{number} = None
        elif (name == at or raw[name - 1] == 2) and (end := raw.find(2, name + {width})) > name + {width}:
            p{number} = raw[name + {width} : end]
        else:
            p{number} = find_property(raw[at:], {name!r})
"""


def record_loop(expression: Sql92) -> Loop | None:
    """Return a generator of the records that match; what cannot be asked of one is told to `failed`.

    None: decode instead.
    """
    if expression.of_bytes is None or len(expression.names) > MOST_PROPERTIES:
        return None
    lookups = "".join(_lookup(number, name.encode()) for number, name in enumerate(expression.names))
    source = _LOOP.format(lookups=lookups, condition=expression.of_bytes)
    parts = {"properties_at": properties_at, "find_property": find_property, "EvaluationFault": EvaluationFault}
    return define(source, "accepted", **parts)  # type: ignore[no-any-return]


def _lookup(number: int, name: bytes) -> str:
    return _LOOKUP.format(number=number, name=name, head=name + b"\x01", width=len(name) + 1)
