"""What a query's filter leaves of each column: which values, or from where to where.

DuckDB hands a filter over as an Arrow expression. Arrow does not let Python look into one, but it writes one down as a
record batch: constants are columns, and the tree stands in the metadata. That form is read here. Whatever is not
understood leaves every value, so a query is never answered wrongly: the filter itself is applied to the rows later.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

_PART = re.compile(r"^(call|field_ref|literal|options|end): '(.*)'$", re.MULTILINE)
_FLIPPED = {"less": "greater", "greater": "less", "less_equal": "greater_equal", "greater_equal": "less_equal"}
_FLIPPED |= {"equal": "equal"}
_MICROSECONDS = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True, slots=True)
class Leaves:
    """Values that a column may have: these ones, or all from `low` to `high`, both included. Times in microseconds."""

    low: int | None = None
    high: int | None = None
    values: frozenset[Any] | None = None

    def has(self, value: Any) -> bool:
        if self.values is not None:
            return value in self.values
        return (self.low is None or value >= self.low) and (self.high is None or value <= self.high)

    def bounds(self) -> tuple[int | None, int | None]:
        """Return the least and the greatest value, both included; None where there is no limit. For numbers."""
        if self.values is None:
            return self.low, self.high
        numbers = [each for each in self.values if isinstance(each, int)]
        return (min(numbers), max(numbers)) if numbers else (1, 0)  # no number at all: nothing lies in between

    def both(self, other: Leaves) -> Leaves:
        if self.values is not None:
            return Leaves(values=frozenset(each for each in self.values if other.has(each)))
        if other.values is not None:
            return other.both(self)
        lows = [each for each in (self.low, other.low) if each is not None]
        highs = [each for each in (self.high, other.high) if each is not None]
        return Leaves(max(lows, default=None), min(highs, default=None))

    def either(self, other: Leaves) -> Leaves:
        if self.values is not None and other.values is not None:
            return Leaves(values=self.values | other.values)
        if any(isinstance(each, str) for one in (self, other) for each in one.values or ()):
            return ANY
        (low, high), (other_low, other_high) = self.bounds(), other.bounds()
        return Leaves(
            None if low is None or other_low is None else min(low, other_low),
            None if high is None or other_high is None else max(high, other_high),
        )


ANY = Leaves()


class FilterNode(NamedTuple):
    """A node of the tree: a call with what it is given, a column, or a constant."""

    kind: str
    name: str = ""
    given: tuple[FilterNode, ...] = ()
    value: Any = None


_UNKNOWN = FilterNode("unknown")


def parsed(filter: Any) -> FilterNode:
    """Return the tree of an Arrow expression; one that leaves everything where its form is not known here."""
    try:
        batch = pa.ipc.open_file(filter.__reduce__()[1][0]).get_batch(0)
        nodes = iter(_PART.findall(batch.schema.to_string(show_schema_metadata=True, truncate_metadata=False)))
        return _node(next(nodes), nodes, batch)
    except (pa.ArrowException, AttributeError, IndexError, StopIteration, TypeError, ValueError):
        return _UNKNOWN


def columns_of(step: FilterNode) -> frozenset[str] | None:
    """Return which columns the tree names; None where not all of it is understood."""
    if step.kind == "unknown":
        return None
    found = frozenset({step.name} if step.kind == "field_ref" else ())
    for each in step.given:
        names = columns_of(each)
        if names is None:
            return None
        found |= names
    return found


def leaves(step: FilterNode, column: str) -> Leaves:
    """Return what the filter leaves of the column in rows that pass it."""
    name, given = step.name, step.given
    if step.kind != "call":
        return ANY
    if name == "and_kleene":
        return leaves(given[0], column).both(leaves(given[1], column))
    if name == "or_kleene":
        return leaves(given[0], column).either(leaves(given[1], column))
    if name == "if_else" and given[2].kind == "literal" and not given[2].value:  # how IN is written down
        return leaves(given[1], column)
    if name == "is_in" and given[0] == FilterNode("field_ref", column) and isinstance(step.value, list):
        return _among(step.value)
    if name in _FLIPPED and len(given) == 2:
        if given[1] == FilterNode("field_ref", column):
            name, given = _FLIPPED[name], (given[1], given[0])
        if given[0] == FilterNode("field_ref", column) and given[1].kind == "literal":
            return _compared(name, given[1].value)
    return ANY


def _compared(name: str, value: Any) -> Leaves:
    if value is None:
        return Leaves(values=frozenset())  # a comparison with null holds for no row
    if name == "equal":
        return _among([value])
    if not isinstance(value, int):
        return ANY
    return {
        "greater": Leaves(low=value + 1),
        "greater_equal": Leaves(low=value),
        "less": Leaves(high=value - 1),
        "less_equal": Leaves(high=value),
    }[name]


def _among(values: Sequence[Any]) -> Leaves:
    """Return that it is one of these; a null is none. Of other kinds than texts and whole numbers nothing is said."""
    known = [each for each in values if each is not None]
    return Leaves(values=frozenset(known)) if all(isinstance(each, (str, int)) for each in known) else ANY


def _node(at: tuple[str, str], nodes: Iterator[tuple[str, str]], batch: pa.RecordBatch) -> FilterNode:
    kind, text = at
    if kind == "field_ref":
        return FilterNode(kind, text)
    if kind == "literal":
        return FilterNode(kind, value=_constant(batch.column(int(text))[0]))
    if kind != "call":
        raise ValueError(f"{kind} {text} begins no node")
    given: list[FilterNode] = []
    options = None
    for inner in nodes:
        if inner[0] == "end":
            return FilterNode("call", text, tuple(given), options)
        if inner[0] == "options":
            options = _options(batch.column(int(inner[1]))[0])
        else:
            given.append(_node(inner, nodes, batch))
    raise ValueError(f"call {text} has no end")


def _options(found: pa.StructScalar) -> Sequence[Any] | None:
    """Return the values of IN; None for the options of any other call."""
    if "value_set" not in found.type.names:
        return None
    return [_constant(each) for each in found["value_set"]]


def _constant(value: pa.Scalar) -> Any:
    """Return a constant as Python's, a time as microseconds since 1970."""
    if pa.types.is_timestamp(value.type) and value.is_valid:
        return value.cast(_MICROSECONDS).value
    return value.as_py()
