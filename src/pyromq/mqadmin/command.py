"""What a command is: a name, a line of help, its options, and a coroutine that asks and prints.

    @command("Clusters that have a topic", TOPIC)
    async def topic_cluster_list(run: Run) -> None:
        ...
        run.say(name)

Commands raise `Failed`, `UsageError`, or what `pyromq.admin` raises; `main.py` turns that into words and an exit code.
"""

from __future__ import annotations

import codecs
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ..admin import cluster, topics
from ..admin.calls import Calls
from ..ambient import Clock
from ..client.connect.answers import Answer
from ..client.connect.session import Session
from ..model.codes import ResponseCode
from ..model.names import retry_topic
from ..model.topic import MASTER_ID
from ..model.wire_text import LONG_MAX, whole_number
from ..protocol.bodies.route import TopicRouteData
from ..protocol.row import A, B, H, R, Row
from .options import Chosen, Declared, Option, UsageError, table
from .printing import as_line

NO_ROUTE = "No topic route info in name server for the topic: "


class Failed(Exception):
    """A command that could not do what it was asked; the text says why, in Java's words where Java has some."""


class NotServed(Failed):
    """What this needs is not there. `main.py` adds which capability of ours the command waits for."""


def failed(code: int, remark: str) -> Failed:
    """Return the failure as the Java tool shows an answer."""
    return Failed(f"CODE: {int(code)}  DESC: {remark}")


@dataclass(slots=True)
class Run:
    """One invocation: what was chosen, whom to ask, where to print."""

    chosen: Chosen
    session: Session
    clock: Clock
    print: Callable[[str], object]
    warn_line: Callable[[str], object]

    @property
    def calls(self) -> Calls:
        return Calls(self.session)

    async def ask(
        self, address: str, row: Row[H, B, A, R], header: H | None = None, body: B | None = None
    ) -> Answer[A, R]:
        return await self.calls.ask(address, row, header, body)

    async def ask_each(
        self,
        addresses: Iterable[str],
        said: str,
        row: Row[H, B, Any, Any],
        header: H | None = None,
        body: B | None = None,
    ) -> None:
        """Ask one after the other. `said` is printed after each, with its address for `{}`."""
        for address in addresses:
            await self.ask(address, row, header, body)
            self.say(said.format(address))

    def say(self, *lines: object) -> None:
        """Print each text as one line, none as an empty one. A line end inside came from elsewhere and is escaped."""
        for line in lines or ("",):
            self.print(as_line(str(line)) + "\n")

    def say_all(self, lines: Iterable[object]) -> None:
        """Print a line each, and nothing where there is none."""
        for line in lines:
            self.say(line)

    def warn(self, text: str) -> None:
        self.warn_line(f"mqadmin: {as_line(text)}\n")

    def __getitem__(self, name: str) -> str:
        return self.chosen[name]

    def __contains__(self, name: str) -> bool:
        return name in self.chosen

    def get(self, name: str, default: str = "") -> str:
        return self.chosen.get(name, default)

    def words(self, name: str) -> list[str]:
        """Return the values of an option that takes several, with commas between."""
        return [each.strip() for each in self.get(name).split(",") if each.strip()]

    def number(self, name: str, default: int | None = None) -> int:
        text = self.get(name)
        if not text and default is not None:
            return default
        number = whole_number(text, -LONG_MAX - 1)
        if number is None:
            raise UsageError(f"-{name} {text}: a whole number is needed")
        return number

    def truth(self, name: str, default: bool = False) -> bool:
        """Return the option as Java reads it: everything but `true` is false."""
        return self[name].lower() == "true" if name in self else default

    def charset(self, name: str, default: str = "") -> str:
        text = self.get(name, default)
        try:
            return codecs.lookup(text).name if text else ""
        except LookupError:
            raise UsageError(f"-{name} {text}: no such charset; UTF-8 and GBK are some") from None

    @property
    def name_servers(self) -> Sequence[str]:
        return self.session.config.name_servers

    async def masters(self) -> list[str]:
        """Return the broker of `-b`, or the masters of the cluster of `-c`."""
        return [place.address for place in await self._places() if place.is_master]

    async def brokers(self) -> list[str]:
        """Return the broker of `-b`, or masters and slaves of the cluster of `-c`."""
        return [place.address for place in await self._places()]

    async def _places(self) -> list[cluster.BrokerPlace]:
        if "b" in self:
            return [cluster.BrokerPlace("", "", MASTER_ID, self["b"])]
        if "c" in self:
            return await self.cluster(self["c"])
        raise UsageError("say which: -b with a broker's address, or -c with a cluster's name")

    async def cluster(self, name: str) -> list[cluster.BrokerPlace]:
        found = await cluster.brokers(self.calls, name)
        if not found:
            known = sorted({place.cluster for place in await cluster.brokers(self.calls)})
            raise Failed(
                "[error] Make sure the specified clusterName exists or the name server connected to is correct. "
                f"({';'.join(self.name_servers)} knows {', '.join(known) or 'no cluster'}, not {name})"
            )
        return found

    async def route_of(self, topic: str) -> TopicRouteData:
        found = await topics.route(self.calls, topic)
        if found is None:
            raise failed(ResponseCode.TOPIC_NOT_EXIST, NO_ROUTE + topic)
        return found

    async def brokers_of(self, topic: str) -> dict[str, str]:
        """Return the address of each broker that has the topic, by its name: the master's, else that of a slave."""
        found = sorted((await self.route_of(topic)).broker_datas, key=lambda each: each.broker_name)
        return {each.broker_name: address for each in found if (address := _chosen_address(each.broker_addrs))}

    async def brokers_of_group(self, group: str, cluster_name: str = "", topic: str = "") -> list[str]:
        """Return the brokers of its retry topic, on which a member of the group was, or those of a cluster's own topic.

        A group that was never online has no retry topic: then the brokers of `topic`.
        """
        known_by = cluster_name or retry_topic(group)
        if not cluster_name and topic and await topics.route(self.calls, known_by) is None:
            known_by = topic
        return list((await self.brokers_of(known_by)).values())

    async def rounds(self) -> AsyncIterator[int]:
        """Yield once, or again and again every `-i` seconds."""
        count = 0
        while True:
            yield count
            if "i" not in self:
                return
            count += 1
            await self.clock.sleep(max(1, self.number("i")))


def _chosen_address(addresses: dict[int, str]) -> str | None:
    return addresses.get(MASTER_ID) or next((addresses[each] for each in sorted(addresses)), None)


Runs = Callable[[Run], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Subcommand:
    name: str
    text: str
    options: tuple[Option, ...]
    run: Runs
    waits_for: str = ""  # the capability that our own brokers lack; refusals of it are explained by this


Named = Callable[[str], Subcommand]


def command(text: str, *declared: Declared, waits_for: str = "") -> Callable[[Runs], Named]:
    """Declare a command; options of its own may stand in its docstring. `catalogue.py` makes it when it is wanted."""

    def declare(run: Runs) -> Named:
        options = table((*declared, run.__doc__ or ""))
        return lambda name: Subcommand(name, text, options, run, waits_for)

    return declare
