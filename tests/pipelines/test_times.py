"""Times as people say them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from pyromq.errors import ConfigError
from pyromq.pipelines.run.times import interval, moment, span_s

NOW = datetime(2026, 11, 16, 9, 30, tzinfo=UTC)
NOW_MS = round(NOW.timestamp() * 1000)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("now", "2026-11-16T09:30:00"),
        ("today", "2026-11-16T00:00:00"),
        ("yesterday", "2026-11-15T00:00:00"),
        ("yesterday 00:00", "2026-11-15T00:00:00"),
        ("Yesterday 08:15:30", "2026-11-15T08:15:30"),
        ("2h ago", "2026-11-16T07:30:00"),
        ("90m ago", "2026-11-16T08:00:00"),
        ("2026-11-15", "2026-11-15T00:00:00"),
        ("2026-11-15T08:00:00+02:00", "2026-11-15T06:00:00"),
        (str(NOW_MS), "2026-11-16T09:30:00"),
    ],
)
def test_a_time_is_what_people_mean(text: str, expected: str) -> None:
    found = datetime.fromtimestamp(moment("since", text, NOW_MS) / 1000, UTC)
    assert found == datetime.fromisoformat(expected).replace(tzinfo=UTC)


@pytest.mark.parametrize("text", ["tomorrow", "yesterday 25:00", "yesterday noon", "2 ago", ""])
def test_anything_else_is_told_with_what_is_allowed(text: str) -> None:
    with pytest.raises(ConfigError, match=r"since = .*yesterday 00:00"):
        moment("since", text, NOW_MS)


def test_spans() -> None:
    assert [span_s("every", text) for text in ("15m", "10 seconds", "2 hours", "500ms")] == [900, 10, 7200, 0.5]
    assert interval("window", "1m") == "60000 milliseconds"
    for wrong in ("soon", "0s"):
        with pytest.raises(ConfigError, match="every"):
            span_s("every", wrong)
