"""What the broker of a queue can do about a wait, asked of it when a handler first wants one, and kept for a minute.

A broker that does not show its settings (by its access rules, or because it is older) is one with RocketMQ's own table
of levels and without timers. One that does not answer is asked again the next time: what it said before counts.
"""

from __future__ import annotations

from ... import logs
from ...errors import ConfigError
from ...model.times import parse_delay_levels
from ...model.wire_text import whole_number
from ...protocol.requests import RequestCode
from ..core.retry import BrokerDelays
from ..errors import Error, Refused
from .session import Session

log = logs.get("pyromq.client")

KEPT_S = 60.0


class DelaysOfBrokers:
    """Event loop only. By address."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._known: dict[str, tuple[float, BrokerDelays]] = {}

    async def of(self, address: str) -> BrokerDelays:
        """Return the delays of the broker; never raises an Error."""
        kept_until, known = self._known.get(address, (0.0, BrokerDelays()))
        if self._session.clock.monotonic() < kept_until:
            return known
        try:
            known = await self._ask(address)
        except Error as fault:
            log.debug("a broker does not say its delay levels", address=address, fault=str(fault))
            if not isinstance(fault, Refused):
                return known
        self._known[address] = (self._session.clock.monotonic() + KEPT_S, known)
        return known

    async def _ask(self, address: str) -> BrokerDelays:
        answer = await self._session.ask(address, RequestCode.GET_BROKER_CONFIG)
        try:
            return delays_of(answer.body.decode(errors="replace"))
        except ConfigError as fault:
            log.debug("delay levels of a broker cannot be read", address=address, fault=str(fault))
            return BrokerDelays()


def delays_of(settings: str) -> BrokerDelays:
    """Return what settings of a broker, lines of `key=value`, allow. ConfigError for a table that nobody can read."""
    found = {name: value for name, _, value in (line.partition("=") for line in settings.splitlines())}
    has_timers = found.get("timerWheelEnable") == "true"
    timer_s = (whole_number(found.get("timerMaxDelaySec")) or 0) if has_timers else 0
    table = found.get("messageDelayLevel")
    if table is None:
        return BrokerDelays(timer_s=timer_s)
    return BrokerDelays(tuple(ms / 1000 for ms in parse_delay_levels(table).values()), timer_s)
