"""`pyromq top`: brokers, topics and groups at a glance, drawn anew every few seconds until Ctrl-C.

Rates are what came between two frames; the first frame has those that the brokers measure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from ... import admin
from ...errors import CallFailed
from ..terminal import tables
from ..terminal.options import seconds
from ..terminal.printing import print_frame, print_lines, to_json
from ..terminal.shell import Shell, talks
from ..terminal.tree import command
from ..topic.stats import is_internal

if TYPE_CHECKING:
    from ...admin.cluster import BrokerPlace


EVERY = seconds(0.1, or_none=True)


@dataclass(slots=True)
class Frame:
    """One look. `ends` and `done` are sums of offsets by topic and by group."""

    at: float
    brokers: list[dict[str, Any]] = field(default_factory=list)
    topics: list[dict[str, Any]] = field(default_factory=list)
    groups: list[dict[str, Any]] = field(default_factory=list)
    ends: dict[str, int] = field(default_factory=dict)
    done: dict[str, int] = field(default_factory=dict)

    def with_rates_since(self, last: Frame | None) -> Frame:
        if last is not None and self.at > last.at:
            seconds = self.at - last.at
            for rows, name, now, then in (
                (self.topics, "topic", self.ends, last.ends),
                (self.groups, "group", self.done, last.done),
            ):
                for row in rows:
                    if row[name] in then:
                        row["perSecond"] = max(0.0, (now[row[name]] - then[row[name]]) / seconds)
        return self


@command("pyromq top", "pyromq top --every 5 --rows 20", "pyromq top --once --json")
@click.option("--every", type=EVERY, default=2.0, show_default=True, metavar="SECONDS", help="Between frames.")
@click.option("--rows", "most", type=click.IntRange(min=1), default=15, show_default=True, help="Lines of each table.")
@click.option("--once", is_flag=True, help="One frame, then end.")
@talks
async def top(shell: Shell, every: float, most: int, once: bool) -> None:
    """Watch brokers, the busiest topics and the groups with the greatest lag. Ctrl-C ends it."""
    from ..serve.stopping import stop_on_signals

    clock, stop = shell.session.clock, stop_on_signals()
    last: Frame | None = None
    while not stop.is_set():
        try:
            frame = (await take_frame(shell)).with_rates_since(last)
            text = "\n".join(drawn(frame, most))
            last = frame
        except CallFailed as fault:
            if once:
                raise
            text = f"pyromq: {fault}"  # it may be back at the next look
        if shell.as_json and last is not None:
            print_lines(to_json({"brokers": last.brokers, "topics": last.topics, "groups": last.groups}))
        else:
            print_frame(text, clear=not once)
        if once:
            return
        try:
            async with clock.timeout(every):
                await stop.wait()
        except TimeoutError:
            continue


def drawn(frame: Frame, most: int) -> Iterator[str]:
    yield f"{len(frame.brokers)} brokers, {len(frame.topics)} topics, {len(frame.groups)} groups"
    topics = sorted(frame.topics, key=lambda row: (-row["perSecond"], -row["messages"], row["topic"]))
    groups = sorted(frame.groups, key=lambda row: (-row["lag"], row["group"]))
    for title, rows in (("brokers", frame.brokers), ("topics", topics), ("groups", groups)):
        if rows:
            yield f"\n{title}"
            yield from (f"  {line}" for line in tables.lines(rows[:most]))
        if len(rows) > most:
            yield f"  ... {len(rows) - most} more"


async def take_frame(shell: Shell) -> Frame:
    from .cluster import broker_rows

    frame = Frame(shell.session.clock.monotonic())
    for one in await broker_rows(shell, None):
        kept = ("broker", "id", "address", "answers", "inPerSecond", "outPerSecond", "diskPercent")
        frame.brokers.append({name: one[name] for name in kept})
    topics: dict[str, dict[str, Any]] = {}
    groups: dict[str, dict[str, Any]] = {}
    for place in await shell.masters():
        if any(row["address"] == place.address and row["answers"] for row in frame.brokers):
            await _topics(shell, place, topics, frame)
            await _groups(shell, place, groups, frame)
    frame.topics, frame.groups = list(topics.values()), list(groups.values())
    return frame


async def _topics(shell: Shell, place: BrokerPlace, rows: dict[str, dict[str, Any]], frame: Frame) -> None:
    for name in sorted(await admin.topics.configs(shell.calls, place.address)):
        if is_internal(name, place):
            continue
        row = rows.setdefault(name, {"topic": name, "perSecond": 0.0, "messages": 0, "queues": 0})
        stats = await admin.topics.stats(shell.calls, place.address, name)
        reach = stats.offset_table.values()
        row["perSecond"] += stats.topic_put_tps
        row["messages"] += stats.count
        row["queues"] += len(reach)
        frame.ends[name] = frame.ends.get(name, 0) + sum(one.max_offset for one in reach)


async def _groups(shell: Shell, place: BrokerPlace, rows: dict[str, dict[str, Any]], frame: Frame) -> None:
    for name in sorted(await admin.groups.configs(shell.calls, place.address)):
        if admin.groups.is_internal(name):
            continue
        row = rows.setdefault(name, {"group": name, "members": 0, "lag": 0, "perSecond": 0.0})
        online = await admin.groups.connections(shell.calls, place.address, name)
        row["members"] = max(row["members"], 0 if online is None else len(online.connection_set))
        progress = await admin.offsets.progress(shell.calls, place.address, name)
        row["lag"] += progress.lag
        row["perSecond"] += progress.consume_tps
        done = sum(one.consumer_offset for one in progress.offset_table.values())
        frame.done[name] = frame.done.get(name, 0) + done
