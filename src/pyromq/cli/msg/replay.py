"""`pyromq msg replay`: a stretch of a topic sent again, into a topic or to one group alone. The stored ones stay."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import click

from ... import admin
from ...model.names import retry_topic
from ...protocol.messages import UnreadableMessage
from ..terminal.interrupts import tells_if_stopped
from ..terminal.options import one_broker
from ..terminal.progress import counted
from ..terminal.shell import Shell, changes
from ..terminal.tree import Fail, command
from ..terminal.validation import check_sendable
from .copying import FROM, TAGS, OptionalTime, Skipped, selects


@command(
    "pyromq msg replay orders --from 2026-11-15T00:00:00 --to 2026-11-16T00:00:00 -g billing --dry-run",
    "pyromq msg replay orders --from 2026-11-15T00:00:00 --tag paid --into orders-again --yes",
)
@click.argument("topic")
@FROM
@click.option("--to", "end_ms", type=OptionalTime(), help="Stored before.  [default: now]")
@TAGS
@click.option("--into", "target", metavar="TOPIC", help="Copies go into this topic, for all its groups.")
@click.option("-g", "--group", help="Only this group gets them, by way of its retry topic; they keep their ids.")
@one_broker
@changes
@selects
async def replay(
    shell: Shell, topic: str, wanted: admin.search.Window, target: str | None, group: str | None, broker: str | None
) -> None:
    """Send a stretch of TOPIC again: to one group (-g), or into a topic (--into). Each run sends all of it once more.

    A group that shall read everything once more from a time on needs no copies: pyromq group reset. A message that
    cannot be read is named and left out: exit code 1.
    """
    if (target is None) == (group is None):
        raise click.UsageError("say to whom: either -g GROUP or --into TOPIC")
    places = await shell.masters(broker)
    await shell.topic(topic, places)
    if group is not None:
        await shell.group(group, await shell.masters())
    if target is not None:
        await shell.topic(target, hint=f"Make it: pyromq topic create {target}")
    if wanted.end_ms is None:
        wanted = replace(wanted, end_ms=shell.session.clock.now_ms())  # or copies into the topic itself return
    await check_sendable(shell, [retry_topic(group) if group is not None else target or ""])
    counts: Counter[str] = Counter()
    unreadable = 0
    with counted(0, f"counting {topic}", is_quiet=shell.as_json) as done:
        async for found in admin.search.by_time(shell.calls, places, topic, wanted):
            unreadable += isinstance(found.message, UnreadableMessage)
            counts[found.place.name] += 1
            done(1)
    if not counts:
        raise Fail(f"no message of {topic} fits")
    goal = f"group {group}" if group else f"topic {target}"
    plan = [{"topic": topic, "broker": name, "messages": count, "to": goal} for name, count in counts.items()]
    but = f", and skip {unreadable} that cannot be read" if unreadable else ""
    shell.about_to(f"send {counts.total() - unreadable} messages of {topic} again to {goal}{but}", plan)
    skipped = Skipped(f"pyromq msg resend {topic} ID " + (f"-g {group}" if group else f"--to {target}"))
    copies, sent = admin.copies.Copies(shell.session), 0
    told = tells_if_stopped(lambda: f"{sent} messages were sent; the same command begins anew")
    with told, counted(counts.total(), f"{topic} to {goal}", is_quiet=shell.as_json) as done:
        # One after the other, so that what has an order keeps it.
        async for found in admin.search.by_time(shell.calls, places, topic, wanted):
            with skipped.unless_readable():
                if group is not None:
                    await copies.retry(found.message, group)
                elif target is not None:
                    await copies.send(found.message, target)
                sent += 1
            done(1)
    shell.rows([{"topic": topic, "to": goal, "sent": sent} | skipped.column()])
    skipped.check()
