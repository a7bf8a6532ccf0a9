"""Times as people write them."""

from __future__ import annotations

from datetime import datetime

import click

from ...model.wire_text import whole_number


def time_ms(text: str, option: str) -> int:
    """Return milliseconds since 1970, of that or of a local time such as 2026-11-16 or 2026-11-16T08:30:00."""
    try:
        number = whole_number(text)
        return round(datetime.fromisoformat(text).timestamp() * 1000) if number is None else number
    except (ValueError, OverflowError):
        raise click.UsageError(f"{option} {text}: neither milliseconds nor a time like 2026-11-16T00:00:00") from None
