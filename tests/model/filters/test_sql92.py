"""Where the table of Java's answers says nothing: positions in errors, bounds, and that nothing else is ever raised."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.model.filters.generated import define
from pyromq.model.filters.parser import MAX_CONTAINS, MAX_LENGTH, MAX_NESTING, MAX_TESTS
from pyromq.model.filters.sql92 import EvaluationFault, FilterFault, Sql92, compile_sql
from tests.cpu_time import cpu_s


@pytest.mark.parametrize(
    ("text", "where", "why"),
    [
        ("", "line 1, column 1", "empty"),
        ("a = ", "line 1, column 5", "the end"),
        ("a = 'x", "line 1, column 5", "does not end"),
        ("a >> 3", "line 1, column 4", "'>'"),
        ("a = 1 AND\n b ! 5", "line 2, column 4", "'!'"),
        ("a BETWEEN 5 AND 1", "line 1, column 3", "5 is above 1"),
        ("x = 1 OR a > 'b'", "line 1, column 12", "'b' cannot be compared by >"),
        ("a = NULL", "line 1, column 3", "use IS NULL"),
        ("b = 1 AND 5", "line 1, column 11", "no condition"),
        ("a IN (5)", "line 1, column 7", "'text'"),
        ("a IS 5", "line 1, column 6", "NULL"),
        ("a NOT 5", "line 1, column 7", "after NOT"),
        ("(a = 5", "line 1, column 7", "')'"),
        ("a = 0.0", "line 1, column 5", "use 0"),
        ('a = "x"', "line 1, column 5", "single quotes"),
    ],
)
def test_an_error_says_where_and_why(text: str, where: str, why: str) -> None:
    with pytest.raises(FilterFault, match="SQL92 expression") as fault:
        Sql92(text)
    assert where in str(fault.value)
    assert why in str(fault.value)


@pytest.mark.parametrize("opening", ["(", "NOT ", "- ", "+ ", "NOT ("])
def test_nesting_is_bounded(opening: str) -> None:
    with pytest.raises(FilterFault, match=f"more than {MAX_NESTING} levels"):
        Sql92(opening * 5_000 + "a")


def test_the_deepest_nesting_is_evaluated() -> None:
    assert Sql92("(" * MAX_NESTING + "a = 5" + ")" * MAX_NESTING).matches({"a": "5"})
    assert Sql92("NOT " * (MAX_NESTING - 2) + "(a = 5)").matches({"a": "5"})


def test_long_chains_need_no_deep_stack() -> None:
    many = MAX_TESTS - 1
    assert Sql92(" OR ".join(f"a = {number}" for number in range(many))).matches({"a": str(many - 1)})
    assert Sql92(" AND ".join(f"a <> {number}" for number in range(1, many))).matches({"a": "0"})
    with pytest.raises(FilterFault, match="links"):
        Sql92("a" + " IS NULL" * 500)


def test_cost_is_bounded() -> None:
    with pytest.raises(FilterFault, match=f"more than {MAX_TESTS} tests"):
        Sql92(" OR ".join(["a = 1"] * (MAX_TESTS + 1)))
    with pytest.raises(FilterFault, match=f"the limit is {MAX_LENGTH}"):
        Sql92("a = '" + "x" * MAX_LENGTH + "'")


def test_the_same_text_is_compiled_once() -> None:
    assert compile_sql("a = 5 AND b IS NULL") is compile_sql("a = 5 AND b IS NULL")


def test_it_knows_the_properties_that_it_asks_for() -> None:
    text = "a = 5 AND b IN ('x') OR NOT c AND (d > e OR -f IS NULL) AND g CONTAINS 'x' AND h BETWEEN 1 AND i"
    assert Sql92(text).names == tuple("abcdefghi")
    assert Sql92("5 = a").names == ("a",)
    assert Sql92("TRUE").names == ()


WORDS = st.sampled_from(
    [
        "a",
        "b",
        "NOT",
        "AND",
        "OR",
        "BETWEEN",
        "IN",
        "IS",
        "NULL",
        "TRUE",
        "FALSE",
        "CONTAINS",
        "STARTSWITH",
        "=",
        "<>",
        "<",
        ">",
        "<=",
        ">=",
        "(",
        ")",
        ",",
        "+",
        "-",
        "5",
        "05",
        "5.5",
        "'x'",
        "''",
        "--",
        "/*",
        "*/",
        "#",
    ]
)


@given(st.one_of(st.text(max_size=40), st.lists(WORDS, max_size=15).map(" ".join)), st.text(max_size=5))
def test_nothing_but_our_own_faults_is_raised(text: str, value: str) -> None:
    try:
        answer = Sql92(text).evaluate({"a": value, "b": "5"})
    except (FilterFault, EvaluationFault) as fault:
        reason = str(fault)
    else:
        reason = str(answer)
    assert reason


TEXTS = st.text(max_size=6) | st.sampled_from(["5", "-5", "5.0", "1e1", "x", "true", "NaN", "{}", "'", "99999999999"])
PARTS = st.sampled_from(
    [
        *(f"a {sign} {literal}" for sign in ("=", "<>", "<", "<=", ">", ">=") for literal in ("5", "-5", "5L", "5.0")),
        *(f"{literal} {sign} b" for sign in ("=", "<", ">=") for literal in ("5", "9.5", "99999999999")),
        *("a = '{}'", "b <> 'p0'", "'x' = a", "a IS NULL", "b IS NOT NULL", "a = TRUE", "b <> FALSE", "a = b", "TRUE"),
        *("a IN ('x', '{}', '\\')", "b NOT IN ('5')", "a CONTAINS ''''", "b NOT STARTSWITH '5'", "a ENDSWITH 'x'"),
        *("a CONTAINS ''", "a BETWEEN 1 AND 9", "b NOT BETWEEN -1 AND 5.5", "a"),
    ]
)


def joined(word: str, terms: list[str]) -> str:
    return f" {word} ".join(f"({one})" for one in terms)


EXPRESSIONS = st.recursive(
    PARTS,
    lambda inner: st.one_of(
        st.builds(joined, st.sampled_from(["AND", "OR"]), st.lists(inner, min_size=2, max_size=4)),
        inner.map(lambda one: f"NOT ({one})"),
    ),
    max_leaves=12,
)


@given(EXPRESSIONS, st.dictionaries(st.sampled_from(["a", "b"]), TEXTS))
def test_the_generated_function_answers_as_the_others_do(text: str, properties: dict[str, str]) -> None:
    answers = []
    for usual in (True, False):
        try:
            answers.append(str(Sql92(text, usual).evaluate(properties)))
        except FilterFault:
            answers.append("invalid")
        except EvaluationFault:
            answers.append("fault")
    assert answers[0] == answers[1]


def test_the_usual_ones_are_generated_and_long_ones_are_not() -> None:
    usual = Sql92("a > 5 AND b = 'it''s {0}' OR c IS NOT NULL")
    assert usual.of_bytes is not None
    ask = define(f"def ask(p0, p1, p2): return {usual.of_bytes}", "ask")
    assert ask(b"6", b"it's {0}", None) is True
    assert ask(None, None, None) is None
    assert Sql92(" OR ".join(["a = 5"] * 100)).of_bytes is None
    assert Sql92("a = b").of_bytes is None


def test_a_text_that_unreadable_bytes_may_become_is_not_asked_of_bytes() -> None:
    assert Sql92("a = '\ufffd'").of_bytes is None
    assert Sql92("a = '\ufffd'").matches({"a": "\ufffd"})


# --- what an expression may cost ------------------------------------------------------------------------------------


def test_contains_may_stand_only_so_often() -> None:
    """Each looks through a whole property: 1,000 of them took 140 ms of a message with 30 KB."""
    most = " OR ".join(["a CONTAINS 'x'"] * MAX_CONTAINS)
    assert Sql92(most).matches({"a": "x"})
    with pytest.raises(FilterFault, match=f"more than {MAX_CONTAINS} times CONTAINS"):
        Sql92(most + " OR NOT (a NOT CONTAINS 'x')")
    assert Sql92(most + " OR a STARTSWITH 'b'").matches({"a": "b"})


def test_dashes_without_a_line_end_are_signs_and_each_is_looked_at_once() -> None:
    """Each pair was followed to the end of the text: 0.1 s for this one, on the way to seconds."""
    text = " OR ".join(["a = --1"] * (MAX_TESTS - 1))
    assert cpu_s(lambda: Sql92(text)) < 0.06
    assert Sql92("a = --1").matches({"a": "1"})
    assert Sql92("a = --1\n1").matches({"a": "1"})
    assert Sql92("a = 1 -- a comment\r").matches({"a": "1"})


@pytest.mark.parametrize("digits", ["0" * 30_000 + "1", "\u0660" * 10_000 + "\u0661", "+" + "0" * 30_000 + "1"])
@pytest.mark.parametrize("test", ["a = 1", "a > 0", "a < 5000000000", "a BETWEEN 0 AND 2"])
def test_a_long_number_is_read_once_for_many_tests(digits: str, test: str) -> None:
    """8 ms each time, and an expression asked hundreds of times."""
    expression = Sql92(" AND ".join([test] * 250))
    assert cpu_s(lambda: expression.matches({"a": digits})) < 0.1
    assert expression.matches({"a": digits})


def test_a_long_double_is_read_once_for_many_tests() -> None:
    expression = Sql92(" AND ".join(["a > 0.5"] * 500))
    assert cpu_s(lambda: expression.matches({"a": "1." + "1" * 30_000})) < 0.04
    assert expression.matches({"a": "1." + "1" * 30_000})


@pytest.mark.parametrize("text", ["1" * 20, "1" * 30_000, "0" * 40 + "x", "\U0001d7ce" * 40, " " * 40 + "1", "-" * 40])
def test_long_texts_that_are_no_whole_number_are_none(text: str) -> None:
    with pytest.raises(EvaluationFault, match="is no such number"):
        Sql92("a > 1").matches({"a": text})
    with pytest.raises(EvaluationFault, match="is no such number"):
        Sql92("a > 1", usual=False).matches({"a": text})


def test_a_long_text_is_no_boolean() -> None:
    for usual in (True, False):
        assert Sql92("a = TRUE", usual).matches({"a": "tRuE"})
        assert Sql92("a = FALSE", usual).matches({"a": "true" * 10_000})
