"""Random expressions asked of Java and of us: `python -m tests.interop.sql92.search [pairs] [seed]`, by hand.

Half of them follow the grammar, half are tokens in any order. What differs is printed and becomes a row of the table.
"""

from __future__ import annotations

import random
import sys

from .asking import Pair, ask_java, ask_ours
from .cases import NUMBERS

NAMES = ("a", "b", "c", "d", "missing")
TEXTS = ("'x'", "''", "'5'", "'it''s'", "'true'", "'7.5'", "'ab'")
LITERALS = ("0", "5", "7", "5L", "2147483648", "1.5", "5.", ".5", "5E1", "05", "TRUE", "false", "NULL", *TEXTS)
SIGNS = ("=", "<>", "<", "<=", ">", ">=")
WORDS = ("AND", "OR", "NOT", "IS", "NULL", "BETWEEN", "IN", "CONTAINS", "STARTSWITH", "ENDSWITH", "TRUE", "FALSE")
ODD = ("(", ")", ",", "+", "-", "--", "/*", "*/", "'", "#", "\n", ".", "!=")
VALUES = ("5", "7", "7.5", "x", "ab", "true", "TRUE", "-5", "1.5", "50", "it's", "2147483648", *NUMBERS)


class Maker:
    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def pair(self) -> Pair:
        text = self.condition(4) if self._rng.random() < 0.6 else self.noise()
        return text, {name: self._rng.choice(VALUES) for name in NAMES[:4] if self._rng.random() < 0.75}

    def noise(self) -> str:
        pool = (*NAMES, *LITERALS, *SIGNS, *WORDS, *WORDS, *ODD)
        return " ".join(self._rng.choice(pool) for _ in range(self._rng.randint(1, 9)))

    def condition(self, depth: int) -> str:
        pick = self._rng.random()
        if depth and pick < 0.35:
            word = self._rng.choice((" AND ", " OR "))
            return word.join(self.condition(depth - 1) for _ in range(self._rng.randint(2, 3)))
        if depth and pick < 0.5:
            return f"({self.condition(depth - 1)})"
        if depth and pick < 0.6:
            return f"NOT {self.condition(depth - 1)}"
        return self.test(depth)

    def test(self, depth: int) -> str:
        value, other = self.value(depth), self.value(depth)
        negated = self._rng.choice(("", "NOT "))
        kind = self._rng.randrange(7)
        if kind == 0:
            return f"{value} IS {negated}NULL"
        if kind == 1:
            return f"{value} {negated}BETWEEN {other} AND {self.value(0)}"
        if kind == 2:
            return f"{value} {negated}IN ({', '.join(self._rng.choices(TEXTS, k=self._rng.randint(1, 6)))})"
        if kind == 3:
            word = self._rng.choice(("CONTAINS", "STARTSWITH", "ENDSWITH"))
            return f"{value} {negated}{word} {self._rng.choice(TEXTS)}"
        return f"{value} {self._rng.choice(SIGNS)} {other}"

    def value(self, depth: int) -> str:
        pick = self._rng.random()
        if pick < 0.55:
            return self._rng.choice(NAMES)
        if pick < 0.85:
            return self._rng.choice(LITERALS)
        if pick < 0.92 or not depth:
            return self._rng.choice(("-", "+", "- -")) + self.value(0)
        return f"({self.condition(depth - 1)})"


def search(count: int, seed: int) -> int:
    maker = Maker(random.Random(seed))
    pairs = [maker.pair() for _ in range(count)]
    found = 0
    tally: dict[str, int] = {}
    for (text, given), wanted in zip(pairs, ask_java(pairs), strict=True):
        tally[wanted] = tally.get(wanted, 0) + 1
        if (got := ask_ours(text, given)) != wanted:
            found += 1
            print(f"({text!r}, {dict(given)!r}),  # Java {wanted}, we {got}")
    print(f"{count} pairs, seed {seed}: {found} differ; Java's answers {tally}")
    return found


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[1:]]
    sys.exit(1 if search(*(numbers or [20_000]), *([1] if len(numbers) < 2 else [])) else 0)
