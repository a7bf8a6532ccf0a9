"""For whom a gateway asks a broker, where only the broker finds out whose messages a request is about, or counts them.

The gateway judges who asks it, and signs as a server of the cluster, which may do everything. With the first two fields
the broker's handlers ask for the rights of the one who asked the gateway; with the third they tell the clients of its
users apart; by the others quotas count what he uses, and they give no rights. Apache's brokers pass over them.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...protocol.command import Command
from ...protocol.headers.clients import COUNTED_USER
from ...protocol.requests import RequestCode
from ..directory import USER as KIND
from ..rights import Principal, Proof, Rights
from ..user_rights import SuperRights, UserRights

USER, SOURCE, SENDER = "pyromqUser", "pyromqSource", "pyromqSender"
HOST, CONNECTION = "pyromqCountedHost", "pyromqCountedConnection"  # with COUNTED_USER
_FIELDS = (USER, SOURCE, SENDER, COUNTED_USER, HOST, CONNECTION)
# The first two point at a message by its place; the third says whom to ask about half messages.
NAMED = (RequestCode.CONSUMER_SEND_MSG_BACK.code, RequestCode.END_TRANSACTION.code, RequestCode.HEART_BEAT.code)


@dataclass(frozen=True, slots=True)
class CountedCaller:
    """Whom quotas count a request for. `connection`: his own at the gateway; "": the one that the request came over."""

    user: str
    host: str
    connection: str


def name_caller(command: Command, principal: Principal, rights: Rights) -> None:
    """Say for whom a request is, where its broker has to know, and nothing of what the client said about it.

    Who may do everything by his address is not named by them: only as the sender of his heartbeats, which gives no
    rights. Super users are: they may cease to be."""
    for name in _FIELDS:
        command.fields.pop(name, None)
    if command.code == RequestCode.HEART_BEAT and principal.name:
        command.fields[SENDER] = principal.name
    if command.code in NAMED and type(rights) in (UserRights, SuperRights):
        # Binary headers leave out empty values: with the kind before it, who has no name is named too.
        command.fields[USER], command.fields[SOURCE] = KIND + principal.name, principal.source


def count_for(command: Command, principal: Principal, connection: str = "") -> None:
    """Say whose use of a broker a request is, behind `name_caller`. `connection`: the caller's address with its port,
    where the broker sees no connection that is his alone."""
    command.fields[COUNTED_USER], command.fields[HOST] = KIND + principal.name, principal.source
    if connection:
        command.fields[CONNECTION] = connection


def named_caller(command: Command) -> Principal | None:
    """Return for whom a server of the cluster asks; None: for itself."""
    fields = command.fields
    if USER not in fields and SOURCE not in fields:
        return None
    return Principal(fields.get(USER, "").removeprefix(KIND), source=fields.get(SOURCE, ""))


def counted_caller(command: Command, principal: Principal, inner: str) -> CountedCaller | None:
    """Return whose use a request is that `inner`, the user of the cluster's servers, has signed; None: his own."""
    fields = command.fields
    if COUNTED_USER not in fields or not inner or principal.name != inner or principal.proof is not Proof.SIGNATURE:
        return None
    user = fields[COUNTED_USER].removeprefix(KIND)
    return CountedCaller(user, fields.get(HOST, ""), fields.get(CONNECTION, ""))


def sender_of(command: Command, principal: Principal) -> str:
    """Return what tells the users apart whose clients send heartbeats, here or through a gateway.

    Who is no gateway and names a sender is nobody else by that: his own name stays in it."""
    sender = command.fields.get(SENDER)
    return principal.name if sender is None else f"{principal.name}\n{sender}"
