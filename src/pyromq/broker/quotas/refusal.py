"""The refusal of what is beyond a quota."""

from __future__ import annotations

import math

from ...errors import RequestRefused
from ...model.codes import ResponseCode
from .limits import Limit, in_words
from .use import QuotaUse


class BeyondQuota(RequestRefused):
    """A request beyond a quota. `holds`: its answer is held back for a moment, as trying again at once is useless."""

    holds = False


def beyond(use: QuotaUse, limit: Limit, used: str, wait_s: float, *, holds: bool = False) -> BeyondQuota:
    """Return the refusal of what is beyond a quota."""
    refusal = said(use, limit, used, None if math.isinf(wait_s) else str(max(1, math.ceil(wait_s * 1000))))
    refusal.holds = holds
    return refusal


def said(use: QuotaUse, limit: Limit, used: str, wait_ms: str | None) -> BeyondQuota:
    """Return the refusal by its values as they stand in its words. `wait_ms` is None: it is not taken later, either."""
    if wait_ms is None:
        when, fields = "until it is changed nothing is taken", {}
    else:
        when, fields = f"try again in {wait_ms} ms", {"retryAfterMs": wait_ms}
    return BeyondQuota(
        f"[QUOTA]broker busy, start flow control for a while: the quota of {use.owner} is {use.limits[limit]} "
        f"{in_words(limit)} ({limit.value}), {used} is used: {when}",
        ResponseCode.SYSTEM_BUSY,
        fields,
    )
