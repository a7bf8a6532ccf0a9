"""Listening sockets: bound before anything else of a daemon is made, then accepted on by a `Server`, one by one.

Who connects before that is refused, as if nobody were there. The event loops' own servers take as many sockets as are
waiting before anybody can count them; here the server decides on each at once, so that the descriptors of files are
never taken. A shortage that comes from elsewhere (the whole machine's limit, say) makes a pause, not an end.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, NamedTuple, TypeVar

from .. import logs
from ..ambient import Clock, Timer
from ..errors import ConfigError
from .address import socket_address

_BACKLOG = 1024
_ANY_HOST = frozenset(("0.0.0.0", "::"))


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

    def meets(self, other: Listening) -> bool:
        """Tell whether a connection could be for both: the system lets both be bound, and one of them listen."""
        own = [(each.family, *each.getsockname()[:2]) for each in self.sockets]
        others = [(each.family, *each.getsockname()[:2]) for each in other.sockets]
        return any(
            (family, port) == (its_family, its_port)
            and (host == its_host or not _ANY_HOST.isdisjoint((host, its_host)))
            for family, host, port in own
            for its_family, its_host, its_port in others
        )

    def copied(self) -> Listening:
        """Return the same sockets once more: who connects waits while one of them is open, whoever closes others."""
        return Listening([each.dup() for each in self.sockets])

    def close(self) -> None:
        for each in self.sockets:
            each.close()


class NoSuchHost(ConfigError):
    """The host to listen on is no address of this machine: another port would not help."""


async def bind(host: str, port: int, *, shared: bool = False) -> Listening:
    """Bind every address of the host. ConfigError says why that cannot be, NoSuchHost that the host is to blame.

    `shared`: other processes that say so too may listen there as well; each gets a share of the connections."""
    listening = Listening([])
    try:
        for family, kind, protocol, _, address in dict.fromkeys(await _addresses(host, port)):
            listening.sockets.append(_bound(family, kind, protocol, address, shared))
    except OSError as fault:
        listening.close()
        if isinstance(fault, socket.gaierror) or fault.errno == errno.EADDRNOTAVAIL:
            raise NoSuchHost(
                f"cannot listen on {host}, which is no address of this machine ({fault.strerror}): name one that is, "
                "or 0.0.0.0 for all (--host of `pyromq up`, --listen HOST:PORT, or bindAddress)"
            ) from None
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


def _bound(family: int, kind: int, protocol: int, address: tuple[object, ...], shared: bool) -> socket.socket:
    made = socket.socket(family, kind, protocol)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
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


_AT_ONCE = 64  # sockets accepted in one pass of the loop: others want their turn
_PAUSE_S = 0.5
_SHORTAGE = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)

P = TypeVar("P", bound=asyncio.BaseProtocol)

# Make a connection for a peer's address; None: refused, and said why.
Welcome = Callable[[str], P | None]


@dataclass(slots=True, eq=False, repr=False)
class Acceptor(Generic[P]):
    """Event loop only. Made by `Server`; `failed` is called with a connection that never began."""

    welcome: Welcome[P]
    failed: Callable[[P], object]
    clock: Clock
    warn: logs.Limited
    name: str
    _sockets: list[socket.socket] = field(default_factory=list)
    _joining: set[asyncio.Task[None]] = field(default_factory=set)
    _pause: Timer | None = None

    def accept_on(self, listening: Listening) -> None:
        """Take connections from these sockets, which are the acceptor's to close from now on."""
        self._sockets += listening.sockets
        listening.listen()
        self._resume()

    def close(self) -> None:
        """Accept nothing more. What was accepted already becomes a connection: await `joined`."""
        if self._pause is not None:
            self._pause.cancel()
            self._pause = None
        self._stop_accepting()
        for each in self._sockets:
            each.close()
        self._sockets.clear()

    async def joined(self) -> None:
        """Wait until every accepted socket is a connection."""
        await asyncio.gather(*self._joining, return_exceptions=True)

    def _resume(self) -> None:
        self._pause = None
        loop = asyncio.get_running_loop()
        for each in self._sockets:
            loop.add_reader(each, self._accept, each)

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(_AT_ONCE):
            try:
                accepted, address = listening.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as fault:
                if fault.errno in _SHORTAGE:
                    self._pause_accepting(fault)
                    return
                continue  # this one left before we came to it
            self._begin(accepted, socket_address(address))

    def _begin(self, accepted: socket.socket, address: str) -> None:
        connection = self.welcome(address)
        if connection is None:
            accepted.close()
            return
        accepted.setblocking(False)
        task = asyncio.get_running_loop().create_task(self._join(accepted, connection))
        self._joining.add(task)
        task.add_done_callback(self._joining.discard)

    async def _join(self, accepted: socket.socket, connection: P) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(lambda: connection, accepted)
        except (OSError, MemoryError) as fault:
            accepted.close()
            self.failed(connection)
            self.warn.warning("an accepted connection cannot be served", listener=self.name, why=str(fault))

    def _pause_accepting(self, fault: OSError) -> None:
        """Leave who waits to be accepted in the system's queue for a moment."""
        self.warn.warning(
            "no connections are taken for a moment: the system has no descriptor or memory for one",
            listener=self.name,
            why=fault.strerror,
            pause_s=_PAUSE_S,
        )
        self._stop_accepting()
        if self._pause is None:
            self._pause = self.clock.call_later(_PAUSE_S, self._resume)

    def _stop_accepting(self) -> None:
        loop = asyncio.get_running_loop()
        for each in self._sockets:
            loop.remove_reader(each)
