"""One line per event, in text or JSON, with levels; and the limit on lines that a peer could repeat without end."""

from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Iterator

import pytest

from pyromq import logs
from pyromq.testing.clock import ManualClock

HOSTILE = 'two\nlines and "quotes" \x1b[31m \x9b2J \u202e \u2028 \r'


@pytest.fixture(autouse=True)
def untouched_logging() -> Iterator[None]:
    root = logging.getLogger("pyromq")
    before = (root.handlers[:], root.level, root.propagate)
    yield
    root.handlers[:], root.level, root.propagate = before[0], before[1], before[2]


def text_of(level: str = "info", log_format: logs.LogFormat = "text") -> io.StringIO:
    stream = io.StringIO()
    logs.configure(level, log_format, stream)
    return stream


def test_a_text_line_is_time_level_logger_event_fields() -> None:
    stream = text_of()
    logs.get("pyromq.namesrv").warning("broker expired", broker="broker-a", silent_ms=120_331)
    stamp, _, rest = stream.getvalue().partition(" ")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", stamp)
    assert rest == "WARNING pyromq.namesrv broker expired broker=broker-a silent_ms=120331\n"


@pytest.mark.parametrize("level", ["debug", "info", "warning", "error"])
def test_lines_below_the_level_are_left_out(level: str) -> None:
    stream = text_of(level)
    log = logs.get("pyromq.x")
    for name in ("debug", "info", "warning", "error"):
        getattr(log, name)(f"a {name}")
    order = ["debug", "info", "warning", "error"]
    written = [line.split()[-1] for line in stream.getvalue().splitlines()]
    assert written == order[order.index(level) :]


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_whatever_a_peer_sends_stays_on_one_line(log_format: logs.LogFormat) -> None:
    stream = text_of(log_format=log_format)
    logs.get("pyromq.x").info("bad frame", detail=HOSTILE)
    logs.get("pyromq.x").info(f"bad {HOSTILE}", half="\ud800")
    logging.getLogger("pyromq.x").info("bad %s", HOSTILE)
    lines = stream.getvalue().split("\n")
    assert len(lines) == 4
    assert all(line.isprintable() for line in lines)


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_a_name_of_a_megabyte_does_not_fill_the_log(log_format: logs.LogFormat) -> None:
    stream = text_of(log_format=log_format)
    logs.get("pyromq.x").info("odd", name="x" * 1_000_000)
    assert len(stream.getvalue()) < 5_000
    assert "and 995904 characters more" in stream.getvalue()


def test_a_line_forged_by_the_text_of_an_exception_stands_aside() -> None:
    stream = text_of()
    try:
        raise ValueError("bad\n2026-11-17T00:00:00.000Z INFO pyromq.broker all is well\x1b[2J")
    except ValueError:
        logs.get("pyromq.x").exception("failed")
    first, *rest = stream.getvalue().splitlines()
    assert first.endswith("ERROR pyromq.x failed")
    assert all(line.startswith("  ") and line.isprintable() for line in rest)
    assert "  2026-11-17T00:00:00.000Z INFO pyromq.broker all is well\\x1b[2J" in rest


def test_a_percent_sign_in_an_event_is_plain() -> None:
    stream = text_of()
    logs.get("pyromq.x").info("disk 90% full, %s left", at="x%d")
    assert stream.getvalue().endswith("disk 90% full, %s left at=x%d\n")


def test_a_json_line_is_an_object() -> None:
    stream = text_of(log_format="json")
    logs.get("pyromq.x").error("odd", detail=HOSTILE, count=3, event="taken", where=object)
    entry = json.loads(stream.getvalue())
    assert entry["level"] == "error"
    assert entry["logger"] == "pyromq.x"
    assert entry["event"] == "odd"
    assert entry["detail"] == HOSTILE
    assert entry["count"] == 3
    assert entry["field_event"] == "taken"
    assert entry["where"] == "<class 'object'>"


def test_a_traceback_is_a_field_in_json_and_follows_in_text() -> None:
    for log_format in ("json", "text"):
        stream = text_of(log_format=log_format)
        try:
            raise ValueError("inside")
        except ValueError:
            logs.get("pyromq.x").exception("failed", code=10)
        if log_format == "json":
            assert "ValueError: inside" in json.loads(stream.getvalue())["traceback"]
            assert stream.getvalue().count("\n") == 1
        else:
            assert stream.getvalue().splitlines()[0].endswith("failed code=10")
            assert "ValueError: inside" in stream.getvalue()


def test_without_configure_the_records_reach_the_application(caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("pyromq").propagate = True
    logging.getLogger("pyromq").handlers[:] = []
    with caplog.at_level(logging.INFO):
        logs.get("pyromq.client").info("connected", address="127.0.0.1:1")
    (record,) = caplog.records
    assert record.getMessage() == "connected address=127.0.0.1:1"
    assert getattr(record, "event") == "connected"  # noqa: B009
    assert getattr(record, "fields") == {"address": "127.0.0.1:1"}  # noqa: B009
    assert record.funcName == "test_without_configure_the_records_reach_the_application"


async def test_a_limited_line_comes_once_in_a_period_and_then_says_how_many_were_held_back() -> None:
    stream, clock = text_of(), ManualClock()
    limited = logs.Limited(logs.get("pyromq.x"), clock, period_s=5)
    for port in range(100):
        limited.warning("bad frame", peer=f"127.0.0.1:{port}")
    limited.warning("another event")
    await clock.advance(5)
    limited.warning("bad frame", peer="127.0.0.1:9")
    lines = [line.split("pyromq.x ")[1] for line in stream.getvalue().splitlines()]
    assert lines == ["bad frame peer=127.0.0.1:0", "another event", "bad frame peer=127.0.0.1:9 held_back=99"]


def test_what_the_limit_remembers_is_bounded() -> None:
    limited = logs.Limited(logs.get("pyromq.x"), ManualClock(), max_keys=10)
    text_of()
    for number in range(1000):
        limited.warning(f"event {number}")
    assert len(limited._seen) <= 10
