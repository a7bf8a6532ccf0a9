"""Java's .properties rules, case by case, and back again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.config import properties
from pyromq.errors import ConfigError


def pairs(text: str) -> list[tuple[str, str]]:
    return [(entry.key, entry.value) for entry in properties.parse(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=1", [("a", "1")]),
        ("a = 1 ", [("a", "1 ")]),
        ("  a:1", [("a", "1")]),
        ("a   1", [("a", "1")]),
        ("a\t=\f1", [("a", "1")]),
        ("a==1", [("a", "=1")]),
        ("a : = 1", [("a", "= 1")]),
        ("a", [("a", "")]),
        ("a=", [("a", "")]),
        ("=1", [("", "1")]),
        ("a=1\n\n# note\n  ! note\nb=2", [("a", "1"), ("b", "2")]),
        ("a=1\r\nb=2\rc=3", [("a", "1"), ("b", "2"), ("c", "3")]),
        ("a=x#y!z", [("a", "x#y!z")]),
        ("a\\=b=1", [("a=b", "1")]),
        ("a\\ b = 1", [("a b", "1")]),
        ("path=c:\\\\temp", [("path", "c:\\temp")]),
        ("a=\\t\\n\\r\\f\\z", [("a", "\t\n\r\fz")]),
        ("a=\\u00e9\\u4e2d", [("a", "é中")]),
        ("a=\\uD83D\\uDE00", [("a", "😀")]),
        ("a=中文", [("a", "中文")]),
        ("a=1,\\\n   2,\\\n   3", [("a", "1,2,3")]),
        ("a=1\\\\\nb=2", [("a", "1\\"), ("b", "2")]),
        ("a=1\\\n# not a comment", [("a", "1# not a comment")]),
        ("# note\\\na=1", [("a", "1")]),
        ("a=1\\", [("a", "1")]),
        ("a=1\na=2", [("a", "1"), ("a", "2")]),
        ("", []),
    ],
)
def test_reads_as_java_does(text: str, expected: list[tuple[str, str]]) -> None:
    assert pairs(text) == expected


def test_an_entry_knows_the_line_on_which_it_begins() -> None:
    entries = properties.parse("# one\n\na=1,\\\n  2\n\nb=3\n")
    assert [(entry.key, entry.line) for entry in entries] == [("a", 3), ("b", 6)]


@pytest.mark.parametrize("text", ["a=\\u12", "a=\\u12g4", "a=\\uD83D"])
def test_a_malformed_escape_names_source_and_line(text: str) -> None:
    with pytest.raises(ConfigError, match=r"namesrv\.conf line 2: .*\\u"):
        properties.parse(f"# note\n{text}", "namesrv.conf")


PLAIN = st.text(st.characters(exclude_categories=["Cs"]))


@given(st.dictionaries(PLAIN.filter(lambda key: key != ""), PLAIN))
def test_what_is_written_is_read_back(wanted: dict[str, str]) -> None:
    assert dict(pairs(properties.render(wanted))) == wanted


@given(st.text())
def test_any_text_is_entries_or_a_clear_error(text: str) -> None:
    try:
        entries = properties.parse(text, "x")
    except ConfigError as fault:
        error = str(fault)
    else:
        assert all(1 <= entry.line <= len(text) + 1 for entry in entries)
        return
    assert error.startswith("x line ")
