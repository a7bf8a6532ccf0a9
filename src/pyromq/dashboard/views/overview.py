"""The first page: is it well, what goes in and out, what waits, who is busiest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ...admin.checkup.checked import BROKEN, WARNING, CheckResult
from ..watch.figures import ClusterSnapshot, FigureTotal, Unknown, total
from .lists import ListQuery, listing
from .rows import BrokerRow, GroupRow, TopicRow, broker_rows, group_rows, topic_rows

if TYPE_CHECKING:
    from ..watch.watched import ClusterWatch

TOP = 8
SPANS_MIN = (15, 60, 360)  # of charts: the least that has all that is known


class OverviewFinding(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody should look at. `link` is a page below the cluster's."""

    state: str
    text: str
    cure: str = ""
    command: str = ""
    link: str = ""


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    in_per_second: FigureTotal
    out_per_second: FigureTotal
    bytes_per_second: FigureTotal
    lag: FigureTotal
    oldest_ms: int | Unknown | None
    dead: FigureTotal
    disk_ratio: float | Unknown
    send_p99_ms: float | Unknown
    topics: int
    groups: int
    brokers: list[BrokerRow]
    findings: list[OverviewFinding]
    checked_ms: int
    busiest_topics: list[TopicRow]
    lagging_groups: list[GroupRow]
    minutes: int  # that the series reach back
    series: dict[str, list[tuple[int, float | None]]]


async def overview(cluster: ClusterWatch) -> Overview:
    """Return what the first page shows."""
    snapshot, now_ms = cluster.snapshot, cluster.now_ms()
    known_min = (now_ms - cluster.history.begun_ms(now_ms)) / 60_000
    minutes = next((one for one in SPANS_MIN if one >= known_min), SPANS_MIN[-1])
    begin_ms = now_ms - minutes * 60_000
    topics, groups, brokers = (
        topic_rows(snapshot, system=False),
        group_rows(snapshot, system=False),
        broker_rows(snapshot),
    )
    masters = snapshot.masters
    oldest = [row.oldest_ms for row in groups if isinstance(row.oldest_ms, int)]
    behind = [row for row in groups if isinstance(row.lag.value, Unknown) or row.lag.value]
    return Overview(
        in_per_second=total((row.name, row.in_per_second) for row in brokers if row.role == "master"),
        out_per_second=total((row.name, row.out_per_second) for row in brokers if row.role == "master"),
        bytes_per_second=total((row.name, row.bytes_per_second) for row in brokers if row.role == "master"),
        lag=total((row.name, row.lag.value) for row in groups),
        oldest_ms=min(oldest, default=None),
        dead=total((row.name, row.dead.value) for row in groups),
        disk_ratio=_worst([row.disk_ratio for row in brokers]),
        send_p99_ms=_worst([row.send_p99_ms for row in brokers if row.role == "master"]),
        topics=len(topics),
        groups=len(groups),
        brokers=brokers,
        findings=[*of_snapshot(snapshot, groups), *of_checks(cluster.checkup.results)],
        checked_ms=cluster.checkup.at_ms,
        busiest_topics=listing(topics, ListQuery(per_page=TOP), lambda row: row.name, "-in_per_second").rows,
        lagging_groups=listing(behind, ListQuery(per_page=TOP), lambda row: row.name, "-lag").rows,
        minutes=minutes,
        series={name: cluster.history.points(name, begin_ms, now_ms) for name in ("in", "out", "lag") if masters},
    )


def of_snapshot(snapshot: ClusterSnapshot, groups: list[GroupRow]) -> list[OverviewFinding]:
    """Return what is wrong as the watcher sees it: at once, before the checks run again."""
    found = []
    if snapshot.fault:
        cure = "Is it running, and is its address right?"
        found.append(OverviewFinding(state=BROKEN, text=f"no name server answers: {snapshot.fault}", cure=cure))
    found += [
        OverviewFinding(state=BROKEN, text=f"{broker.name} does not answer: {broker.fault}", link="brokers")
        for broker in snapshot.silent
    ]
    for row in groups:
        if row.conflicts:
            text = f"members of {row.name} want different things"
            found.append(OverviewFinding(state=BROKEN, text=text, link=f"groups/{row.name}"))
    return found


def of_checks(results: list[CheckResult]) -> list[OverviewFinding]:
    """Return the findings of the checks that are not well, the worst first."""
    bad = [one for one in results if one.state in (WARNING, BROKEN)]
    bad.sort(key=lambda one: one.state != BROKEN)
    return [
        OverviewFinding(
            state=one.state, text=f"{one.check}: {one.text}", cure=one.cure, command=one.command, link="doctor"
        )
        for one in bad
    ]


def _worst(values: list[float | Unknown]) -> float | Unknown:
    known = [value for value in values if not isinstance(value, Unknown)]
    if known:
        return max(known)
    return next((value for value in values if isinstance(value, Unknown)), Unknown("no broker answers"))
