"""For whom a gateway asks a broker, where only the broker finds out whose messages a request is about.

The gateway judges who asks it, and signs as a server of the cluster, which may do everything. With the first two fields
the broker's handlers ask for the rights of the one who asked the gateway; with the third they tell the clients of its
users apart. Apache's brokers pass over them.
"""

from __future__ import annotations

from ...protocol.command import Command
from ...protocol.requests import RequestCode
from ..directory import USER as KIND
from ..rights import Principal, Rights
from ..user_rights import SuperRights, UserRights

USER, SOURCE, SENDER = "pyromqUser", "pyromqSource", "pyromqSender"
# The first two point at a message by its place; the third says whom to ask about half messages.
NAMED = (RequestCode.CONSUMER_SEND_MSG_BACK.code, RequestCode.END_TRANSACTION.code, RequestCode.HEART_BEAT.code)


def name_caller(command: Command, principal: Principal, rights: Rights) -> None:
    """Say for whom a request is, where its broker has to know, and nothing of what the client said about it.

    Who may do everything by his address is not named by them: only as the sender of his heartbeats, which gives no
    rights. Super users are: they may cease to be."""
    for name in (USER, SOURCE, SENDER):
        command.fields.pop(name, None)
    if command.code == RequestCode.HEART_BEAT and principal.name:
        command.fields[SENDER] = principal.name
    if command.code in NAMED and type(rights) in (UserRights, SuperRights):
        # Binary headers leave out empty values: with the kind before it, who has no name is named too.
        command.fields[USER], command.fields[SOURCE] = KIND + principal.name, principal.source


def named_caller(command: Command) -> Principal | None:
    """Return for whom a server of the cluster asks; None: for itself."""
    fields = command.fields
    if USER not in fields and SOURCE not in fields:
        return None
    return Principal(fields.get(USER, "").removeprefix(KIND), source=fields.get(SOURCE, ""))


def sender_of(command: Command, principal: Principal) -> str:
    """Return what tells the users apart whose clients send heartbeats, here or through a gateway.

    Who is no gateway and names a sender is nobody else by that: his own name stays in it."""
    sender = command.fields.get(SENDER)
    return principal.name if sender is None else f"{principal.name}\n{sender}"
