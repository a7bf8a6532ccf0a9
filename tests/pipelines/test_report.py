"""A summary as text, JSON and a page that needs nothing from elsewhere."""

from __future__ import annotations

import json
import re
from xml.etree import ElementTree

import pytest

from pyromq.pipelines.report.drawing import scale
from pyromq.pipelines.report.html_page import page
from pyromq.pipelines.report.summary import Plot, Summary, Table

# Anything that a browser would fetch, or run.
FROM_ELSEWHERE = re.compile(r"""(?:src|href|url|@import)\s*[=(]|https?:|<(?:script|link|iframe|object|embed)""", re.I)

SUMMARY = Summary(
    "trace",
    {"messages": 1234, "where": "<here>", "empty": None},
    [
        Table("by topic", [{"topic": "a&b", "p50": 1.25, "ok": True}, {"topic": "[red]x", "p50": None, "ok": False}]),
        Table("none", []),
    ],
    [
        Plot("Latency <ms>", "bars", "ms", "topic", {"p50": {"a&b": 3, "c": 0}, "p99": {"a&b": 7}}),
        Plot("Rate", "lines", "messages", "minute (UTC)", {"a": {"10:00": 5, "10:01": 7}, "b": {"10:01": 1}}),
        Plot("Nothing", "bars", "ms", "topic", {"p50": {}}),
    ],
)


def test_the_page_is_whole_and_needs_no_network() -> None:
    text = page(SUMMARY, "2026-11-16 09:00:00 UTC")
    tree = ElementTree.fromstring(text.split("\n", 1)[1].replace("&#9632;", "#"))
    assert not FROM_ELSEWHERE.search(text)
    words = " ".join(tree.itertext())
    assert "<here>" in words
    assert "a&b" in words
    assert "1,234" in words


def test_plots_draw_every_value() -> None:
    tree = ElementTree.fromstring(page(SUMMARY, "").split("\n", 1)[1].replace("&#9632;", "#"))
    bars, lines = tree.findall(".//div[@class='plot wide']/svg")
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


def test_every_plot_says_what_it_shows_and_what_its_axes_are() -> None:
    tree = ElementTree.fromstring(page(SUMMARY, "").split("\n", 1)[1].replace("&#9632;", "#"))
    wide, narrow = (tree.findall(f".//div[@class='plot {kind}']/svg") for kind in ("wide", "narrow"))
    assert len(wide) == len(narrow) == 2
    for drawn, plot in [*zip(wide, SUMMARY.plots, strict=False), *zip(narrow, SUMMARY.plots, strict=False)]:
        assert plot.title in drawn.findtext("title", "")
        assert {text.text for text in drawn.findall("text[@class='axis']")} == {plot.unit, plot.across}
        width = float(drawn.get("width", "0"))
        ends = [
            (float(text.get("x", "0")), text.get("text-anchor"), len(text.text or "")) for text in drawn.iter("text")
        ]
        assert all(x + 7 * long <= width for x, anchor, long in ends if anchor == "start")  # nothing is cut off
        assert all(x - 7 * long >= 0 for x, anchor, long in ends if anchor == "end")


def test_the_numbers_of_an_axis_are_round() -> None:
    assert [scale(most) for most in (19_684, 5, 0.7, 1, 0, 100)] == [20_000, 8, 0.8, 1, 4, 100]


def test_a_table_cannot_hide_a_fact() -> None:
    with pytest.raises(ValueError, match="names of facts and of tables"):
        Summary("search", {"found": 1}, [Table("found", [])])


def test_text_and_json_say_the_same() -> None:
    told = json.loads(SUMMARY.as_json())
    assert told["by topic"][0] == {"topic": "a&b", "p50": 1.25, "ok": True}
    text = SUMMARY.as_text(100)
    title, heading, first = (line.split() for line in text.splitlines()[:3])
    assert (title, heading, first) == (["trace:", "by", "topic"], ["topic", "p50", "ok"], ["a&b", "1.25", "yes"])
    assert "[red]x" in text
    assert text.endswith("trace: messages 1234, where <here>, empty -\n")


def test_json_has_plain_values_which_people_get_in_words() -> None:
    row = {"topic": "a", "oldestMs": 1_763_394_300_250, "sendP50Ms": 5, "livedSeconds": 90, "sharePercent": 50}
    rows = [row, dict.fromkeys(row)]
    summary = Summary("trace", {"windowSeconds": 300}, [Table("byTopic", rows, ["sendP50Ms"])])
    assert json.loads(summary.as_json()) == {"pipeline": "trace", "windowSeconds": 300, "byTopic": rows}
    title, headings, first, _, _, facts = summary.as_text().splitlines()
    assert (title, facts) == ("trace: by topic", "trace: window 5 min 0 s")
    assert re.split(" {2,}", headings.strip()) == ["topic", "oldest (UTC)", "send p50 ms", "lived", "share percent"]
    assert first.split() == ["a", "2025-11-17", "15:45:00.250", "5", "1", "min", "30", "s", "50"]
    on_page = page(summary, "")
    for words in ("<h2>by topic</h2>", "oldest (UTC)</th>", "<td>2025-11-17 15:45:00.250</td>", "<td>1 min 30 s</td>"):
        assert words in on_page
    assert "<dt>window</dt><dd>5 min 0 s</dd>" in on_page


def test_hostile_names_are_text_on_the_page_and_in_the_tables() -> None:
    name = "<script>alert(1)</script>'\"\x1b[2J\u202e\n[link=http://x]y[/]"
    plots = [Plot(name, kind, name, name, {name: {name: 1.0, "b": 2.0}}) for kind in ("bars", "lines")]
    summary = Summary("trace", {"topic": name}, [Table(name, [{"topic": name, name: name}])], plots)
    text = page(summary, name)
    assert "<script" not in text
    assert all(line.isprintable() for line in text.replace("\t", "").split("\n"))
    ElementTree.fromstring(text.split("\n", 1)[1].replace("&#9632;", "#"))
    drawn = summary.as_text(200)
    assert "[link=http://x]y[/]" in drawn
    assert all(line.isprintable() for line in drawn.split("\n"))


def test_a_table_that_is_too_wide_is_a_list_and_no_word_is_broken() -> None:
    name = "a-topic-with-a-name-of-forty-letters-and-more"
    rows = [{"topic": name, "group": name, "livedSeconds": 90, "missing": None}]
    told = Summary("backlog", {"messages": 30, "where": f"{name} {name}"}, [Table("queues", rows), Table("empty", [])])
    for width in (60, 80):
        assert told.as_text(width).splitlines() == [
            "backlog: queues",
            f"  topic    {name}",
            f"  group    {name}",
            "  lived    1 min 30 s",
            "  missing  -",
            "",
            "backlog: empty: nothing",
            "backlog: messages 30, where" if width == 60 else f"backlog: messages 30, where {name}",
            *([f"  {name}"] * (2 if width == 60 else 1)),
        ]
    assert told.as_text().splitlines()[1].split() == ["topic", "group", "lived", "missing"]
