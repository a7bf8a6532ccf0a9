"""Says what happened in the route table: one log line each, and to the replicas of a broker whose smallest id changed.

Handlers and the expiry loop, which takes away brokers that have been silent for too long, hand it what the table gave
back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import cast

from .. import logs
from ..ambient import Clock
from ..config import Live
from ..errors import CallFailed
from ..protocol.command import Command
from ..protocol.headers.namesrv import NotifyMinBrokerIdChange
from ..protocol.requests import RequestCode
from ..transport.client import RemotingClient
from ..transport.peer import Peer
from .config import NamesrvConfig
from .registration import Departures, MinBrokerChange, Registered, Registration
from .route_table import RouteTable

log = logs.get("pyromq.namesrv")


class Announcer:
    """Event loop only."""

    def __init__(self, client: RemotingClient, live: Live[NamesrvConfig], clock: Clock) -> None:
        self._client = client
        self._live = live
        self._limited = logs.Limited(log, clock)  # for what two brokers with one id would say at every registration
        self._tasks: set[asyncio.Task[None]] = set()

    def registered(self, new: Registration, result: Registered) -> None:
        facts = {"broker": new.broker_name, "id": new.broker_id, "address": new.address, "cluster": new.cluster}
        if result.ignored is not None:
            self._limited.warning("registration ignored", **facts, reason=result.ignored)
        elif result.is_new:
            log.info("broker registered", **facts, topics=len(new.topics))
        if new.left_out and result.ignored is None:
            self._limited.warning(
                "new topics are left out, clients will not find them: delete topics or raise maxTopics",
                **facts,
                left_out=len(new.left_out),
                one_of_them=next(iter(new.left_out)),
                maxTopics=self._live.config.max_topics,
            )
        for one in result.displaced:
            self._limited.warning(
                "broker displaced", broker=one.broker_name, id=one.broker_id, address=one.address, by=new.address
            )
        self._notify_all(result.changes)

    def departed(self, departures: Departures, why: str, *, expected: bool = False) -> None:
        say = log.info if expected else log.warning
        for one in departures.departed:
            facts = {"broker": one.broker_name, "id": one.broker_id, "address": one.address, "cluster": one.cluster}
            if one.silent_ms:
                facts["silent_ms"] = one.silent_ms
            say(why, **facts)
        self._notify_all(departures.changes)

    async def close(self) -> None:
        """Cancel what is under way: those who were not told yet will hear it from their next registration."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _notify_all(self, changes: Iterable[MinBrokerChange]) -> None:
        if not self._live.config.notify_min_broker_id_changed:
            return
        for change in changes:
            for address in change.notify:
                task = asyncio.get_running_loop().create_task(self._notify(address, change))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _notify(self, address: str, change: MinBrokerChange) -> None:
        fields = NotifyMinBrokerIdChange(
            min_broker_id=change.min_id,
            broker_name=change.broker_name,
            min_broker_addr=change.min_address,
            offline_broker_addr=change.offline_address,
            ha_broker_addr=change.ha_address,
        ).to_fields()
        try:
            await self._client.send(address, Command(RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE, fields=fields))
        except CallFailed as fault:
            log.warning("broker not told of its smallest id", broker=change.broker_name, address=address, reason=fault)


# --- silent brokers ---------------------------------------------------------------------------------------------------


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
    table.expired += len(departures.departed)
    announcer.departed(departures, "broker expired")
    for one in departures.departed:
        # The connection of a silent broker is most likely dead, unless another broker still speaks over it.
        if not table.has_channel(one.channel):
            cast(Peer, one.channel).close("the broker that registered over it expired")
