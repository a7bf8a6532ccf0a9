"""Takes away brokers that have been silent for too long. The only loop of the name server."""

from __future__ import annotations

from typing import cast

from ..ambient import Clock
from ..config import Live
from ..transport.peer import Peer
from .announcer import Announcer
from .config import NamesrvConfig
from .route_table import RouteTable


def monotonic_ms(clock: Clock) -> int:
    """Return what the route table calls `now_ms`: durations must not follow a wall clock that is set."""
    return int(clock.monotonic() * 1000)


async def expiry_loop(table: RouteTable, live: Live[NamesrvConfig], announcer: Announcer, clock: Clock) -> None:
    """Run until cancelled. A changed interval counts from the next round on."""
    while True:
        await clock.sleep(live.config.scan_not_active_broker_interval / 1000)
        expire(table, announcer, monotonic_ms(clock))


def expire(table: RouteTable, announcer: Announcer, now_ms: int) -> None:
    departures = table.expire(now_ms)
    announcer.departed(departures, "broker expired")
    for one in departures.departed:
        # The connection of a silent broker is most likely dead, unless another broker still speaks over it.
        if not table.has_channel(one.channel):
            cast(Peer, one.channel).close("the broker that registered over it expired")
