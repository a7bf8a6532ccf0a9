"""Options of a command, declared once: the parser reads this table and the help prints it.

    TOPIC = need("t", "topic", "the topic")
    flag("l", "list", "as a table")
    one_of(may("b", "brokerAddr", ...), may("c", "clusterName", ...))      exactly one of them

Those of one command alone may stand in its docstring, a line each (`documented`).
Names and kinds are those of RocketMQ 5.5.0, the descriptions are ours. Knows nothing of what a command does.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence
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


def documented(text: str | None) -> list[Option]:
    """Read options from lines such as `-t topic=  the topic` and `[-l list]  as a table`.

    In brackets: may be left out. With an equals sign: has a value.
    """
    return [
        Option(short, long, meaning, required=not bracket, has_value=bool(equals))
        for bracket, short, long, equals, meaning in _LINE.findall(text or "")
    ]


_LINE = re.compile(r"(?m)^ *(\[?)-(\w*) ([^=\]\n]+)(=?)\]? +(.*)$")

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


WIDTH = 110


def usage(name: str, options: Sequence[Option]) -> str:
    words = [f"mqadmin {name}"]
    done: set[int] = set()
    for option in options:
        if not option.group:
            words.append(_sign(option) if option.required else f"[{_sign(option)}]")
        elif option.group not in done:
            done.add(option.group)
            members = [_sign(one) for one in options if one.group == option.group]
            words.append(" | ".join(members) + " " * (len(members) - 1))  # the blanks are commons-cli's
    return _wrapped("usage: " + " ".join(words), "       ")


def command_help(name: str, options: Sequence[Option]) -> str:
    heads = [_head(option) for option in options]
    width = max(map(len, heads)) + 3
    lines = [usage(name, options)]
    for head, option in zip(heads, options, strict=True):
        lines.append(_wrapped(head.ljust(width) + option.text, " " * width))
    return "\n".join(lines)


def command_list(commands: Iterable[tuple[str, str]]) -> str:
    lines = ["The most commonly used mqadmin commands are:"]
    lines += [f"   {name:<35} {text}" for name, text in commands]
    return "\n".join([*lines, "", "See 'mqadmin help <command>' for more information on a specific command."])


def _sign(option: Option) -> str:
    name = f"-{option.short}" if option.short else f"--{option.long}"
    return f"{name} <arg>" if option.has_value else name


def _head(option: Option) -> str:
    names = f" -{option.short},--{option.long}" if option.short else f"    --{option.long}"
    return f"{names} <arg>" if option.has_value else names


def _wrapped(text: str, indent: str) -> str:
    if len(text) <= WIDTH:
        return text
    return textwrap.fill(text, WIDTH, subsequent_indent=indent, drop_whitespace=True, replace_whitespace=False)
