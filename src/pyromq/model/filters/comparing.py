"""One comparison to a function of a message's properties, with Java's rules for what meets what.

The usual ones, a property and a literal, get a function of their own; all others share the general rules below.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from .conversions import EvaluationFault, compare_doubles, to_double, to_integer, to_long
from .tree import NUMBERS, Comparison, Kind, Literal, Negation, Node, PropertyReference

Get = Callable[[str], "str | None"]
Test = Callable[[Get], "bool | None"]
Value = Callable[[Get], Any]
Build = Callable[[Node], Value]

READ: dict[Kind, Callable[[str], Any]] = {Kind.INTEGER: to_integer, Kind.LONG: to_long, Kind.DOUBLE: to_double}
_SIGNS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
MIRRORED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def comparison(node: Comparison, build: Build) -> Test:
    left, right = folded(node.left), folded(node.right)
    if isinstance(left, PropertyReference) and isinstance(right, Literal):
        usual = _with_literal(left.name, node.sign, right)
    elif isinstance(left, Literal) and isinstance(right, PropertyReference) and left.kind is not Kind.BOOLEAN:
        usual = _with_literal(right.name, MIRRORED[node.sign], left, mirrored=True)
    else:
        usual = None
    if usual is not None:
        return usual
    make = _equal if node.sign == "=" else _ordered
    return make(node.sign, (build(left), _kind(left)), (build(right), _kind(right)))


def folded(node: Node) -> Node:
    """Fold signs: a number under signs is a number."""
    if not isinstance(node, Negation):
        return node
    inner = folded(node.operand)
    if isinstance(inner, Literal) and inner.kind in NUMBERS:
        assert isinstance(inner.value, int | float)
        return Literal(1, inner.kind, -inner.value)
    return node


def _kind(node: Node) -> Kind:
    if isinstance(node, Literal):
        return node.kind
    if isinstance(node, PropertyReference):
        return Kind.TEXT
    return Kind.NULL if isinstance(node, Negation) else Kind.BOOLEAN


# --- a property and a literal ---------------------------------------------------------------------------------------


def _with_literal(name: str, sign: str, literal: Literal, mirrored: bool = False) -> Test | None:
    wanted = literal.value
    if literal.kind is Kind.NULL:  # IS NULL
        return lambda get: get(name) is None
    if literal.kind is Kind.BOOLEAN:
        return lambda get: None if (value := get(name)) is None else _is_true(value) is wanted
    compared = _with_text(name, wanted) if literal.kind is Kind.TEXT else _with_number(name, sign, literal)
    if not (mirrored and sign == "="):
        return compared
    # `5 = a` with a missing: only the right side is unknown, which Java calls false.
    return lambda get: False if get(name) is None else compared(get)


def _is_true(text: str) -> bool:
    return len(text) == 4 and text.lower() == "true"


def _with_text(name: str, wanted: Any) -> Test:
    return lambda get: None if (value := get(name)) is None else value == wanted


def _with_number(name: str, sign: str, literal: Literal) -> Test:
    read, test, wanted = READ[literal.kind], _SIGNS[sign], literal.value
    if literal.kind is not Kind.DOUBLE:
        return lambda get: None if (value := get(name)) is None else test(read(value), wanted)
    assert isinstance(wanted, float)

    def compare(get: Get) -> bool | None:
        value = get(name)
        if value is None:
            return None
        found = to_double(value)
        if found < wanted or found > wanted:
            return test(found, wanted)
        return test(compare_doubles(found, wanted), 0)  # equal, a zero of either sign, or no number

    return compare


# --- everything else ------------------------------------------------------------------------------------------------


def _equal(sign: str, left: tuple[Value, Kind], right: tuple[Value, Kind]) -> Test:
    (first, kind), (second, other) = left, right

    def compare(get: Get) -> bool | None:
        one, two = first(get), second(get)
        if one is None:
            return True if two is None else None
        return False if two is None else _order(one, kind, two, other) == 0

    return compare


def _ordered(sign: str, left: tuple[Value, Kind], right: tuple[Value, Kind]) -> Test:
    (first, kind), (second, other) = left, right
    test = _SIGNS[sign]

    def compare(get: Get) -> bool | None:
        one = first(get)
        two = None if one is None else second(get)
        if two is None:
            return None
        if kind is Kind.TEXT is other:
            return test(compare_doubles(to_double(one), to_double(two)), 0)
        return test(_order(one, kind, two, other), 0)

    return compare


def _order(one: Any, kind: Kind, two: Any, other: Kind) -> int:
    """Return a number below, equal to or above 0, as Java compares values of these kinds; -1 also where it gives up."""
    if kind is not other:
        if kind is Kind.BOOLEAN:
            if other is Kind.TEXT:
                raise EvaluationFault(f"a condition cannot be compared with the text {two!r}: write the text first")
            return -1
        if other is Kind.BOOLEAN:
            if kind is not Kind.TEXT:
                return -1
            one = _is_true(one)
        elif kind is Kind.TEXT:
            one, kind = READ[other](one), other
        elif other is Kind.TEXT:
            two, other = READ[kind](two), kind
    if Kind.DOUBLE in (kind, other):
        return compare_doubles(float(one), float(two))
    return int(one > two) - int(one < two)
