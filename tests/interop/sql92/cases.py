"""Expressions and properties for the table: every rule of the language, its corners, and what random search has found.

`python -m tests.interop.sql92.cases` asks Java and writes tests/golden/sql92.json. A find of `search.py` becomes a line
of FOUND.
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path

from .asking import Pair, ask_java

TABLE = Path(__file__).resolve().parents[2] / "golden" / "sql92.json"

# Each is asked of each of VALUES for a, with b = "7" and c = "text" beside it.
ONE_PROPERTY = """
a = 5
a <> 5
5 = a
5 <> a
a > 5
a >= 5
a < 5
a <= 5
5 > a
5 <= a
a = 3000000000
a > 3000000000
a = 5L
a = 5.0
a >= 4.5
4.5 < a
a = 'abc'
a <> 'abc'
'abc' = a
a = TRUE
a = FALSE
a <> TRUE
TRUE = a
FALSE <> a
a
NOT a
NOT (NOT a)
a IS NULL
a IS NOT NULL
a = b
a <> b
a > b
a <= b
a = missing
missing = a
missing <> a
a > missing
missing < a
a BETWEEN 1 AND 9
a NOT BETWEEN 1 AND 9
a BETWEEN -9 AND 9
a BETWEEN 1.5 AND 9
a NOT BETWEEN 1 AND 9.5
a BETWEEN 9 AND b
a BETWEEN -1 AND -9
a IN ('5', 'abc', 'true')
a NOT IN ('5', 'abc', 'true')
a IN ('1', '2', '3', '4', '5', '6')
a CONTAINS 'b'
a NOT CONTAINS 'b'
a STARTSWITH 'a'
a NOT STARTSWITH 'a'
a ENDSWITH 'c'
a NOT ENDSWITH 'c'
a CONTAINS ''
a NOT CONTAINS ''
-a = -5
-a IS NULL
+a = 5
a = -5
a = --5
a > -2147483648
a = 2147483648 OR c = 'text'
c = 'text' OR a = 5
a = 5 OR c = 'text'
a = 5 AND c = 'text'
c = 'other' AND a = 5
a = 5 AND c = 'other'
a > 1 AND a < 9 AND b = 7
a > 1 OR missing = 1 OR c = 'other'
NOT (a = 5)
NOT a = 5
(a = 5) = TRUE
(a = 5) = (b = 7)
(a = 5) = 'true'
(a = 5) = c
a = (b = 7)
(a = 5) = 5
a = 5 IS NULL
(a > 5) IS NOT NULL
(a = 5) CONTAINS 't'
(a = 5) CONTAINS ''
-(a = 5) IS NULL
""".strip().splitlines()

VALUES: list[str | None] = [
    None,
    "5",
    "5.0",
    "6",
    "-5",
    "+5",
    "05",
    " 5",
    "abc",
    "cab",
    "",
    "true",
    "TRUE",
    "1e1",
    "NaN",
    "3000000000",
    "99999999999999999999",
]

# Texts that Java's number classes read in ways of their own.
NUMBERS = [
    "0",
    "-0",
    "+0",
    "-0.0",
    "0.0",
    "00000000000000000000005",
    "2147483647",
    "2147483648",
    "-2147483648",
    "-2147483649",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "1_000",
    "0x10",
    "0x1p3",
    "0x1.8p1",
    "-0x.8P2f",
    "0x10000p99999",
    "1.5f",
    "1.5d",
    "1.5F",
    "1.5D",
    "1.5L",
    "5L",
    "1.",
    ".5",
    ".",
    "-",
    "+",
    "e5",
    "1e",
    "1e+",
    "1e5",
    "1E-5",
    "1e400",
    "-1e400",
    "1e-400",
    "NaN",
    "-NaN",
    "+Infinity",
    "-Infinity",
    "Infinity",
    "infinity",
    "INF",
    "nan",
    "٥",
    "５",
    "𝟓",
    "٣.٥",
    "5abc",
    "ab5",
    "+-5",
    "--5",
    "0.1",
    "0.30000000000000004",
    "1.7976931348623157e308",
    "4.9e-324",
    "2.4e-324",
]
NUMBER_TESTS = (
    "a = 5",
    "a >= 0",
    "a > 2147483647",
    "a <= 9223372036854775807",
    "a = 3000000000",
    "a > 0.5",
    "a < 0.5",
    "a = 1.5",
    "a > b",
    "a <= b",
    "a = b",
    "5 >= a",
    "0.5 <= a",
)
SPACED = ("\t5", "5\n", " 5.5 ", "\x00 5.5", "\u00a05.5", "5 5", "\u20035")

# Asked once each: the language itself. None of these depends on a value.
SYNTAX = [
    "",
    " ",
    "-- only a comment\n",
    "TRUE",
    "true",
    "False",
    "NULL",
    "null IS NULL",
    "NOT NULL",
    "5",
    "'x'",
    "-a",
    "+a",
    "+ + a = '5'",
    "a b",
    "a = 1 )",
    "a = 1 ) #",
    "a = 1 #",
    "a = 1 'x",
    "a = 5 garbage behind it #",
    "a LIKE 'x%'",
    "a + 1 = 2",
    "a - 1 = 2",
    "a * 2 = 4",
    "a / 2 = 4",
    "a % 2 = 4",
    "a != 5",
    "a == 5",
    "a =< 5",
    "a => 5",
    "a >< 5",
    "a < > 5",
    "a.b = 5",
    "a = 05",
    "a = 5 5",
    "a = 0L",
    "a = 00",
    "a = 0x10",
    "a = 1e3",
    "a = 1E+3",
    "a = 1e",
    "a = 0.0",
    "a = 0.",
    "a = 5.",
    "a = .5",
    "a = .",
    "a = 05.5",
    "a = 1e400",
    "a = 1e-400",
    "a = 4.9e-324",
    "a = -0.0",
    "a = 9223372036854775807",
    "a = 9223372036854775808",
    "a = -9223372036854775808",
    "a = -9223372036854775807",
    "a = 99999999999999999999999",
    "a = 'it''s'",
    "a = ''''",
    "a = ''",
    "a = 'x''",
    "a = 'x'''",
    'a = "x"',
    "a = '\\'",
    "a = 'ü€😀'",
    "ä = 5",
    "$a = 5",
    "_a = 5",
    "a$b_9 = 5",
    "9a = 5",
    "A = 5",
    "TAGS = 'x'",
    "KEYS IS NULL",
    "null = 5",
    "a = NULL",
    "a <> NULL",
    "NULL = NULL",
    "a > NULL",
    "a > TRUE",
    "a > 'x'",
    "'x' < a",
    "TRUE > a",
    "(a = 5) > 5",
    "a > (b = 5)",
    "a > 1 > 0",
    "a > (5)",
    "(a) > (5)",
    "((((a)))) = ((5))",
    "TRUE = 5",
    "TRUE = 'x'",
    "5 = TRUE",
    "'x' = TRUE",
    "'true' = TRUE",
    "TRUE = TRUE",
    "TRUE = FALSE",
    "TRUE <> FALSE",
    "TRUE = NULL",
    "5 = 5",
    "5 = 5.0",
    "5 <> 5L",
    "5 < 3000000000",
    "5.5 > 5",
    "3000000000 > 2.5",
    "9223372036854775807 = 9223372036854775806.0",
    "9007199254740993 = 9007199254740992.0",
    "'5' = 5",
    "5 = '5'",
    "5 = 'x'",
    "'x' = 'x'",
    "'x' <> 'y'",
    "-5 < 5",
    "-(-5) = 5",
    "- - 5 = 5",
    "-'x' IS NULL",
    "-'x' = -'y'",
    "-'x' = 5",
    "5 = -'x'",
    "-TRUE IS NULL",
    "-NULL IS NULL",
    "NOT 5",
    "NOT 'x'",
    "NOT -a",
    "NOT TRUE",
    "NOT NOT TRUE",
    "not TRUE or true",
    "NOT",
    "AND",
    "a AND",
    "a OR",
    "AND a",
    "a = 5 AND",
    "a = 5 AND AND b = 5",
    "a = 5 AND 5",
    "5 OR a = 5",
    "a AND b",
    "a OR TRUE",
    "(a = 5",
    "a = 5)",
    "()",
    "(TRUE)",
    "(TRUE) AND ((FALSE) OR (TRUE))",
    "TRUE OR FALSE AND FALSE",
    "(TRUE OR FALSE) AND FALSE",
    "FALSE AND NULL",
    "NULL AND FALSE",
    "TRUE AND NULL",
    "NULL OR TRUE",
    "FALSE OR NULL",
    "NOT (NULL OR FALSE)",
    "a IS",
    "a IS 5",
    "a IS TRUE",
    "a IS NOT",
    "a IS NOT 5",
    "a IS NULL IS NULL",
    "a IS NOT NULL IS NOT NULL",
    "5 IS NULL",
    "'x' IS NOT NULL",
    "TRUE IS NULL",
    "a NOT NULL",
    "a NOT 5",
    "a NOT",
    "a BETWEEN 1",
    "a BETWEEN 1 AND",
    "a BETWEEN 1 OR 5",
    "a BETWEEN 5 AND 1",
    "a NOT BETWEEN 5 AND 1",
    "a BETWEEN 5 AND 5",
    "a BETWEEN 5.5 AND 5",
    "a BETWEEN 5 AND 5.5",
    "a BETWEEN 3000000000 AND 5",
    "a BETWEEN 'a' AND 'z'",
    "a BETWEEN 1 AND 'z'",
    "a BETWEEN NULL AND 5",
    "a BETWEEN TRUE AND FALSE",
    "a NOT BETWEEN 'a' AND 'z'",
    "a BETWEEN b AND 5",
    "a BETWEEN 1 AND 5 AND b = 5",
    "5 BETWEEN 1 AND 9",
    "'5' BETWEEN 1 AND 9",
    "TRUE BETWEEN 1 AND 9",
    "a BETWEEN (1) AND (9)",
    "a BETWEEN 1 AND 9 BETWEEN 1 AND 9",
    "a IN",
    "a IN ()",
    "a IN ('x'",
    "a IN ('x',)",
    "a IN (,'x')",
    "a IN 'x'",
    "a IN (5)",
    "a IN (b)",
    "a IN ('x', 5)",
    "a IN (NULL)",
    "a IN (('x'))",
    "(a) IN ('5')",
    "+a IN ('5')",
    "-a IN ('5')",
    "5 IN ('5')",
    "'x' IN ('x')",
    "TRUE IN ('true')",
    "a = 5 IN ('x')",
    "a IN ('5') IN ('5')",
    "a IN ('5') = TRUE",
    "a NOT IN ('x') AND b NOT IN ('y')",
    "a CONTAINS",
    "a CONTAINS b",
    "a CONTAINS 5",
    "a CONTAINS ('x')",
    "a contains '5'",
    "5 CONTAINS '5'",
    "'xyz' CONTAINS 'y'",
    "'xyz' NOT CONTAINS 'y'",
    "'xyz' STARTSWITH 'x'",
    "'xyz' ENDSWITH 'z'",
    "'xyz' NOT ENDSWITH 'z'",
    "NULL CONTAINS 'x'",
    "NULL NOT CONTAINS 'x'",
    "TRUE CONTAINS 'T'",
    "TRUE NOT CONTAINS 'T'",
    "a CONTAINS '5' CONTAINS 't'",
    "a CONTAINS '5' = TRUE",
    "a STARTSWITH '5' AND a ENDSWITH '5'",
    "contains = 5",
    "a -- comment\n = 5",
    "a -- comment\r = 5",
    "a -- comment\r\n = 5",
    "a = 5 -- no line end",
    "a = --5",
    "a = --\n5",
    "a = 5--\n",
    "a /* comment */ = 5",
    "a /**/ = 5",
    "a /***/ = 5",
    "a /* * / */ = 5",
    "a /* x = 5",
    "a /*/ = 5",
    "a = 5 /* open",
    "a = 5 ; b = 6",
    "a\t=\f5\r\n",
    "a\u00a0= 5",
    "a = 5\u0000",
    "a=5AND b=7",
    "a=5andb=7",
    "a=5.AND b=7",
    "a='5'AND b=7",
    "a<>6and(b)=7",
    "a=5=TRUE",
    "a=5=TRUE=TRUE",
    "a=5<>FALSE",
    "a = b = c",
    "NOT (a = 5) = FALSE",
    "NOT a = FALSE",
    "NOT b IS NULL",
    "NOT missing IS NULL",
    "NOT a IN ('5')",
    "NOT (a IN ('5'))",
    "NOT a CONTAINS '5'",
    "NOT (a BETWEEN 1 AND 9)",
    "NOT a BETWEEN 1 AND 9",
    "a = 5 OR (b = 'x' AND c > 'y')",
    "((a = 5) OR (b = 6)) AND NOT (c IS NULL)",
    " OR ".join(f"a = {number}" for number in range(300)),
    " AND ".join(f"a <> {number}" for number in range(6, 300)),
    "a IN (" + ", ".join(f"'{number}'" for number in range(500)) + ")",
    "(" * 50 + "a = 5" + ")" * 50,
    "NOT " * 50 + "(a = 5)",
    "- " * 51 + "5 < 0",
]

# What random search has found, kept as it was found.
FOUND: list[Pair] = []


def pairs() -> list[Pair]:
    asked: list[Pair] = []
    beside = {"b": "7", "c": "text"}
    for text, value in itertools.product(ONE_PROPERTY, VALUES):
        asked.append((text, beside if value is None else {"a": value, **beside}))
    for text, value in itertools.product(NUMBER_TESTS, (*NUMBERS, *SPACED)):
        asked.append((text, {"a": value, "b": "0.0"}))
    asked += [(text, {"a": "5", "b": "7", "c": "text", "TAGS": "x"}) for text in SYNTAX]
    return asked + FOUND


def write() -> None:
    asked = pairs()
    rows = [[text, dict(given), answer] for (text, given), answer in zip(asked, ask_java(asked), strict=True)]
    lines = ",\n".join(json.dumps(row, ensure_ascii=True) for row in rows)
    TABLE.write_text(f"[\n{lines}\n]\n", "utf-8")
    print(f"{len(rows)} rows in {TABLE}")


if __name__ == "__main__":
    write()
