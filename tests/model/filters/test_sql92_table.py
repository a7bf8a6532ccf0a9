"""Every row of the table that RocketMQ 5.5.0's own filter module has answered (tests/interop/sql92 made it)."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from pyromq.model.filters.sql92 import EvaluationFault, FilterFault, Sql92

TABLE = Path(__file__).resolve().parents[2] / "golden" / "sql92.json"
ROWS: list[tuple[str, dict[str, str], str]] = json.loads(TABLE.read_text("utf-8"))


def answer(text: str, properties: dict[str, str], usual: bool = True) -> str:
    try:
        expression = Sql92(text, usual)
    except FilterFault:
        return "invalid"
    try:
        found = expression.evaluate(properties)
    except EvaluationFault:
        return "error"
    return "unknown" if found is None else str(found).lower()


@pytest.mark.parametrize("usual", [True, False], ids=["generated", "functions"])
def test_we_answer_as_java_does(usual: bool) -> None:
    different = [
        f"{text[:80]!r} {given}: Java says {wanted}, we {got}"
        for text, given, wanted in ROWS
        if (got := answer(text, given, usual)) != wanted
    ]
    assert different == []


def test_the_table_knows_every_answer_many_times() -> None:
    counts = Counter(wanted for _, _, wanted in ROWS)
    assert set(counts) == {"true", "false", "unknown", "error", "invalid"}
    assert min(counts.values()) > 50
    assert len(ROWS) > 1_500


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a > 5 AND a >= 10 AND a < 11 AND a <= 10 AND a = 10", "true"),
        ("a BETWEEN 0 AND 3", "false"),
        ("pi = 3.1415", "true"),
        ("b = 'abc' AND b <> 'x' AND b IN ('abc', 'd')", "true"),
        ("b IN ('x', 'y')", "false"),
        ("gone IS NULL AND b IS NOT NULL", "true"),
        ("c = TRUE OR c = FALSE", "true"),
        ("NOT (a = 10)", "false"),
        ("a > 5 AND b = 'x'", "false"),
    ],
)
def test_each_comparison_join_and_constant_of_rocketmqs_page(text: str, wanted: str) -> None:
    assert answer(text, {"a": "10", "b": "abc", "c": "true", "pi": "3.1415"}) == wanted
