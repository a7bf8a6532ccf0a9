"""For whom a gateway asks a broker, where only the broker finds out whose messages a request is about.

The gateway judges who asks it, and signs as a server of the cluster, which may do everything. With these two fields the
broker's handlers ask for the rights of the one who asked the gateway. Apache's brokers pass over them.
"""

from __future__ import annotations

from ...protocol.command import Command
from ...protocol.requests import RequestCode
from ..directory import USER as KIND
from ..rights import Principal, Rights
from ..user_rights import UserRights

USER, SOURCE = "pyromqUser", "pyromqSource"
# The first two point at a message by its place; the third says whom to ask about half messages.
NAMED = (RequestCode.CONSUMER_SEND_MSG_BACK.code, RequestCode.END_TRANSACTION.code, RequestCode.HEART_BEAT.code)


def name_caller(command: Command, principal: Principal, rights: Rights) -> None:
    """Say for whom a request is, where its broker has to know, and nothing of what the client said about it.

    Who may do everything is not named."""
    command.fields.pop(USER, None)
    command.fields.pop(SOURCE, None)
    if command.code in NAMED and type(rights) is UserRights:
        # Binary headers leave out empty values: with the kind before it, who has no name is named too.
        command.fields[USER], command.fields[SOURCE] = KIND + principal.name, principal.source


def named_caller(command: Command) -> Principal | None:
    """Return for whom a server of the cluster asks; None: for itself."""
    fields = command.fields
    if USER not in fields and SOURCE not in fields:
        return None
    return Principal(fields.get(USER, "").removeprefix(KIND), source=fields.get(SOURCE, ""))
