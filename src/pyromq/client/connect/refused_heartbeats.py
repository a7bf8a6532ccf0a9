"""Says in the log which brokers refuse our heartbeats, and why: such a consumer gets nothing, and no call of its fails.

Called by `session.py` with every answer to a heartbeat. One line for each new text of a broker, not one for each beat.
"""

from __future__ import annotations

from ... import logs
from ...ambient import Clock
from ..errors import Refused

log = logs.get("pyromq.client")

LEAST_PAUSE_S = 5.0  # between two lines about one broker: some texts have a number that is another each time
LONGEST_TEXT = 4096
MOST_BROKERS = 1024


class RefusedHeartbeats:
    """Event loop only."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._logged: dict[str, tuple[str, float]] = {}  # by address: the last text, and when

    def refused(self, address: str, fault: Refused) -> None:
        now, text = self._clock.monotonic(), str(fault)[:LONGEST_TEXT]
        last, logged_at = self._logged.get(address, ("", float("-inf")))
        if text == last or now - logged_at < LEAST_PAUSE_S:
            return
        if len(self._logged) >= MOST_BROKERS:
            self._logged.clear()
        self._logged[address] = text, now
        log.warning(
            "a broker refuses our heartbeat: it does not know our groups, and consumers get nothing from it",
            address=address,
            code=fault.code,
            remark=fault.remark,
        )

    def accepted(self, address: str) -> None:
        """Log a later refusal again."""
        self._logged.pop(address, None)
