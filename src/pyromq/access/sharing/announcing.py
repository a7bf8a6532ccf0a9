"""Tells the other servers of each change before it is answered, and now and then looks whether all have the same.

Who does not answer is not waited for long: he gets what he missed with one of the next rounds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress

from ... import logs
from ...ambient import Clock
from ...errors import PyroError
from ...protocol.bodies.own import UserChanges, UserChangesAnswer
from .exchange import UserExchange

log = logs.get("pyromq.access")

ANNOUNCE_S = 2.0  # that a change waits for others
ROUND_S = 5.0
PEERS_OF_ROUND = 8

Ask = Callable[[str, UserChanges], Awaitable[UserChangesAnswer | None]]  # PyroError: no answer; None: it keeps no users
Peers = Callable[[], Awaitable[list[str]]]
Choose = Callable[[list[str], int], list[str]]


class UserSharing:
    """Event loop only."""

    def __init__(self, exchange: UserExchange, ask: Ask, peers: Peers, choose: Choose, clock: Clock) -> None:
        """`peers`: addresses of all other servers. `choose`: so many of them, by chance."""
        self._exchange, self._ask, self._peers, self._choose, self._clock = exchange, ask, peers, choose, clock
        self._known: list[str] = []

    async def announce(self, name: str) -> None:
        """Tell all others of a user who was changed here; return when they know it, or after a moment."""
        if not self._known:
            return
        asking = asyncio.gather(*(self._announce_to(peer, [name]) for peer in self._known))
        try:
            async with self._clock.timeout(ANNOUNCE_S):
                await asking
        except TimeoutError:
            log.warning("not all servers have been told of a user yet", user=name)

    async def _announce_to(self, peer: str, names: Iterable[str]) -> None:
        try:
            await self._ask(peer, self._exchange.question(names))
        except PyroError:
            return  # it gets it with a later round

    async def run(self) -> None:
        """Look whether all have the same, until cancelled."""
        while True:
            await self.round()
            await self._clock.sleep(ROUND_S)

    async def round(self) -> None:
        """Ask some of the others, and make up what is missing on either side."""
        try:
            self._known = await self._peers()
        except PyroError:
            return  # no name server answers: the registration says so
        await asyncio.gather(*(self.compare(peer) for peer in self._choose(self._known, PEERS_OF_ROUND)))

    async def compare(self, peer: str) -> None:
        """Make up what is missing here or there; one that is away gets and gives it in a later round."""
        with suppress(PyroError):
            await self._make_up(peer)

    async def _make_up(self, peer: str) -> None:
        answer = await self._ask(peer, self._exchange.question())
        if answer is None or answer.is_same:
            return
        answer = await self._ask(peer, self._exchange.question(with_stamps=True))
        if answer is None or answer.is_same:
            return
        await self._exchange.take(answer.entries, peer)
        if answer.wanted:
            await self._ask(peer, self._exchange.question(answer.wanted))
