"""The request by which servers tell each other of users (30015), over any client of the servers' protocol."""

from __future__ import annotations

from typing import Protocol

from ...ambient import Clock, Random
from ...model.codes import ResponseCode
from ...protocol.bodies.own import UserChanges, UserChangesAnswer
from ...protocol.command import Command
from ...protocol.json import ANSWER_LIMITS
from ...protocol.requests import RequestCode
from ..administration import AccessAdmin
from .announcing import Peers, UserSharing

ANSWER_S = 3.0


class ServerCalls(Protocol):
    """Requests to other servers, signed as this one; `transport.client.RemotingClient` is one."""

    async def call(self, address: str, command: Command, timeout_s: float) -> Command: ...


def user_sharing(
    admin: AccessAdmin, client: ServerCalls, peers: Peers, rng: Random, clock: Clock
) -> UserSharing | None:
    """Return what tells other servers of each change, before it is answered. None: this server signs nothing, having
    no inner credentials.

    `peers`: addresses of all others."""
    if admin.exchange is None:
        return None

    async def ask(address: str, changes: UserChanges) -> UserChangesAnswer | None:
        row = RequestCode.SHARE_USERS
        answer = await client.call(address, Command(code=row.code, body=row.takes.write_body(changes)), ANSWER_S)
        if answer.code != ResponseCode.SUCCESS:
            return None  # Apache's, or one without users
        return row.gives.read_body(answer.body, ANSWER_LIMITS)

    def choose(known: list[str], most: int) -> list[str]:
        return rng.sample(known, min(most, len(known)))

    sharing = UserSharing(admin.exchange, ask, peers, choose, clock)
    admin.announce = sharing.announce
    return sharing
