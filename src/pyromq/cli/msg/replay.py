"""`pyromq msg replay`: a stretch of a topic sent again, into a topic or to one group alone. The stored ones stay."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING

import click

from ... import admin
from ..terminal.options import one_broker, time_ms
from ..terminal.printing import progress_bar
from ..terminal.shell import Shell, changes
from ..terminal.tree import Fail, command
from .skipped import Skipped

if TYPE_CHECKING:
    from ...admin.search import Found


@command(
    "pyromq msg replay orders --from 2026-11-15T00:00:00 --to 2026-11-16T00:00:00 -g billing --dry-run",
    "pyromq msg replay orders --from 2026-11-15T00:00:00 --tag paid --into orders-again --yes",
)
@click.argument("topic")
@click.option("--from", "begin", help="Stored at or after: ms since 1970 or 2026-11-16T00:00:00.")
@click.option("--to", "end", help="Stored before.  [default: now]")
@click.option("--tag", "tags", multiple=True, help="Only messages with this tag; may be given several times.")
@click.option("--into", "target", metavar="TOPIC", help="Copies go into this topic, for all its groups.")
@click.option("-g", "--group", help="Only this group gets them, by way of its retry topic; they keep their ids.")
@one_broker
@changes
async def replay(
    shell: Shell,
    topic: str,
    begin: str | None,
    end: str | None,
    tags: tuple[str, ...],
    target: str | None,
    group: str | None,
    broker: str | None,
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
    wanted = admin.search.Window(
        begin_ms=time_ms(begin, "--from") if begin else 0,
        end_ms=time_ms(end, "--to") if end else shell.session.clock.now_ms(),  # or copies into the topic itself return
        tags="||".join(tags) or "*",
    )
    counts: dict[str, int] = {}
    async for found in admin.search.by_time(shell.calls, places, topic, wanted):
        counts[found.place.name] = counts.get(found.place.name, 0) + 1
    total = sum(counts.values())
    if not total:
        raise Fail(f"no message of {topic} fits")
    goal = f"group {group}" if group else f"topic {target}"
    plan = [{"topic": topic, "broker": name, "messages": count, "to": goal} for name, count in counts.items()]
    shell.about_to(f"send {total} messages of {topic} again to {goal}", plan)
    skipped = Skipped(f"pyromq msg resend {topic} ID " + (f"-g {group}" if group else f"--to {target}"))
    with progress_bar(total, f"{topic} to {goal}", shell.as_json) as done:
        sent = await _send(
            shell, admin.search.by_time(shell.calls, places, topic, wanted), target, group, done, skipped
        )
    shell.rows([{"topic": topic, "to": goal, "sent": sent} | skipped.column()])
    skipped.check()


async def _send(
    shell: Shell,
    messages: AsyncIterator[Found],
    target: str | None,
    group: str | None,
    done: Callable[[int], object],
    skipped: Skipped,
) -> int:
    """Send one after the other, so that what has an order keeps it, and return how many were sent."""
    copies = admin.copies.Copies(shell.session)
    sent = 0
    async for found in messages:
        try:
            if group is not None:
                await copies.retry(found.message, group)
            else:
                assert target is not None
                await copies.send(found.message, target)
            sent += 1
        except admin.copies.CannotCopy as fault:
            skipped.add(fault)
        done(1)
    return sent
