"""What happens to a large cluster: a quiet day, a name server restarted, a rack lost, a rolling upgrade.

Each scenario runs for some virtual minutes and ends with a report: what name servers and brokers had to do in the worst
second and in the last ones, and whether that is what they did before anything happened: whether it calmed down.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from pyromq.protocol.requests import ROWS
from pyromq.testing.virtual_time import VirtualClock, run_virtually
from tests.scale.cluster import Cluster, Size
from tests.scale.network import Second, Server, State

START_S = 30  # within which clients begin
STEADY_S = 40  # that nothing happens then
DOWN_S = 5  # of a name server that is restarted
LAST_S = 30  # over which beginning and end are looked at


@dataclass(frozen=True, slots=True)
class Load:
    """Of all servers of one kind together, a second: on average, or in the worst one."""

    requests: float
    bytes: float
    longest_wait_s: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """`before`, `worst` and `after` by kind of server: what happened lies between the first two."""

    scenario: str
    before: dict[str, Load]
    worst: dict[str, Load]
    after: dict[str, Load]
    sends: int
    failed_sends: int
    failed_at_the_end: int
    longest_send_s: float
    brokers_known: int
    kinds: dict[str, int]  # of requests to name servers, from the event on

    @property
    def is_calm(self) -> bool:
        """Return whether the end is like the beginning: a fifth more at most, and nobody waits."""
        return all(
            self.after[kind].requests <= 1.2 * self.before[kind].requests + 5 and self.after[kind].longest_wait_s < 0.5
            for kind in self.before
        )


Event = Callable[[Cluster], Awaitable[None]]


async def nothing(_: Cluster) -> None:
    """Let everything go on."""


async def name_server_restarts(cluster: Cluster) -> None:
    address = next(iter(cluster.name_servers))
    cluster.stop_name_server(address)
    await cluster.clock.sleep(DOWN_S)
    cluster.start_name_server(address)


async def rack_is_lost(cluster: Cluster) -> None:
    """Take a twentieth of the brokers away, masters and replicas, without a word."""
    for life in list(cluster.brokers.values())[::20]:
        await life.stop(State.SILENT)


async def rolling_upgrade(cluster: Cluster) -> None:
    """Restart the brokers one after the other, a few at a time so that it is over in two minutes."""
    lives = list(cluster.brokers.values())
    at_once = max(1, len(lives) // 40)
    for begin in range(0, len(lives), at_once):
        some = lives[begin : begin + at_once]
        await asyncio.gather(*(life.stop(State.REFUSING) for life in some))
        await cluster.clock.sleep(2)
        for life in some:
            life.start()
        await cluster.clock.sleep(1)


# With the seconds until the end: silent brokers are forgotten after two minutes.
SCENARIOS: dict[str, tuple[Event, int]] = {
    "steady load": (nothing, 40),
    "a name server restarted": (name_server_restarts, 90),
    "a rack lost": (rack_is_lost, 190),
    "a rolling upgrade": (rolling_upgrade, 60),
}


def run(scenario: str, size: Size, folder: Path, say: Callable[[str], None] = lambda _: None) -> Outcome:
    return run_virtually(lambda clock: _run(clock, scenario, size, folder, say))


async def _run(clock: VirtualClock, scenario: str, size: Size, folder: Path, say: Callable[[str], None]) -> Outcome:
    cluster = Cluster(size, clock, folder)
    for address in cluster.name_servers:
        cluster.start_name_server(address)
    cluster.start_brokers()
    await clock.sleep(5)
    say(f"{cluster.known_brokers(next(iter(cluster.name_servers)))} brokers registered")
    await cluster.start_clients(START_S)
    await clock.sleep(STEADY_S)
    event_s = int(clock.monotonic())
    say(f"{cluster.sent} sends, {len(cluster.failed)} failed; now: {scenario}")
    event, until_end_s = SCENARIOS[scenario]
    await event(cluster)
    await clock.sleep(until_end_s)
    end_s = int(clock.monotonic())
    kinds = {"name servers": _named(cluster), "brokers": [one.server for one in cluster.brokers.values()]}
    asked: dict[str, int] = {}
    for server in kinds["name servers"]:
        for at, second in server.seconds.items():
            for code, number in second.requests.items() if at >= event_s else ():
                asked[ROWS[code].name] = asked.get(ROWS[code].name, 0) + number
    return Outcome(
        scenario=scenario,
        before={kind: _average(servers, event_s - LAST_S, event_s) for kind, servers in kinds.items()},
        worst={kind: _worst(servers, event_s, end_s) for kind, servers in kinds.items()},
        after={kind: _average(servers, end_s - LAST_S, end_s) for kind, servers in kinds.items()},
        sends=cluster.sent,
        failed_sends=sum(at >= event_s for at in cluster.failed),
        failed_at_the_end=sum(at >= end_s - LAST_S for at in cluster.failed),
        longest_send_s=cluster.longest_send_s,
        brokers_known=min(cluster.known_brokers(address) for address in cluster.name_servers),
        kinds=asked,
    )


def _named(cluster: Cluster) -> list[Server]:
    return [cluster.network.servers[address] for address in cluster.name_servers]


def _seconds(servers: list[Server], begin: int, end: int) -> list[Load]:
    found = []
    for at in range(begin, end):
        each = [server.seconds.get(at, Second()) for server in servers]
        wait_s = max((one.longest_wait_s for one in each), default=0.0)
        found.append(Load(sum(one.count for one in each), sum(one.bytes for one in each), wait_s))
    return found


def _average(servers: list[Server], begin: int, end: int) -> Load:
    seconds = _seconds(servers, begin, end)
    count = max(1, len(seconds))
    return Load(
        sum(one.requests for one in seconds) / count,
        sum(one.bytes for one in seconds) / count,
        max((one.longest_wait_s for one in seconds), default=0.0),
    )


def _worst(servers: list[Server], begin: int, end: int) -> Load:
    seconds = _seconds(servers, begin, end)
    return Load(
        max(one.requests for one in seconds),
        max(one.bytes for one in seconds),
        max(one.longest_wait_s for one in seconds),
    )
