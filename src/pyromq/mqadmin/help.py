"""The help texts, in the layout of the Java tool: a usage line, then a line per option."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

from .options import Option

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
