"""The listening sockets of one server: takes connections one by one, and asks before each becomes one.

The event loops' own servers take as many sockets as are waiting before anybody can count them; here the server decides
on each at once, so that the descriptors of files are never taken. A shortage that comes from elsewhere (the whole
machine's limit, say) makes a pause, not an end.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable
from functools import partial

from ... import logs
from ...ambient import Clock, Timer
from ..address import socket_address
from .connection import Connection

log = logs.get("pyromq.transport")

_BACKLOG = 1024
_AT_ONCE = 64  # sockets taken in one pass of the loop: others want their turn
_PAUSE_S = 0.5
_SHORTAGE = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)

# Make a connection for a peer's address; None: refused, and said why.
Welcome = Callable[[str], Connection | None]


class Acceptor:
    """Event loop only. Made by `Server`; `failed` is told of a connection that never began."""

    def __init__(
        self,
        welcome: Welcome,
        failed: Callable[[Connection], object],
        *,
        clock: Clock,
        warn: logs.Limited,
        name: str,
    ) -> None:
        self._welcome = welcome
        self._failed = failed
        self._clock = clock
        self._warn = warn
        self._name = name
        self._sockets: list[socket.socket] = []
        self._joining: set[asyncio.Task[None]] = set()
        self._pause: Timer | None = None

    async def open(self, host: str, port: int) -> str:
        """Listen on every address of the host; returns the first, with the port that was chosen if it was 0. OSError if
        that cannot be."""
        try:
            for family, kind, protocol, _, address in dict.fromkeys(await _addresses(host, port)):
                self._sockets.append(_listen(family, kind, protocol, address))
        except OSError:
            self.close()
            raise
        self._resume()
        return socket_address(self._sockets[0].getsockname())

    def close(self) -> None:
        """Take nothing more. What was taken already becomes a connection: await `joined`."""
        if self._pause is not None:
            self._pause.cancel()
            self._pause = None
        loop = asyncio.get_running_loop()
        for each in self._sockets:
            loop.remove_reader(each)
            each.close()
        self._sockets.clear()

    async def joined(self) -> None:
        """Every socket that was taken is a connection by now."""
        await asyncio.gather(*self._joining, return_exceptions=True)

    def _resume(self) -> None:
        self._pause = None
        loop = asyncio.get_running_loop()
        for each in self._sockets:
            loop.add_reader(each, self._take, each)

    def _take(self, listening: socket.socket) -> None:
        for _ in range(_AT_ONCE):
            try:
                accepted, address = listening.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as fault:
                if fault.errno in _SHORTAGE:
                    self._rest(fault)
                    return
                continue  # this one left before we came to it
            self._begin(accepted, socket_address(address))

    def _begin(self, accepted: socket.socket, address: str) -> None:
        connection = self._welcome(address)
        if connection is None:
            accepted.close()
            return
        accepted.setblocking(False)
        task = asyncio.get_running_loop().create_task(self._join(accepted, connection))
        self._joining.add(task)
        task.add_done_callback(self._joining.discard)

    async def _join(self, accepted: socket.socket, connection: Connection) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(lambda: connection, accepted)
        except (OSError, MemoryError) as fault:
            accepted.close()
            self._failed(connection)
            self._warn.warning("an accepted connection cannot be served", listener=self._name, why=str(fault))

    def _rest(self, fault: OSError) -> None:
        """Who waits to be accepted stays in the system's queue meanwhile."""
        self._warn.warning(
            "no connections are taken for a moment: the system has no descriptor or memory for one",
            listener=self._name,
            why=fault.strerror,
            pause_s=_PAUSE_S,
        )
        loop = asyncio.get_running_loop()
        for each in self._sockets:
            loop.remove_reader(each)
        if self._pause is None:
            self._pause = self._clock.call_later(_PAUSE_S, self._resume)


async def _addresses(host: str, port: int) -> list[tuple[int, int, int, str, tuple[object, ...]]]:
    """What a host stands for. Only a name takes a thread, which may wait for a server of names."""
    plain = partial(socket.getaddrinfo, host or None, port, type=socket.SOCK_STREAM)
    try:
        return list(plain(flags=socket.AI_PASSIVE | socket.AI_NUMERICHOST))
    except socket.gaierror:
        loop = asyncio.get_running_loop()
        return list(await loop.run_in_executor(None, partial(plain, flags=socket.AI_PASSIVE)))


def _listen(family: int, kind: int, protocol: int, address: tuple[object, ...]) -> socket.socket:
    made = socket.socket(family, kind, protocol)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind(address)
        made.setblocking(False)
        made.listen(_BACKLOG)
    except OSError:
        made.close()
        raise
    return made
