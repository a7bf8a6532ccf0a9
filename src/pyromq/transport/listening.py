"""Bound sockets of one listener: who composes a daemon binds first, and makes everything else knowing the address.

Who connects before a `Server` accepts on these sockets is refused, as if nobody were there.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from functools import partial
from typing import NamedTuple

from ..errors import ConfigError
from .address import socket_address

_BACKLOG = 1024


class Listening(NamedTuple):
    """One bound socket for each address of a host."""

    sockets: list[socket.socket]

    @property
    def address(self) -> str:
        """Return the first address, with the port that was chosen if it was 0."""
        return socket_address(self.sockets[0].getsockname())

    def listen(self) -> None:
        """Let clients connect. ConfigError where somebody else took the port after it was bound."""
        for each in self.sockets:
            try:
                each.listen(_BACKLOG)
            except OSError as fault:
                host, port = each.getsockname()[:2]
                raise ConfigError(_cannot_listen(host, port, fault)) from None

    def close(self) -> None:
        for each in self.sockets:
            each.close()


async def bind(host: str, port: int) -> Listening:
    """Bind every address of the host. ConfigError says why that cannot be."""
    listening = Listening([])
    try:
        for family, kind, protocol, _, address in dict.fromkeys(await _addresses(host, port)):
            listening.sockets.append(_bound(family, kind, protocol, address))
    except OSError as fault:
        listening.close()
        raise ConfigError(_cannot_listen(host, port, fault)) from None
    return listening


async def _addresses(host: str, port: int) -> list[tuple[int, int, int, str, tuple[object, ...]]]:
    """Resolve a host. Only a name takes a thread, which may wait for a server of names."""
    plain = partial(socket.getaddrinfo, host or None, port, type=socket.SOCK_STREAM)
    try:
        return list(plain(flags=socket.AI_PASSIVE | socket.AI_NUMERICHOST))
    except socket.gaierror:
        loop = asyncio.get_running_loop()
        return list(await loop.run_in_executor(None, partial(plain, flags=socket.AI_PASSIVE)))


def _bound(family: int, kind: int, protocol: int, address: tuple[object, ...]) -> socket.socket:
    made = socket.socket(family, kind, protocol)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind(address)
        made.setblocking(False)
    except OSError:
        made.close()
        raise
    return made


def _cannot_listen(host: str, port: int, fault: OSError) -> str:
    if fault.errno == errno.EADDRINUSE:
        return (
            f"port {port} on {host} is in use: choose another port (0 takes any free one), or stop what listens there"
        )
    if fault.errno == errno.EACCES:
        return f"port {port} on {host} needs rights that this process lacks: choose one above 1023"
    return f"cannot listen on {host} port {port}: {fault.strerror or fault}"
