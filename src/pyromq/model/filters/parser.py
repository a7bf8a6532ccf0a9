"""Tokens to a tree: RocketMQ's grammar, lowest binding first, with Java's checks of operands at the same places.

    or          and { OR and }
    and         equality { AND equality }
    equality    comparison { = comparison | <> comparison | IS [NOT] NULL }
    comparison  unary { > >= < <= unary | [NOT] BETWEEN unary AND unary | [NOT] IN ('x', ...)
                      | [NOT] CONTAINS 'x' | [NOT] STARTSWITH 'x' | [NOT] ENDSWITH 'x' }
    unary       + unary | - unary | NOT unary | primary
    primary     literal | property | ( or )

Bounded in length, nesting and number of tests, so that no expression costs more than a message is worth.
"""

from __future__ import annotations

from .conversions import INTEGER_RANGE, LONG_RANGE, compare_doubles
from .tokens import END, FilterFault, Token, Tokens
from .tree import (
    NUMBERS,
    Comparison,
    Condition,
    Inversion,
    Kind,
    Literal,
    Logic,
    Membership,
    Negation,
    Node,
    PropertyReference,
    TextTest,
    Truth,
    is_condition,
)

MAX_LENGTH = 32_768
MAX_NESTING = 64
MAX_TESTS = 512
MAX_CONTAINS = 100  # each looks through a whole property: 30 KB take up to 0.15 ms

_ORDER = ("<", "<=", ">", ">=")
_TEXT_WORDS = ("CONTAINS", "STARTSWITH", "ENDSWITH")
_RANGE_WORDS = ("BETWEEN", "IN", *_TEXT_WORDS)
_CONSTANTS = {"TRUE": Literal(1, Kind.BOOLEAN, True), "FALSE": Literal(1, Kind.BOOLEAN, False)}
_NULL = Literal(1, Kind.NULL, None)
_SMALLEST = 5e-324


def parse(text: str) -> Node:
    """Return the condition that an expression says. Raises FilterFault."""
    if len(text) > MAX_LENGTH:
        raise FilterFault(f"SQL92 expression of {len(text)} characters: the limit is {MAX_LENGTH}")
    return _Parser(text).whole()


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens = Tokens(text)
        self._nesting = 0
        self._tests = 0
        self._contains = 0

    def whole(self) -> Node:
        if self._tokens.next.kind == END:
            raise self._tokens.fault("the expression is empty")
        at = self._tokens.next.at
        return self._condition(self._chain("OR"), at)

    # --- levels of the grammar ------------------------------------------------------------------------------------

    def _chain(self, word: str) -> Node:
        """Parse a chain of OR, whose parts are chains of AND, or one of AND."""
        at = self._tokens.next.at
        node = self._equality() if word == "AND" else self._chain("AND")
        if self._tokens.next.kind != word:
            return node
        terms = [self._condition(node, at)]
        while self._accept(word):
            at = self._tokens.next.at
            node = self._equality() if word == "AND" else self._chain("AND")
            terms.append(self._condition(node, at))
        return Logic(self._above(*terms), word == "AND", tuple(terms))

    def _equality(self) -> Node:
        node = self._comparison()
        while (kind := self._tokens.next.kind) in ("=", "<>", "IS"):
            token = self._take_test()
            if kind == "IS":
                node = self._is_null(node)
                continue
            right = self._comparison()
            self._check_equal(node, right, token)
            node = Comparison(self._above(node, right), "=", node, right)
            if kind == "<>":
                node = Inversion(self._above(node), node)
        return node

    def _is_null(self, node: Node) -> Node:
        negated = self._accept("NOT")
        self._expect("NULL", "NULL or NOT NULL after IS")
        test = Comparison(self._above(node), "=", node, _NULL)
        return Inversion(self._above(test), test) if negated else test

    def _comparison(self) -> Node:
        node = self._unary()
        while (kind := self._tokens.next.kind) in _ORDER or kind == "NOT" or kind in _RANGE_WORDS:
            token = self._take_test()
            if kind in _ORDER:
                node = self._ordered(kind, node, self._unary(), token)
                continue
            negated = kind == "NOT"
            if negated:
                token = self._tokens.next
                kind = token.kind
                if kind not in _RANGE_WORDS:
                    raise self._tokens.fault(f"{token} after NOT: expected {', '.join(_RANGE_WORDS)}")
                self._tokens.take()
            node = self._worded(kind, node, negated, token)
        return node

    def _worded(self, word: str, node: Node, negated: bool, token: Token) -> Node:
        if word == "BETWEEN":
            return self._between(node, negated, token)
        if word == "IN":
            return self._in(node, negated, token)
        if word == "CONTAINS":
            self._contains += 1
            if self._contains > MAX_CONTAINS:
                raise self._tokens.fault(f"more than {MAX_CONTAINS} times CONTAINS in one expression", token.at)
        return TextTest(self._above(node), word, node, self._text(f"after {word}"), negated)

    def _unary(self) -> Node:
        kind = self._tokens.next.kind
        if kind not in ("+", "-", "NOT"):
            return self._primary()
        self._tokens.take()
        at = self._tokens.next.at
        self._enter()
        operand = self._unary()
        self._nesting -= 1
        if kind == "-":
            return Negation(self._above(operand), operand)
        if kind == "NOT":
            inner = self._condition(operand, at)
            assert isinstance(inner, Condition | Literal)
            return Inversion(self._above(inner), inner)
        return operand

    def _primary(self) -> Node:
        token = self._tokens.next
        if token.kind == "(":
            self._tokens.take()
            self._enter()
            node = self._chain("OR")
            self._nesting -= 1
            self._expect(")", "')'")
            return node
        literal = self._literal(token)
        if literal is None and token.kind != "name":
            raise self._tokens.fault(f"{token} where a property, a number, a 'text', NOT or '(' is expected")
        self._tokens.take()
        return literal or PropertyReference(1, token.text)

    # --- single pieces --------------------------------------------------------------------------------------------

    def _literal(self, token: Token) -> Literal | None:
        if token.kind == "text":
            return Literal(1, Kind.TEXT, _unquoted(token.text))
        if token.kind == "integer":
            return self._integer(token)
        if token.kind == "float":
            return self._float(token)
        return _NULL if token.kind == "NULL" else _CONSTANTS.get(token.kind)

    def _integer(self, token: Token) -> Literal:
        digits = token.text.rstrip("lL")
        if len(digits) > len(str(LONG_RANGE[1])) or int(digits) > LONG_RANGE[1]:
            raise self._tokens.fault(f"{token} is above {LONG_RANGE[1]}, the largest integer")
        value = int(digits)
        return Literal(1, Kind.INTEGER if value <= INTEGER_RANGE[1] else Kind.LONG, value)

    def _float(self, token: Token) -> Literal:
        value = float(token.text)
        if value == float("inf"):
            raise self._tokens.fault(f"{token} is greater than 1.7976931348623157E308, the largest double")
        if value < _SMALLEST:
            raise self._tokens.fault(f"{token} is less than 4.9E-324, the smallest that may be written: use 0")
        return Literal(1, Kind.DOUBLE, value)

    def _text(self, where: str) -> str:
        if self._tokens.next.kind != "text":
            raise self._tokens.fault(f"{self._tokens.next} where a 'text' is expected {where}")
        return _unquoted(self._tokens.take().text)

    def _in(self, node: Node, negated: bool, token: Token) -> Node:
        self._expect("(", "'(' after IN")
        values = {self._text("in the list of IN")}
        while self._accept(","):
            values.add(self._text("in the list of IN"))
        self._expect(")", "',' or ')' in the list of IN")
        if not isinstance(node, PropertyReference):
            raise self._tokens.fault("only a property can stand before IN", token.at)
        return Membership(1, node.name, frozenset(values), negated)

    def _between(self, node: Node, negated: bool, token: Token) -> Node:
        low = self._unary()
        self._expect("AND", "AND between the bounds of BETWEEN")
        high = self._unary()
        if not negated:
            self._check_bounds(low, high, token)
        signs = ("<", ">") if negated else (">=", "<=")
        tests = [self._ordered(sign, node, bound, token) for sign, bound in zip(signs, (low, high), strict=True)]
        return Logic(self._above(*tests), not negated, tuple(tests))

    def _ordered(self, sign: str, left: Node, right: Node, token: Token) -> Node:
        for operand in (left, right):
            is_wrong = isinstance(operand, Literal) and operand.kind not in NUMBERS
            if is_wrong or is_condition(operand):
                what = str(operand) if isinstance(operand, Literal) else "a condition"
                raise self._tokens.fault(f"{what} cannot be compared by {token.text}: only numbers can", token.at)
        return Comparison(self._above(left, right), sign, left, right)

    # --- checks ---------------------------------------------------------------------------------------------------

    def _check_equal(self, left: Node, right: Node, token: Token) -> None:
        if _NULL in (left, right):
            raise self._tokens.fault(f"NULL cannot be compared by {token.text}: use IS NULL", token.at)
        both = isinstance(left, Literal) and isinstance(right, Literal)
        if both and is_condition(left) and not is_condition(right):
            raise self._tokens.fault(f"{left} cannot be compared with {right}", token.at)

    def _check_bounds(self, low: Node, high: Node, token: Token) -> None:
        """Check the operands: texts and the like are refused, numbers must be in order where both are plain."""
        if not (isinstance(low, Literal) and isinstance(high, Literal)) or not {low.kind, high.kind} <= NUMBERS:
            return
        assert isinstance(low.value, int | float)
        assert isinstance(high.value, int | float)
        is_double = Kind.DOUBLE in (low.kind, high.kind)
        falls = compare_doubles(float(high.value), float(low.value)) < 0 if is_double else high.value < low.value
        if falls:
            raise self._tokens.fault(f"the bounds of BETWEEN fall: {low} is above {high}", token.at)

    def _condition(self, node: Node, at: int) -> Node:
        if isinstance(node, PropertyReference):
            return Truth(self._above(node), node)
        if not is_condition(node):
            raise self._tokens.fault("this is no condition: it is neither true nor false", at)
        return node

    def _accept(self, kind: str) -> bool:
        if self._tokens.next.kind != kind:
            return False
        self._tokens.take()
        return True

    def _expect(self, kind: str, what: str) -> None:
        if not self._accept(kind):
            raise self._tokens.fault(f"{self._tokens.next} where {what} is expected")

    # --- bounds ---------------------------------------------------------------------------------------------------

    def _take_test(self) -> Token:
        self._tests += 1
        if self._tests > MAX_TESTS:
            raise self._tokens.fault(f"more than {MAX_TESTS} tests in one expression")
        return self._tokens.take()

    def _enter(self) -> None:
        self._nesting += 1
        if self._nesting > MAX_NESTING:
            raise self._tokens.fault(f"nested more than {MAX_NESTING} levels deep")

    def _above(self, *nodes: Node) -> int:
        depth = 1 + max(node.depth for node in nodes)
        if depth > 2 * MAX_NESTING:
            raise self._tokens.fault(f"a chain of more than {2 * MAX_NESTING} links: use AND and OR")
        return depth


def _unquoted(quoted: str) -> str:
    return quoted[1:-1].replace("''", "'")
