"""`pyromq topic stats`: what goes in and out of topics, and how far each group is behind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from ... import admin
from ..terminal.shell import Shell, talks
from ..terminal.tree import command


@command("pyromq topic stats", "pyromq topic stats orders --json", "pyromq topic stats --active")
@click.argument("name", required=False, metavar="[TOPIC]")
@click.option("--active", is_flag=True, help="Only those with traffic in the last day.")
@click.option("--all", "everything", is_flag=True, help="Also retry and dead-letter topics, and the system's own.")
@talks
async def stats(shell: Shell, name: str | None, active: bool, everything: bool) -> None:
    """Show messages in and out of topics, a second and a day, and the lag of each group; of all topics, or of one.

    Rates are those of the last minute: what came just now is not in them yet. A day's count has all since 24 hours ago,
    or since the broker's start. Apache's brokers sample it: what is older than a minute can be missing for ten minutes.
    """
    if name is not None:
        await shell.topic(name)
    places = await shell.masters()
    having: dict[str, list[admin.cluster.BrokerPlace]] = {}
    for place in places:
        for topic in await admin.topics.configs(shell.calls, place.address):
            if topic == name or (name is None and (everything or not is_internal(topic, place))):
                having.setdefault(topic, []).append(place)
    rows = [row for topic in sorted(having) for row in await _rows(shell, topic, having[topic])]
    shell.rows(
        [row for row in rows if not active or row["inOfDay"] or row["outOfDay"]],
        "no traffic in the last day" if rows else "no topics yet",
    )


def is_internal(topic: str, place: admin.cluster.BrokerPlace) -> bool:
    """Return whether only `--all` shows the topic: brokers make topics of their own names."""
    return admin.topics.is_internal(topic) or topic in (place.name, place.cluster)


async def _rows(shell: Shell, topic: str, places: Sequence[admin.cluster.BrokerPlace]) -> list[dict[str, Any]]:
    """Return a row for each group; one without a group where nobody consumes."""
    addresses = [place.address for place in places]
    groups = sorted({each for one in addresses for each in await admin.topics.groups(shell.calls, one, topic)})
    into = await admin.topics.into_topic(shell.calls, addresses, topic)
    rows: list[dict[str, Any]] = []
    for group in groups:
        out = await admin.topics.to_group(shell.calls, addresses, topic, group)
        lag = sum([(await admin.offsets.progress(shell.calls, one, group, topic)).lag for one in addresses])
        rows.append({"topic": topic, "group": group, "lag": lag} | _rates(into, out))
    return rows or [{"topic": topic, "group": None, "lag": None} | _rates(into, None)]


def _rates(into: admin.topics.Traffic, out: admin.topics.Traffic | None) -> dict[str, Any]:
    return {
        "inPerSecond": round(into.per_second, 2),
        "outPerSecond": None if out is None else round(out.per_second, 2),
        "inOfDay": into.of_day,
        "outOfDay": None if out is None else out.of_day,
    }
