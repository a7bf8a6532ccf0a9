"""What requests are about, and whose use of the broker they are: of who sent them, or of who is behind a gateway.

A gateway signs as the user of the cluster's servers (`innerClientAuthenticationCredentials`) and says who asked it
(`access/sharing/behalf.py`). From anybody else such a word means nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...access.sharing.behalf import counted_caller
from ...transport.dispatch import Request


@dataclass(frozen=True, slots=True)
class RequestScope:
    """What a request is about, as far as quotas go."""

    user: str
    host: str
    address: str
    topic: str = ""
    group: str = ""
    properties: str = ""


@dataclass(frozen=True, slots=True)
class Scopes:
    """`inner`: the user of the cluster's servers; "": there is none."""

    inner: str

    def of(self, request: Request, topic: str = "", group: str = "", properties: str = "") -> RequestScope:
        address = request.peer.address
        caller = counted_caller(request.command, request.principal, self.inner)
        if caller is None:
            return RequestScope(request.principal.name, host_of(address), address, topic, group, properties)
        return RequestScope(caller.user, caller.host, caller.connection or address, topic, group, properties)

    def is_spared(self, request: Request) -> bool:
        """Tell whether a super user sent a request, for himself: somebody has to be able to change quotas."""
        return request.principal.is_super and counted_caller(request.command, request.principal, self.inner) is None


def host_of(address: str) -> str:
    """Return the address without the port, as quotas name it."""
    return address.rpartition(":")[0].strip("[]")
