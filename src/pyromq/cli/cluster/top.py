"""`pyromq top`: brokers, topics and groups at a glance, drawn anew every few seconds until q or Ctrl-C.

Rates are what came between two frames; the first frame has those that the brokers measure. What is drawn, and what keys
do to it, is in `top_screen.py`.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from ... import admin
from ...ambient import Clock
from ...client.errors import Refused
from ...errors import CallFailed
from ...model.codes import ResponseCode
from ..terminal.options import seconds
from ..terminal.printing import columns, print_frame, print_lines, to_json
from ..terminal.shell import Shell, talks
from ..terminal.tree import command
from ..topic.stats import is_internal
from .top_screen import Frame, Screen, pressed_keys

if TYPE_CHECKING:
    from ...admin.cluster import BrokerPlace


EVERY = seconds(0.1, or_none=True)


@command("pyromq top", "pyromq top --every 5 --rows 20", "pyromq top --once --json")
@click.option("--every", type=EVERY, default=2.0, show_default=True, metavar="SECONDS", help="Between frames.")
@click.option("--rows", "most", type=click.IntRange(min=1), default=15, show_default=True, help="Lines of each table.")
@click.option("--once", is_flag=True, help="One frame, then end.")
@talks
async def top(shell: Shell, every: float, most: int, once: bool) -> None:
    """Watch brokers, the busiest topics and the groups with the greatest lag. q or Ctrl-C ends it, h shows the keys."""
    from ..serve.stopping import stop_on_signals

    clock, stop = shell.session.clock, stop_on_signals()
    screen = Screen(most, shows_trends=not once)
    with pressed_keys(lambda key: screen.press(key, stop), wanted=not once and not shell.as_json) as is_changed:
        while not stop.is_set():
            try:
                screen.show((await take_frame(shell)).with_rates_since(screen.frame), clock.now_ms())
            except CallFailed as fault:
                if once:
                    raise
                screen.fault = f"pyromq: {fault}"  # it may be back at the next look
            if shell.as_json and screen.frame is not None:
                shown = screen.frame
                print_lines(to_json({"brokers": shown.brokers, "topics": shown.topics, "groups": shown.groups}))
            else:
                print_frame(screen.lines(columns()), clear=not once)
            if once:
                return
            until = clock.monotonic() + every
            while not stop.is_set() and clock.monotonic() < until:
                await _first_of(clock, until - clock.monotonic(), stop, is_changed)
                if is_changed.is_set() and not stop.is_set():
                    is_changed.clear()
                    print_frame(screen.lines(columns()), clear=True)


async def _first_of(clock: Clock, most_s: float, *events: asyncio.Event) -> None:
    """Wait until one of the events is set, for at most so long."""
    waits = [asyncio.ensure_future(event.wait()) for event in events]
    with suppress(TimeoutError):
        async with clock.timeout(max(0.0, most_s)):
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for one in waits:
        one.cancel()


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
        try:
            stats = await admin.topics.stats(shell.calls, place.address, name)
        except Refused as fault:
            if fault.code != ResponseCode.TOPIC_NOT_EXIST:
                raise
            continue  # deleted meanwhile
        row = rows.setdefault(name, {"topic": name, "perSecond": 0.0, "messages": 0, "queues": 0})
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
        progress = await admin.offsets.waiting(shell.calls, place.address, name)
        row["lag"] += progress.lag
        row["perSecond"] += progress.consume_tps
        done = sum(one.consumer_offset for one in progress.offset_table.values())
        frame.done[name] = frame.done.get(name, 0) + done
