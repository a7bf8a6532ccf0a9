"""Rows for people."""

from __future__ import annotations

import pytest

from pyromq.text import tables, values


def test_columns_are_in_line_and_numbers_stand_to_the_right() -> None:
    rows = [{"topic": "orders", "lag": 7, "isOpen": True}, {"topic": "o", "lag": 1234, "isOpen": False}]
    assert list(tables.lines(rows)) == [
        "topic    lag  is open",
        "orders     7  yes",
        "o       1234  no",
    ]
    assert list(tables.lines([])) == []


def test_chinese_letters_take_two_columns() -> None:
    assert list(tables.lines([{"body": "订单", "n": "a"}, {"body": "abcd", "n": "b"}])) == [
        "body  n",
        "订单  a",
        "abcd  b",
    ]


@pytest.mark.parametrize(
    ("name", "value", "heading", "text"),
    [
        ("storedMs", 0, "stored", "-"),
        ("diskBytes", 3 << 20, "disk", "3.0 MiB"),
        ("diskBytes", 12, "disk", "12 B"),
        ("leftSeconds", 3 * 3600 + 120, "left", "3 h 2 min"),
        ("leftSeconds", 75, "left", "1 min 15 s"),
        ("leftSeconds", 1.25, "left", "1.2 s"),
        ("perSecond", 1.26, "per second", "1.3"),
        ("tags", "", "tags", "-"),
        ("tags", None, "tags", "-"),
        ("brokers", ["a", "b"], "brokers", "a, b"),
        ("settings", {"a": 1}, "settings", "a=1"),
        ("body", "two\nlines", "body", "two\\nlines"),
    ],
)
def test_a_name_says_how_people_read_its_value(name: str, value: object, heading: str, text: str) -> None:
    assert values.heading(name) == heading
    assert values.shown(name, value) == text


def test_a_time_is_local() -> None:
    assert values.shown("storedMs", 1_794_800_000_123).endswith(".123")


def test_a_time_past_the_calendar_is_in_words() -> None:
    for ms in (361_784_000_000_000, (1 << 63) - 1, 10**400):  # retention for ever
        assert values.shown("leavesMs", ms) == "after 9999"
    assert values.moment(-(10**30)) == "before the year 1"


def test_facts() -> None:
    assert list(tables.facts({"topic": "orders", "lag": 3})) == ["topic  orders", "lag    3"]


def test_control_characters_do_not_reach_the_terminal() -> None:
    assert values.shown("tag", "evil\x1b[31mred\x07\x9b2J") == "evil\\x1b[31mred\\x07\\u009b2J"
    assert values.shown("tags", ["two\nlines", "\tand 日本"]) == "two\\nlines, \\tand 日本"
    assert values.shown("tag", "t\x1b[2J\n") == "t\\x1b[2J\\n"


def test_a_value_that_is_too_long_for_its_line_is_shown_whole() -> None:
    name = "a-topic-with-a-long-name-that-stands-in-many-lines"
    rows = [{"topic": name, "group": f"{name} and {name}", "attributes": {}}]
    for columns in (1, 20, 40):
        shown = list(tables.lines(rows, columns))
        assert [line.split()[-1] for line in shown if name in line] == [name] * 3, columns
        assert shown[-1] == "attributes  -"
    facts = ["topic       " + name, "group       " + name, "            and", "            " + name, "attributes  -"]
    assert list(tables.lines(rows, 40)) == facts
