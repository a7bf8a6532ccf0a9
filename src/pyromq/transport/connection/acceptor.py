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

from ... import logs
from ...ambient import Clock, Timer
from ..address import socket_address
from ..listening import Listening
from .connection import Connection

log = logs.get("pyromq.transport")

_AT_ONCE = 64  # sockets accepted in one pass of the loop: others want their turn
_PAUSE_S = 0.5
_SHORTAGE = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)

# Make a connection for a peer's address; None: refused, and said why.
Welcome = Callable[[str], Connection | None]


class Acceptor:
    """Event loop only. Made by `Server`; `failed` is called with a connection that never began."""

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
        loop = asyncio.get_running_loop()
        for each in self._sockets:
            loop.remove_reader(each)
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

    def _pause_accepting(self, fault: OSError) -> None:
        """Leave who waits to be accepted in the system's queue for a moment."""
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
