"""A summary as text, JSON and a page that needs nothing from elsewhere."""

from __future__ import annotations

import json
import re
from xml.etree import ElementTree

import pytest

from pyromq.pipelines.report import page
from pyromq.pipelines.summary import Plot, Summary, Table

SUMMARY = Summary(
    "trace",
    {"messages": 1234, "where": "<here>", "empty": None},
    [
        Table("by topic", [{"topic": "a&b", "p50": 1.25, "ok": True}, {"topic": "[red]x", "p50": None, "ok": False}]),
        Table("none", []),
    ],
    [
        Plot("Latency <ms>", "bars", "ms", {"p50": {"a&b": 3, "c": 0}, "p99": {"a&b": 7}}),
        Plot("Rate", "lines", "messages", {"a": {"10:00": 5, "10:01": 7}, "b": {"10:01": 1}}),
        Plot("Nothing", "bars", "ms", {"p50": {}}),
    ],
)


def test_the_page_is_whole_and_needs_no_network() -> None:
    text = page(SUMMARY, "2026-11-16 09:00:00 UTC")
    tree = ElementTree.fromstring(text.split("\n", 1)[1].replace("&#9632;", "#"))
    assert not re.search(r"""(?:src|href|url|@import)\s*[=(]|https?:|<script""", text)
    words = " ".join(tree.itertext())
    assert "<here>" in words
    assert "a&b" in words
    assert "1,234" in words


def test_plots_draw_every_value() -> None:
    tree = ElementTree.fromstring(page(SUMMARY, "").split("\n", 1)[1].replace("&#9632;", "#"))
    bars, lines = tree.findall(".//svg")
    widths = [float(rect.get("width", "0")) for rect in bars.findall("rect")]
    assert len(widths) == 3
    assert widths[1] == max(widths)
    assert widths[2] == 1  # a bar of nothing is still seen
    [line] = lines.findall("polyline")
    points = [tuple(map(float, pair.split(","))) for pair in line.get("points", "").split()]
    assert points[0][0] < points[1][0]
    assert points[0][1] > points[1][1]  # more is higher
    assert len(lines.findall("circle")) == 1  # a line of one point
    assert "nothing to draw" in "".join(tree.itertext())


def test_a_table_cannot_hide_a_fact() -> None:
    with pytest.raises(ValueError, match="names of facts and of tables"):
        Summary("search", {"found": 1}, [Table("found", [])])


def test_text_and_json_say_the_same() -> None:
    told = json.loads(SUMMARY.as_json())
    assert told["by topic"][0] == {"topic": "a&b", "p50": 1.25, "ok": True}
    text = SUMMARY.as_text(100)
    assert "[red]x" in text
    assert text.endswith("trace: messages 1234, where <here>, empty None\n")
