"""The front door: an expression compiled to functions once, asked for each message.

Three answers: True, False and None for unknown; a message matches if it is True. What cannot be asked of a message
raises EvaluationFault, which is no match either, but worth a line in a log.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

from .comparing import Get, Test, Value, comparison, folded
from .conversions import EvaluationFault
from .generated import generate
from .parser import parse
from .tokens import FilterFault
from .tree import Comparison, Inversion, Literal, Logic, Membership, Negation, Node, PropertyReference, TextTest, Truth

__all__ = ["SQL92", "EvaluationFault", "FilterFault", "Sql92", "compile_sql"]

SQL92 = "SQL92"
_KEPT = 256  # compiled expressions; those who pull with their expression in hand send it every time

_TEXT_TESTS: dict[str, Callable[[str, str], bool]] = {
    "CONTAINS": lambda value, search: search in value,
    "STARTSWITH": str.startswith,
    "ENDSWITH": str.endswith,
}


class Sql92:
    """A compiled expression. Immutable; may be asked from anywhere.

    `tests` says how much is asked of a message: every node of the expression.
    `of_bytes`, if there is one, is the same as a Python expression over the bytes of the properties (`generated.py`).
    """

    __slots__ = ("_test", "names", "of_bytes", "tests", "text")

    def __init__(self, text: str, usual: bool = True) -> None:
        """Raises FilterFault. `usual`: a function is made for it where that can be."""
        self.text = text
        names: set[str] = set()
        node = parse(text)
        builder = _Builder(names)
        self._test: Test = builder.value(node)
        self.tests = builder.nodes
        self.names = tuple(sorted(names))  # the properties that it asks for
        self.of_bytes: str | None = None
        made = generate(node, self.names) if usual else None
        if made is not None:
            self._test, self.of_bytes = made

    def evaluate(self, properties: Mapping[str, str]) -> bool | None:
        return self._test(properties.get)

    def matches(self, properties: Mapping[str, str]) -> bool:
        return self._test(properties.get) is True


@lru_cache(_KEPT)
def compile_sql(text: str) -> Sql92:
    """Return the compiled expression. The same text gives the same object while it is in use. Raises FilterFault."""
    return Sql92(text)


class _Builder:
    def __init__(self, names: set[str]) -> None:
        self._names = names
        self.nodes = 0

    def value(self, node: Node) -> Value:
        self.nodes += 1
        self._note(node)
        match node:
            case PropertyReference(name=name):
                return lambda get: get(name)
            case Literal(value=constant):
                return lambda get: constant
            case Negation():
                return self._negation(node)
            case _:
                return self._condition(node)

    def _condition(self, node: Node) -> Test:
        match node:
            case Comparison(left=left, right=right):
                self._note(left)
                self._note(right)
                return comparison(node, self.value)
            case Logic(every=every, terms=terms):
                return _chain(not every, tuple(self.value(term) for term in terms))
            case Inversion(operand=operand):
                return _inverted(self.value(operand))
            case Truth(operand=operand):
                return _truth(self.value(operand))
            case Membership(name=name, values=values, negated=negated):
                return _membership(name, values, negated)
            case TextTest():
                return _text_test(node, self.value(node.operand))
        raise TypeError(f"no expression: {node}")

    def _negation(self, node: Negation) -> Value:
        number = folded(node)
        if isinstance(number, Literal):
            return lambda get: number.value
        operand = self.value(node.operand)

        def negate(get: Get) -> None:
            operand(get)  # for what it may raise: texts and conditions have no negative
            return

        return negate

    def _note(self, node: Node) -> None:
        if isinstance(node, PropertyReference | Membership):
            self._names.add(node.name)


def _chain(decisive: bool, terms: tuple[Test, ...]) -> Test:
    """Return the test of a chain: OR ends at the first true, AND at the first false; else an unknown part decides."""

    def ask(get: Get) -> bool | None:
        answer: bool | None = not decisive
        for term in terms:
            value = term(get)
            if value is decisive:
                return decisive
            if value is None:
                answer = None
        return answer

    return ask


def _inverted(test: Test) -> Test:
    def ask(get: Get) -> bool | None:
        value = test(get)
        return None if value is None else not value

    return ask


def _truth(value: Value) -> Test:
    return lambda get: None if value(get) is None else False


def _membership(name: str, values: frozenset[str], negated: bool) -> Test:
    def ask(get: Get) -> bool | None:
        value = get(name)
        return None if value is None else (value in values) is not negated

    return ask


def _text_test(node: TextTest, operand: Value) -> Test:
    """Return the test of a text search: false for what is no text and an empty search, in the NOT form as well."""
    test, search, negated = _TEXT_TESTS[node.word], node.search, node.negated
    if not search:
        return lambda get: False

    def ask(get: Get) -> bool | None:
        value = operand(get)
        return isinstance(value, str) and test(value, search) is not negated

    return ask
