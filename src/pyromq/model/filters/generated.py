"""The usual expressions as one Python function each, which costs half of what a tree of functions does.

`a > 5 AND b = 'blue'` becomes, with p0 and p1 the values of a and b (None: missing),

    False if (t0 := None if p0 is None else read(p0) > 5) is False else False if (t1 := ...) is False
    else None if t0 is None or t1 is None else True

Literals enter as Python's own literals (`repr`), properties as numbered arguments: no text of an expression becomes
code. Each is written twice: over texts, and over the bytes of properties as records hold them, where UTF-8 spares the
decoding: texts are equal, or one within the other, exactly where their bytes are. What is unusual or long is left to
`comparing` and `sql92`, whose answers are the same; the tests ask all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, NamedTuple

from .comparing import MIRRORED, Get, folded
from .conversions import compare_doubles, to_double, to_integer, to_long
from .tree import Comparison, Inversion, Kind, Literal, Logic, Membership, Node, PropertyReference, TextTest, Truth

MOST_NODES = 64  # more are no usual expression; it also bounds what Python's compiler is asked for
_WORDS = {"STARTSWITH": "startswith", "ENDSWITH": "endswith"}
_NAMES = {"to_integer": to_integer, "to_long": to_long, "to_double": to_double, "compare_doubles": compare_doubles}
_REPLACED = "\ufffd"  # what bytes that are no UTF-8 are read as
_USUAL_DOUBLE = 32  # characters of a text that is read as a double at once
_DIGITS = {Kind.INTEGER: 10, Kind.LONG: 19}  # fewer of them are read at once


class _Unusual(Exception):
    """No function is made for it."""


class Generated(NamedTuple):
    """One expression twice: asked with a mapping's `get`, and as the text of a Python expression over p0, p1 and so
    on, the bytes of the properties in the order of the names; None where bytes will not do."""

    of_get: Callable[[Get], bool | None]
    of_bytes: str | None


def generate(node: Node, names: Sequence[str]) -> Generated | None:
    """Return the function of an expression that asks for the properties `names`; None: it is not a usual one."""
    try:
        body = _Writer(names).condition(node)
    except _Unusual:
        return None
    lookups = "".join(f"p{number} = get({name!r}); " for number, name in enumerate(names))
    of_get = define(f"def of_get(get): {lookups}return {body}\n", "of_get")
    try:
        return Generated(of_get, _BytesWriter(names).condition(node))
    except (_Unusual, UnicodeEncodeError):
        return Generated(of_get, None)


def define(source: str, name: str, **more: object) -> Any:
    """Return the function of that name, which may use what generated expressions need, and `more`."""
    scope: dict[str, Any] = {}
    exec(compile(source, "<filter>", "exec"), _NAMES | more, scope)
    return scope[name]


class _Writer:
    """Each method returns the text of a Python expression that is True, False or None."""

    def __init__(self, names: Sequence[str]) -> None:
        self._arguments = {name: f"p{number}" for number, name in enumerate(names)}
        self._temporary = (f"t{number}" for number in count())
        self._nodes = 0

    def condition(self, node: Node) -> str:
        self._nodes += 1
        if self._nodes > MOST_NODES:
            raise _Unusual
        match node:
            case Logic(every=every, terms=terms):
                return self._chain(not every, [self.condition(term) for term in terms])
            case Comparison():
                return self._comparison(node)
            case Inversion(operand=operand):
                value = next(self._temporary)
                return f"(None if ({value} := {self.condition(operand)}) is None else not {value})"
            case Membership(name=name, values=values, negated=negated):
                value, word = self._arguments[name], "not in" if negated else "in"
                return _unless_missing(value, f"{value} {word} {self._texts(values)}")
            case TextTest(operand=PropertyReference(name=name)):
                return self._text_test(node, self._arguments[name])
            case Truth(operand=PropertyReference(name=name)):
                return _unless_missing(self._arguments[name], "False")
            case Literal(kind=Kind.BOOLEAN | Kind.NULL, value=constant):
                return repr(constant)
        raise _Unusual

    def _chain(self, decisive: bool, terms: list[str]) -> str:
        values = [next(self._temporary) for _ in terms]
        steps = [
            f"{decisive} if ({value} := {term}) is {decisive} else" for value, term in zip(values, terms, strict=True)
        ]
        unknown = " or ".join(f"{value} is None" for value in values)
        return f"({' '.join(steps)} None if {unknown} else {not decisive})"

    def _comparison(self, node: Comparison) -> str:
        left, right = folded(node.left), folded(node.right)
        if isinstance(left, PropertyReference) and isinstance(right, Literal):
            return self._with_literal(self._arguments[left.name], node.sign, right)
        if isinstance(left, Literal) and isinstance(right, PropertyReference) and left.kind is not Kind.BOOLEAN:
            # `5 = a` with a missing: only the right side is unknown, which Java calls false.
            missing = "False" if node.sign == "=" else "None"
            return self._with_literal(self._arguments[right.name], MIRRORED[node.sign], left, missing)
        raise _Unusual

    def _with_literal(self, value: str, sign: str, literal: Literal, missing: str = "None") -> str:
        wanted, python_sign = self._constant(literal.value), "==" if sign == "=" else sign
        match literal.kind:
            case Kind.NULL:  # IS NULL
                return f"({value} is None)"
            case Kind.BOOLEAN:
                test = f"(len({value}) == 4 and {value}.lower() == {self._constant('true')}) is {wanted}"
            case Kind.TEXT:
                test = f"{value} == {wanted}"
            case Kind.DOUBLE:
                test = self._double(value, python_sign, literal.value)
            case kind:
                short = f"len({value}) < {_DIGITS[kind]} and {self._is_digits(value)}"
                test = f"(int({value}) if {short} else to_{kind.value}({self._text(value)})) {python_sign} {wanted}"
        return _unless_missing(value, test, missing)

    def _double(self, value: str, sign: str, wanted: object) -> str:
        if not isinstance(wanted, float) or not math.isfinite(wanted):
            raise _Unusual
        found = next(self._temporary)
        dot, nothing = self._constant("."), self._constant("")
        plain = f"len({value}) < {_USUAL_DOUBLE} and " + self._is_digits(value, f".replace({dot}, {nothing}, 1)")
        read = f"float({value}) if {plain} else to_double({self._text(value)})"
        return (
            f"({found} {sign} {wanted!r} if ({found} := {read}) < {wanted!r} or {found} > {wanted!r} "
            f"else compare_doubles({found}, {wanted!r}) {sign} 0)"
        )

    def _text_test(self, node: TextTest, value: str) -> str:
        """Return the test of a text search: false for a missing value and an empty search, in the NOT form as well."""
        if not node.search:
            return "False"
        search, negation = self._constant(node.search), "not " if node.negated else ""
        test = f"{search} in {value}" if node.word == "CONTAINS" else f"{value}.{_WORDS[node.word]}({search})"
        return f"({value} is not None and {negation}({test}))"

    def _texts(self, values: frozenset[str]) -> str:
        """Return the source of a set of texts, which Python keeps as a constant."""
        return "{" + ", ".join(map(self._constant, sorted(values))) + "}" if values else "()"

    # --- how a value is held --------------------------------------------------------------------------------------

    def _constant(self, value: object) -> str:
        return repr(value)

    def _text(self, value: str) -> str:
        return value

    def _is_digits(self, value: str, without: str = "") -> str:
        return f"{value}.isascii() and {value}{without}.isdigit()"


class _BytesWriter(_Writer):
    def _constant(self, value: object) -> str:
        if not isinstance(value, str):
            return repr(value)
        if _REPLACED in value:
            raise _Unusual  # a text may have it where its bytes do not
        return repr(value.encode())

    def _text(self, value: str) -> str:
        return f"{value}.decode('utf-8', 'replace')"

    def _is_digits(self, value: str, without: str = "") -> str:
        return f"{value}{without}.isdigit()"  # of bytes these are ASCII's alone


def _unless_missing(value: str, test: str, missing: str = "None") -> str:
    return f"({missing} if {value} is None else {test})"
