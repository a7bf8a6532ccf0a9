"""What a filter expression is made of. The parser builds it, `comparing` and `sql92` turn it into functions.

Kinds are known before any message comes: a property is a text or missing, a literal has its own kind, everything else
is true, false or unknown. Only Integer and Long differ by more than their value: a text is read as the kind it meets.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    TEXT = "text"
    INTEGER = "integer"  # 32 bits
    LONG = "long"  # 64 bits
    DOUBLE = "double"
    BOOLEAN = "boolean"
    NULL = "null"


NUMBERS = frozenset((Kind.INTEGER, Kind.LONG, Kind.DOUBLE))


@dataclass(frozen=True, slots=True)
class Node:
    """`depth` is how many nodes stand above one another, this one included: what evaluation needs of the stack."""

    depth: int


@dataclass(frozen=True, slots=True)
class PropertyReference(Node):
    name: str


@dataclass(frozen=True, slots=True)
class Literal(Node):
    kind: Kind
    value: str | int | float | bool | None

    def __str__(self) -> str:
        if self.kind in (Kind.BOOLEAN, Kind.NULL):
            return "NULL" if self.value is None else str(self.value).upper()
        return repr(self.value) if self.kind is Kind.TEXT else str(self.value)


@dataclass(frozen=True, slots=True)
class Negation(Node):
    """`- x`: a number with the other sign; unknown for whatever is no number, so for every property."""

    operand: Node


@dataclass(frozen=True, slots=True)
class Condition(Node):
    """True, false or unknown."""


@dataclass(frozen=True, slots=True)
class Truth(Condition):
    """A bare property where a condition is wanted: unknown if missing, else false, since a text is no boolean."""

    operand: PropertyReference


@dataclass(frozen=True, slots=True)
class Inversion(Condition):
    operand: Condition | Literal


@dataclass(frozen=True, slots=True)
class Logic(Condition):
    """A chain of AND or of OR; flat, so that a long one needs no deep stack."""

    every: bool  # True: AND
    terms: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Comparison(Condition):
    """`sign` is one of = < <= > >=. `<>` is the inversion of =, IS NULL is = with a NULL that nobody wrote."""

    sign: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Membership(Condition):
    name: str
    values: frozenset[str]
    negated: bool


@dataclass(frozen=True, slots=True)
class TextTest(Condition):
    word: str  # CONTAINS, STARTSWITH or ENDSWITH
    operand: Node
    search: str
    negated: bool


def is_condition(node: Node) -> bool:
    """Return whether Java takes it for a boolean expression; TRUE, FALSE and NULL are some too."""
    return isinstance(node, Condition) or (isinstance(node, Literal) and node.kind in (Kind.BOOLEAN, Kind.NULL))
