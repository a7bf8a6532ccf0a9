"""Names of topics and groups for shell completion: asked of the name server and brokers, quickly or not at all.

The command tree gives these types to the texts of a command while a shell completes it; one that runs keeps its own.
"""

from __future__ import annotations

import logging
from contextlib import suppress

import click
from click.shell_completion import CompletionItem

from ... import admin
from .profiles import take_reach
from .shell import Shell, ask

MOST_S = 1.0  # a shell waits for all of it
_GROUPS = {("group", "name"), ("group", "source"), ("group", "target")}
_TOPICS = {("topic", "name"), ("topic", "source"), ("topic", "target"), ("msg", "target"), ("dlq", "target")}


class KnownName(click.types.StringParamType):
    """A text that is completed by what the cluster has: "topic" or "group"."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return the names that begin so; none, without a word, if nobody answers in time."""
        logging.disable()
        given = {one.name: None for one in ctx.command.params if one.name} | ctx.params
        with suppress(Exception):
            found = ask(_names, take_reach(given), MOST_S / 2, {"kind": self.kind})
            return [CompletionItem(name) for name in found if name.startswith(incomplete)]
        return []


async def _names(shell: Shell, kind: str) -> list[str]:
    async with shell.session.clock.timeout(MOST_S):
        if kind == "topic":
            return sorted(name for name in await admin.topics.names(shell.calls) if not admin.topics.is_internal(name))
        known = await shell.groups(await shell.masters())
        return sorted(name for name in known if not admin.groups.is_internal(name))


def complete_names(command: click.Command, within: str | None = None) -> None:
    """Let what names a topic or a group be completed so, in this command and those below it (`within` their group)."""
    for param in command.params:
        if param.type is click.STRING and (param.name == "topic" or (within, param.name) in _TOPICS):
            param.type = KnownName("topic")
        elif param.type is click.STRING and (param.name == "group" or (within, param.name) in _GROUPS):
            param.type = KnownName("group")
    for each in command.commands.values() if isinstance(command, click.Group) else ():
        complete_names(each, command.name)
