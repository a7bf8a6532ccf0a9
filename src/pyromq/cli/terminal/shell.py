"""What a command that talks to a cluster is given: connections, and a way to print for people and for programs.

    @topic.command("list")
    @talks
    async def list_topics(shell: Shell) -> None:
        shell.rows([{"topic": name} for name in await topics.names(shell.calls)])

`talks` adds -n, --profile, --tls and its like, --timeout, --json and --quiet; `changes` adds --yes and --dry-run too.
The SDK is imported when such a command runs, never for its help.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import nullcontext, redirect_stdout
from dataclasses import dataclass, replace
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ... import admin
from ...client.errors import BadAnswer
from ...errors import CallFailed, Malformed
from ...machine.garbage import uncollected
from ...text import tables
from ...text.tables import Row
from .interrupts import confirm
from .options import cluster_options, together
from .printing import columns, print_lines, print_prose, print_text, print_wrapped, to_json
from .profiles import Reach, take_reach
from .tree import unknown

if TYPE_CHECKING:
    from ...admin.calls import Calls
    from ...admin.cluster import BrokerPlace
    from ...client.client import Client
    from ...client.config import ClientConfig
    from ...client.connect.session import Session

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shell:
    """Event loop only. One per run of a command."""

    calls: Calls
    as_json: bool = False
    is_sure: bool = False  # --yes
    is_dry: bool = False  # --dry-run

    @property
    def session(self) -> Session:
        return self.calls.session

    def client(self, **settings: Any) -> Client:
        """Return a client with connections of its own, for what sends and consumes: use it as `async with`."""
        from ...client.client import Client

        return Client(replace(self.session.config, **settings))

    # --- printing -------------------------------------------------------------------------------------------------

    def rows(self, rows: Sequence[Row], nothing: str = "") -> None:
        """Print a table, or one JSON object a line. `nothing` is printed for people if there is no row."""
        print_lines(*map(to_json, rows) if self.as_json else tables.lines(rows, columns()))
        if nothing and not rows:
            self.say(nothing)

    def report(self, found: Row) -> None:
        """Print one thing with its parts: facts, then a table for each list of rows. Or one JSON object."""
        if self.as_json:
            print_text(to_json(found, indent=2))
        else:
            print_lines(*tables.report(found, columns()))

    def say(self, text: str) -> None:
        """Print for people alone: programs have the facts."""
        if not self.as_json:
            print_wrapped(text)

    def end(self, away: object) -> None:
        """Exit with code 1 if something is missing. Called after what was found is printed."""
        if away:
            raise click.exceptions.Exit(1)

    # --- before something is changed ------------------------------------------------------------------------------

    def about_to(self, what: str, plan: Sequence[Row] = ()) -> None:
        """Show what will be done and ask, unless --yes. Ends the command after --dry-run, or if the answer is no."""
        if self.is_dry:
            self.say(f"would {what}")
            self.rows(plan)
            self.say("dry run: nothing was changed")
            raise click.exceptions.Exit(0)
        if self.is_sure:
            return
        if self.as_json:
            raise click.UsageError(f"this would {what}: give --yes, or --dry-run to see more")
        print_prose(f"This will {what}.")
        print_lines(*tables.indented(plan, columns()), err=True)
        confirm("Go on?")

    # --- names that must exist ------------------------------------------------------------------------------------

    async def topic(
        self, name: str, places: Iterable[BrokerPlace] | None = None, hint: str = "pyromq topic list shows all"
    ) -> str:
        """Return the name if there is such a topic; else fail with similar names.

        The name server is asked, or, if they are given, these brokers.
        """
        if places is None:
            known = await admin.topics.names(self.calls)
        else:
            found = [(place, await admin.topics.config(self.calls, place.address, name)) for place in places]
            if any(config is not None for _, config in found):
                return name
            known = [one for place, _ in found for one in await admin.topics.configs(self.calls, place.address)]
        if name not in known:
            raise unknown("topic", name, known, hint)
        return name

    async def groups(self, places: Iterable[BrokerPlace]) -> set[str]:
        return {name for place in places for name in await admin.groups.configs(self.calls, place.address)}

    async def group(self, name: str, places: Iterable[BrokerPlace]) -> None:
        """Fail if there is no such group, with similar names."""
        known = await self.groups(places)
        if name not in known:
            raise unknown("group", name, known, "pyromq group list shows all")

    async def masters_with(self, group: str, *which: str | None) -> list[BrokerPlace]:
        """Return the masters, as `masters` does. Fail if none of them has the group."""
        places = await self.masters(*which)
        await self.group(group, places)
        return places

    async def masters(self, broker: str | None = None, cluster: str | None = None) -> list[BrokerPlace]:
        """Return all masters, those of a cluster, or one: by name, or by its address without asking a name server."""
        if broker is not None and ":" in broker:
            return [admin.cluster.BrokerPlace("", broker, 0, broker)]
        found = await admin.cluster.masters(self.calls)
        if cluster is not None:
            known = sorted({one.cluster for one in found})
            if cluster not in known:
                raise unknown("cluster", cluster, known)
            found = [one for one in found if one.cluster == cluster]
        if broker is not None:
            names = [one.name for one in found]
            if broker not in names:
                raise unknown("broker", broker, names, "Name it, or give HOST:PORT")
            found = [one for one in found if one.name == broker]
        return found

    async def each(self, places: Sequence[BrokerPlace], fetch: Callable[[BrokerPlace], Awaitable[None]]) -> list[str]:
        """Call `fetch` for one broker after the other; return the names of those that fail, each printed.

        One fails if it does not answer, or answers nonsense. Only if all fail the command ends with that.
        """
        away: list[str] = []
        for place in places:
            try:
                await fetch(place)
            except (CallFailed, BadAnswer, Malformed) as fault:
                away.append(place.name)
                if len(away) == len(places):
                    raise
                print_lines(f"pyromq: broker {place.name} is left out: {fault}", err=True)
        return away


def talks(function: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Make a command of the coroutine function: it gets a Shell first, then its own options."""

    def run(*, timeout: float, as_json: bool, quiet: bool, **own: Any) -> None:
        flags = {"is_sure": own.pop("yes", False), "is_dry": own.pop("dry_run", False)}
        reach = take_reach(own)
        with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere) if quiet else nullcontext():  # stderr stays
            ask(function, reach, timeout, own, as_json=as_json, **flags)

    return cluster_options(update_wrapper(run, function))


def changes(function: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Make a command that changes something: with --yes and --dry-run."""
    flags = (
        click.option("-y", "--yes", is_flag=True, help="Do not ask."),
        click.option("--dry-run", is_flag=True, help="Only show what would be changed."),
    )
    return together(*flags)(talks(function))


def ask(function: Callable[..., Awaitable[T]], reach: Reach, timeout: float, own: dict[str, Any], **flags: bool) -> T:
    """Run the coroutine function with a Shell of its own. For what is no command of `talks` itself."""
    with uncollected():
        import asyncio

        from ...admin.calls import Calls
        from ...ambient import SystemClock, system_random
        from ...client.connect.session import Session

    async def main() -> T:
        session = Session(client_config(reach, timeout), clock=SystemClock(), rng=system_random())  # without heartbeats
        try:
            return await function(Shell(calls=Calls(session, timeout_s=timeout), **flags), **own)
        finally:
            await session.stop()

    return asyncio.run(main())


def client_config(reach: Reach, timeout: float) -> ClientConfig:
    """Return the settings of the client that a command is to a cluster."""
    from ...client.config import ClientConfig, name_servers

    return ClientConfig(
        name_servers=name_servers(reach.namesrv),
        tls=reach.tls.settings(),
        call_timeout_s=timeout,
        name_server_timeout_s=timeout,
        access_key=reach.keys.access_key,  # of the environment or a profile: others could read options
        secret_key=reach.keys.secret_key,
    )
