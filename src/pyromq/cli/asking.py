"""Asking brokers from a command: one by its address, or all that a name server knows."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from ..ambient import SystemClock, system_random
from ..errors import CallFailed
from ..model.codes import RequestCode
from ..protocol.bodies.body import decode_body
from ..protocol.bodies.route import ClusterInfo
from ..protocol.command import Command
from ..transport.client import Client
from .exits import NO_ANSWER

F = TypeVar("F", bound=Callable[..., Any])
MASTER = 0


@dataclass(frozen=True, slots=True)
class Where:
    """Whom to ask. The three options of `where` in one value."""

    broker: str
    namesrv: str | None
    timeout: float

    def ask(self, wanted: Command) -> Mapping[str, Command]:
        """The answers by address. Ends the command with exit code 2 where somebody does not answer."""
        try:
            return asyncio.run(self._ask(wanted))
        except CallFailed as fault:
            click.echo(f"pyromq: {fault}", err=True)
            sys.exit(NO_ANSWER)

    async def _ask(self, wanted: Command) -> dict[str, Command]:
        async with Client(clock=SystemClock(), rng=system_random()) as client:
            addresses = [self.broker] if self.namesrv is None else await self._masters(client, self.namesrv)
            return {
                address: await client.call(
                    address, Command(code=wanted.code, fields=dict(wanted.fields), body=wanted.body), self.timeout
                )
                for address in addresses
            }

    async def _masters(self, client: Client, namesrv: str) -> list[str]:
        answer = await client.call(namesrv, Command(code=RequestCode.GET_BROKER_CLUSTER_INFO), self.timeout)
        table = decode_body(ClusterInfo, answer.body or b"{}").broker_addr_table
        found = [one.broker_addrs[MASTER] for one in table.values() if MASTER in one.broker_addrs]
        if not found:
            raise CallFailed(f"{namesrv} knows no broker that could be asked")
        return sorted(found)


def where(command: F) -> F:
    """`-b`, `-n` and `--timeout`; they arrive as broker, namesrv and timeout."""
    for option in (
        click.option(
            "--timeout",
            type=click.FloatRange(min=0, min_open=True),
            default=3.0,
            show_default=True,
            help="Seconds to wait for each answer.",
        ),
        click.option("-n", "--namesrv", default=None, help="HOST:PORT of a name server: all its brokers are asked."),
        click.option("-b", "--broker", default="127.0.0.1:10911", show_default=True, help="HOST:PORT of the broker."),
    ):
        command = option(command)
    return command
