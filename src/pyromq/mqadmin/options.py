"""Options of a command, declared once: the parser reads this table and the help prints it.

    TOPIC = need("t", "topic", "the topic")
    flag("l", "list", "as a table")
    one_of(may("b", "brokerAddr", ...), may("c", "clusterName", ...))      exactly one of them

Names and kinds are those of RocketMQ 5.5.0, the descriptions are ours. Knows nothing of what a command does.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Option:
    """`short` may be empty or have two letters (`-bn`). `long` is as Java has it, blanks included."""

    short: str
    long: str
    text: str
    required: bool = False
    has_value: bool = True
    group: int = 0  # options of one command with the same number but 0 exclude each other, and one is needed

    @property
    def key(self) -> str:
        """The name by which commands read the option's value."""
        return self.short or self.long.strip()


Declared = Option | tuple[Option, ...]


def need(short: str, long: str, text: str) -> Option:
    return Option(short, long, text, required=True)


def may(short: str, long: str, text: str) -> Option:
    return Option(short, long, text)


def flag(short: str, long: str, text: str) -> Option:
    return Option(short, long, text, has_value=False)


def one_of(*options: Option) -> tuple[Option, ...]:
    return options


HELP = flag("h", "help", "this text")
NAME_SERVERS = may("n", "namesrvAddr", "name servers, host:port;host:port; default: environment NAMESRV_ADDR")
BROKER = may("b", "brokerAddr", "the broker, host:port")
CLUSTER = may("c", "clusterName", "the cluster: all its masters")
BROKER_OR_CLUSTER = one_of(BROKER, CLUSTER)
TOPIC = need("t", "topic", "the topic")
ROUTE_BY = may("c", "cluster", "cluster, or parent topic of a light queue: where to look for the route")
INTERVAL = may("i", "interval", "again every so many seconds, until interrupted")


def table(declared: Iterable[Declared]) -> tuple[Option, ...]:
    """Return all options of a command in Java's order, with -h and -n where it does not bring its own."""
    found: list[Option] = []
    for number, one in enumerate(declared, 1):
        if isinstance(one, tuple):
            found += [Option(o.short, o.long, o.text, has_value=o.has_value, group=number) for o in one]
        else:
            found.append(one)
    own = {option.short for option in found}
    found += [option for option in (HELP, NAME_SERVERS) if option.short not in own]
    return tuple(sorted(found, key=lambda option: option.key.lower()))
