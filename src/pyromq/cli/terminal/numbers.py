"""Numbers as options take them: what is no number, or beyond all measure, is a wrong use."""

from __future__ import annotations

from math import isfinite
from typing import Any

import click

LONGEST_S = 1e9  # 31 years: any longer time is a slip of the hand, and past what timers can count


class Number(click.FloatRange):
    """A finite number in a range. click's own takes nan for any range, and inf where it has no upper end."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if not isfinite(number):
            self.fail(f"{value} is no finite number", param, ctx)
        return number


def seconds(least: float = 0, *, or_none: bool = False) -> Number:
    """Return the type of a duration; `or_none`: the least itself is allowed too."""
    return Number(min=least, max=LONGEST_S, min_open=not or_none)
