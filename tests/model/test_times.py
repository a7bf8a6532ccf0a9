from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from pyromq.model.times import parse_time

NOW = datetime(2026, 11, 17, 13, 5, 30)
NOW_MS = round(NOW.timestamp() * 1000)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("now", NOW),
        ("-1h", NOW - timedelta(hours=1)),
        ("-90s", NOW - timedelta(seconds=90)),
        ("-2w", NOW - timedelta(weeks=2)),
        ("+15m", NOW + timedelta(minutes=15)),
        ("today", datetime(2026, 11, 17)),
        ("yesterday", datetime(2026, 11, 16)),
        ("yesterday 00:00", datetime(2026, 11, 16)),
        ("yesterday 18:30:15", datetime(2026, 11, 16, 18, 30, 15)),
        ("2026-11-16", datetime(2026, 11, 16)),
        ("2026-11-16 08:30", datetime(2026, 11, 16, 8, 30)),
        ("2026-11-16T08:30:00+00:00", datetime(2026, 11, 16, 8, 30, tzinfo=UTC)),
        ("0", datetime.fromtimestamp(0)),
        ("1500", datetime.fromtimestamp(1.5)),
    ],
)
def test_a_time(text: str, expected: datetime) -> None:
    assert parse_time(text, NOW_MS) == round(expected.timestamp() * 1000)


@pytest.mark.parametrize(
    "text", ["", "-1", "-1y", "1h", "tomorrow", "yesterday noon", "2026-13-01", "0001-01-01", "-²h"]
)
def test_no_time(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - whoever called says it in words of his own
        parse_time(text, NOW_MS)
