"""How much of the event loop's time an owner may take: measured around the handlers, each stretch between two awaits.

By the clock, as everybody else waits with whoever holds the loop. What a kernel serves takes none of it. Heartbeats,
requests about quotas and those of super users are measured and never refused: who is out of time must not look dead,
and somebody has to be able to change it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from ...ambient import Clock
from ...protocol.access import NameIn, Resource
from ...protocol.requests import ROWS
from ...protocol.requests import RequestCode as Code
from ...protocol.row import RequestClass
from ...transport.dispatch import Answer, Handler, Reply, Request
from ...transport.turns.stretches import Stretches
from .limits import Limit
from .quotas import Quotas
from .use import QuotaUse

GROUP_FIELDS = {  # where a request names the group that it is about: any other field holds what the client likes
    code: need.name
    for code, row in ROWS.items()
    for need in row.needs
    if (need.resource, need.name_in) == (Resource.GROUP, NameIn.HEADER) and not need.separator
}
_QUOTA_CODES = (Code.SET_QUOTA, Code.QUOTAS, Code.DELETE_QUOTA)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LoopTime:
    """Event loop only. `uses_of`: what everybody uses whom a request concerns. `is_spared`: it is never refused."""

    quotas: Quotas
    clock: Clock
    uses_of: Callable[[Request], Iterable[QuotaUse]]
    is_spared: Callable[[Request], bool]
    refusal_of: Callable[[list[QuotaUse]], Answer]  # None: they have time left

    def around(self, code: int, handler: Handler) -> Handler:
        is_refused = ROWS[code].lane is not RequestClass.HEARTBEAT and code not in _QUOTA_CODES
        quotas, monotonic = self.quotas, self.clock.monotonic

        def measured(request: Request) -> Answer:
            if not quotas.limit_loop_time:
                return handler(request)
            uses = [use for use in self.uses_of(request) if Limit.LOOP_TIME in use.buckets]
            if not uses:
                return handler(request)
            if is_refused and not self.is_spared(request) and (refusal := self.refusal_of(uses)) is not None:
                return refusal
            charge = partial(self._charge, uses)
            begun = monotonic()
            try:
                answer = handler(request)
            finally:
                charge(monotonic() - begun)
            return answer if answer is None or isinstance(answer, Reply) else Stretches(answer, monotonic, charge)

        return measured

    def _charge(self, uses: list[QuotaUse], seconds: float) -> None:
        now = self.clock.monotonic()
        for use in uses:
            use.buckets[Limit.LOOP_TIME].take(seconds * 1000, now)
