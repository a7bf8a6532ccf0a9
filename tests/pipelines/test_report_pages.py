"""Reports of trace, analytics and forensics in Debian's Chromium, as people open them: from a file, in any window."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser
from pyspark.sql import SparkSession

import pyromq
from pyromq.model.message_trace import Consumed, ConsumeStarted, Sent, Traced
from pyromq.pipelines.analytics import analytics
from pyromq.pipelines.forensics import forensics
from pyromq.pipelines.report.html_page import page
from pyromq.pipelines.report.summary import Plot, Summary, Table
from pyromq.pipelines.trace import trace
from pyromq.protocol.trace import encode_trace
from tests.browser import barriers, chromium, spoiled_words, too_wide
from tests.pipelines.test_looking import damage_at
from tests.spark.servers import Servers

GUISES: list[dict[str, Any]] = [
    {"color_scheme": scheme, "viewport": {"width": width, "height": 900}}
    for scheme in ("light", "dark")
    for width in (1280, 390)
]
LONG = "customers-who-have-ordered-by-telephone-in-the-night"


def traced(topic: str, number: int) -> list[Traced]:
    """A message that was sent and consumed, in milliseconds of its own."""
    name = f"{topic}-{number:028}"
    return [
        Sent(message_id=name, time_ms=1000, topic=topic, group="p", cost_ms=number * 37 % 211),
        ConsumeStarted(message_id=name, time_ms=1100 + number, group="billing", request_id=name),
        Consumed(message_id=name, request_id=name, cost_ms=number * 13 % 97, group="billing"),
    ]


@pytest.fixture
def summaries(spark: SparkSession, servers: Servers, topic: str, tmp_path: Path) -> dict[str, Summary]:
    """Of real runs, with long names among short ones and a record that is damaged."""
    names, words = (f"{topic}-a", f"{topic}-{LONG}"), f"{topic}:spoiled.".ljust(200)
    with pyromq.sync.connect(servers.namesrv) as client, client.producer() as producer:
        for number in range(12):
            producer.send(names[number % 2], b"x" * (100 * number + 1), tag=f"t{number % 3}")
            producer.send(topic, encode_trace(traced(names[number % 2], number)))
        producer.send(names[0], words.encode())
    copy = tmp_path / "copy"
    shutil.copytree(servers.store(), copy)
    damage_at(copy, words.encode())
    source = {"nameServer": servers.namesrv, "topic": ",".join(names)}
    return {
        "trace": trace(spark, {"nameServer": servers.namesrv, "topic": topic}),
        "analytics": analytics(spark, source, window="1s"),
        "forensics": forensics(spark, [str(copy)]),
        "drawn": hard_to_draw(),
    }


def hard_to_draw() -> Summary:
    """What plots have to cope with: a day by the minute, numbers with many digits, one point, long names."""
    minutes = {f"2026-11-19 {number // 60:02}:{number % 60:02}:00": number * 1_234_567 for number in range(1440)}
    plots = [
        Plot("A day", "lines", "bytes", "minute (UTC)", {"a": minutes, LONG: {"2026-11-19 00:05:00": 3.0}}),
        Plot("One", "lines", "bytes", "minute (UTC)", {"a": {"2026-11-19 00:05:00": 3.0}}),
        Plot("Many", "bars", "messages", "topic", {"p50": {f"{LONG}-{number}": 10.0**number for number in range(12)}}),
    ]
    return Summary("drawn", {"where": LONG * 3}, [Table("wide", [{f"column {n}": LONG for n in range(9)}])], plots)


async def faults_of(browser: Browser, file: Path, summary: Summary, guise: dict[str, Any]) -> list[str]:
    """What is wrong with a page in one window: too wide, cut off, hard to read, not silent, a plot is lacking."""
    found: list[str] = []
    context = await browser.new_context(**guise)
    shown = await context.new_page()
    shown.on("console", lambda message: found.append(message.text))
    shown.on("pageerror", lambda error: found.append(str(error)))
    await shown.goto(file.as_uri())
    assert await shown.locator("h1").inner_text() == f"PyroMQ {summary.pipeline}"
    plots = [each for each in summary.plots if any(each.series.values())]
    found += [] if await shown.locator("svg:visible").count() == len(plots) else ["not each plot is shown once"]
    found += [f"{width} px too wide"] if (width := await too_wide(shown)) else []
    found += [*await barriers(shown), *await spoiled_words(shown)]
    await context.close()
    return [f"{file.stem}: {each}: {guise}" for each in found]


async def test_reports_in_a_browser(summaries: dict[str, Summary], tmp_path: Path) -> None:
    """No wider than its window, nothing cut off or on top of other words, fine by axe's rules, a silent console."""
    faults: list[str] = []
    async with chromium() as browser:
        for name, summary in summaries.items():
            file = tmp_path / f"{name}.html"
            file.write_text(page(summary, "2026-11-19 20:05:00 UTC"), "utf-8")
            for guise in GUISES:
                faults += await faults_of(browser, file, summary, guise)
    assert faults == []


async def test_a_report_is_dark_where_people_want_that(tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text(page(hard_to_draw(), ""), "utf-8")
    grounds = {}
    async with chromium() as browser:
        for scheme in ("light", "dark"):
            context = await browser.new_context(color_scheme=scheme)
            shown = await context.new_page()
            await shown.goto(file.as_uri())
            grounds[scheme] = await shown.evaluate("getComputedStyle(document.body).backgroundColor")
    assert grounds == {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 23, 27)"}
