"""Options of a command, declared once: the help prints this table, and a command line is read by it.

    TOPIC = "-t topic=  the topic"             is needed, and has a value
    "[-l list]  as a table"                    may be left out, and has none
    (BROKER, CLUSTER)                          exactly one of them

Those of one command alone may stand in its docstring, a line each. Names and kinds are those of RocketMQ 5.5.0, the
descriptions are ours. Words become values by the rules of the Java tool (commons-cli): `-t x`, `-tx`, `-t=x`, `--topic
x`, `--topic=x`, `-topic x`, any clear beginning of a long name. A value may look like an option that does not exist, so
`-a -message.type` and `-s -1` mean what they say.
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


Declared = str | tuple[str, ...]
_LINE = re.compile(r"(?m)^ *(\[?)-(\w*) ([^=\]\n]+)(=?)\]? +(.*)$")

HELP = "[-h help]  this text"
NAME_SERVERS = "[-n namesrvAddr=]  name servers, host:port;host:port; default: environment NAMESRV_ADDR"
BROKER = "[-b brokerAddr=]  the broker, host:port"
CLUSTER = "[-c clusterName=]  the cluster: all its masters"
BROKER_OR_CLUSTER = (BROKER, CLUSTER)
TOPIC = "-t topic=  the topic"
ROUTE_BY = "[-c cluster=]  cluster, or parent topic of a light queue: where to look for the route"
INTERVAL = "[-i interval=]  again every so many seconds, until interrupted"


def table(declared: Iterable[Declared]) -> tuple[Option, ...]:
    """Return all options of a command in Java's order, with -h and -n where it does not bring its own."""
    found: dict[str, Option] = {}
    for number, one in enumerate((HELP, NAME_SERVERS, *declared), 1):
        group = number if isinstance(one, tuple) else 0
        for bracket, short, long, equals, text in _LINE.findall(one if isinstance(one, str) else "\n".join(one)):
            option = Option(short, long, text, required=not bracket, has_value=bool(equals), group=group)
            found[option.key] = option
    return tuple(sorted(found.values(), key=lambda option: option.key.lower()))


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


_NUMBER = re.compile(r"-\d+(\.\d+)?([eE][-+]?\d+)?")


class UsageError(Exception):
    """The words do not fit the options. The text says which."""


class Chosen(dict[str, str]):
    """What was given, by short name (by long name where there is no short one). Surrounding blanks are cut off."""

    def __init__(self) -> None:
        self.stray: list[str] = []  # words that belong to no option: Java ignores them


def parse(options: Sequence[Option], words: Sequence[str]) -> Chosen:
    return _WordParser(options).parse(words)


class _WordParser:
    def __init__(self, options: Sequence[Option]) -> None:
        self._options = options
        self._short = {option.short: option for option in options if option.short}
        self._long = {option.long.strip(): option for option in options}

    def parse(self, words: Sequence[str]) -> Chosen:
        chosen, waiting = Chosen(), list(words)
        while waiting:
            word = waiting.pop(0)
            if word == "--":
                chosen.stray += waiting
                break
            if len(word) < 2 or not word.startswith("-"):
                chosen.stray.append(word)
                continue
            option, value = self._found(word)
            if value is None and option.has_value:
                if not waiting or not self._is_value(waiting[0]):
                    raise UsageError(f"Missing argument for option: {option.key}")
                value = waiting.pop(0)
            elif value is not None and not option.has_value:
                raise UsageError(f"Unrecognized option: {word}")
            chosen.setdefault(option.key, (value or "").strip())  # the first one counts
        if "h" not in chosen:
            self._check(chosen)
        return chosen

    def _found(self, word: str) -> tuple[Option, str | None]:
        """Return the option that a word names, and the value that is in the word itself."""
        name, equals, given = word.lstrip("-").partition("=")
        value = given if equals else None
        if not word.startswith("--"):
            if name in self._short:
                return self._short[name], value
            first = self._short.get(name[:1])
            if not self._long_names(name) and first is not None and first.has_value:
                return first, word[2:]
        fitting = self._long_names(name)
        if len(fitting) > 1:
            raise UsageError(f"Ambiguous option: '{word}' (could be: {', '.join(map(repr, fitting))})")
        if not fitting:
            raise UsageError(f"Unrecognized option: {word}")
        return self._long[fitting[0]], value

    def _long_names(self, begin: str) -> list[str]:
        return [begin] if begin in self._long else [name for name in self._long if begin and name.startswith(begin)]

    def _is_value(self, word: str) -> bool:
        if len(word) < 2 or not word.startswith("-") or _NUMBER.fullmatch(word):
            return True
        name = word.lstrip("-").partition("=")[0]
        is_short = not word.startswith("--") and (name in self._short or name[:1] in self._short)
        return not is_short and not self._long_names(name)

    def _check(self, chosen: Chosen) -> None:
        missing, seen = [], {0}
        for option in self._options:
            if option.required and option.key not in chosen:
                missing.append(option.key)
            if option.group in seen:
                continue
            seen.add(option.group)
            members = [one for one in self._options if one.group == option.group]
            given = [one.key for one in members if one.key in chosen]
            if len(given) > 1:
                raise UsageError(
                    f"The option '{given[1]}' was specified but an option from this group has already been selected: "
                    f"'{given[0]}'"
                )
            if not given:
                missing.append(f"[{', '.join(f'-{one.short} {one.text}' for one in members)}]")
        if missing:
            raise UsageError(f"Missing required option{'s' if len(missing) > 1 else ''}: {', '.join(missing)}")
