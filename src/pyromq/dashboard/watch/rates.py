"""Rates out of totals that only grow, evened over the last ten seconds or so. Pure."""

from __future__ import annotations

from math import exp

from .figures import NO_RATE_YET, Count, Rate, Unknown

EVENED_S = 10.0
_NOTHING = 0.01  # less a second than this is no rate that anybody sees


def rate(before: Rate, earlier: Count, later: Count, seconds: float) -> Rate:
    """Return the new rate. A total that fell began anew, and tells no rate this time."""
    if isinstance(earlier, Unknown) or isinstance(later, Unknown):
        return later if isinstance(later, Unknown) else NO_RATE_YET
    if seconds <= 0:
        return before
    if later < earlier:
        return NO_RATE_YET
    now = (later - earlier) / seconds
    if isinstance(before, Unknown):
        return now
    evened = before + (now - before) * (1 - exp(-seconds / EVENED_S))
    return 0.0 if evened < _NOTHING and now == 0 else evened
