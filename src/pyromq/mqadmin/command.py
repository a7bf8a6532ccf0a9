"""What a command is: a name, a line of help, its options, and a coroutine that asks and prints.

    @command("Clusters that have a topic", TOPIC)
    async def topic_cluster_list(run: Run) -> None:
        ...
        run.say(name)

Commands raise `Failed`, `UsageError`, or what `pyromq.admin` raises; `main.py` turns that into words and an exit code.
"""

from __future__ import annotations

import codecs
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass

from ..admin import cluster
from ..admin.calls import Calls
from ..ambient import Clock
from ..client.connect.answers import Answer
from ..client.connect.session import Session
from ..model.wire_text import LONG_MAX, whole_number
from ..protocol.row import A, B, H, R, Row
from .options import Declared, Option, table
from .parsing import Chosen, UsageError
from .printing import as_line


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

    def say(self, *lines: object) -> None:
        """Print each text as one line, none as an empty one. A line end inside came from elsewhere and is escaped."""
        for line in lines or ("",):
            self.print(as_line(str(line)) + "\n")

    def warn(self, text: str) -> None:
        self.warn_line(f"mqadmin: {as_line(text)}\n")

    def __getitem__(self, name: str) -> str:
        return self.chosen[name]

    def __contains__(self, name: str) -> bool:
        return name in self.chosen

    def get(self, name: str, default: str = "") -> str:
        return self.chosen.get(name, default)

    def number(self, name: str, default: int | None = None) -> int:
        text = self.chosen.get(name)
        if not text and default is not None:
            return default
        number = whole_number(text, -LONG_MAX - 1)
        if number is None:
            raise UsageError(f"-{name} {text}: a whole number is needed")
        return number

    def truth(self, name: str, default: bool = False) -> bool:
        """Return the option as Java reads it: everything but `true` is false."""
        return self.chosen[name].lower() == "true" if name in self.chosen else default

    def charset(self, name: str, default: str = "") -> str:
        text = self.chosen.get(name, default)
        try:
            return codecs.lookup(text).name if text else ""
        except LookupError:
            raise UsageError(f"-{name} {text}: no such charset; UTF-8 and GBK are some") from None

    @property
    def name_servers(self) -> Sequence[str]:
        return self.session.config.name_servers

    async def masters(self, *, broker: str = "b", clusters: str = "c") -> list[str]:
        """Return the broker of `-b`, or the masters of the cluster of `-c`."""
        if broker in self.chosen:
            return [self.chosen[broker]]
        if clusters in self.chosen:
            return [place.address for place in await self.cluster(self.chosen[clusters]) if place.is_master]
        raise UsageError(f"say which: -{broker} with a broker's address, or -{clusters} with a cluster's name")

    async def cluster(self, name: str) -> list[cluster.BrokerPlace]:
        """Return the cluster's brokers, masters and slaves."""
        found = await cluster.brokers(self.calls, name)
        if not found:
            known = sorted({place.cluster for place in await cluster.brokers(self.calls)})
            raise Failed(
                "[error] Make sure the specified clusterName exists or the name server connected to is correct. "
                f"({';'.join(self.name_servers)} knows {', '.join(known) or 'no cluster'}, not {name})"
            )
        return found

    async def rounds(self, name: str = "i") -> AsyncIterator[int]:
        """Yield once, or again and again every `-i` seconds."""
        count = 0
        while True:
            yield count
            if name not in self.chosen:
                return
            count += 1
            await self.clock.sleep(max(1, self.number(name)))


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
    """Declare a command. `catalogue.py` knows its name, and makes it when it is wanted."""
    return lambda run: lambda name: Subcommand(name, text, table(declared), run, waits_for)
