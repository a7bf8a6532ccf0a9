"""Accepts connections and serves their requests.

    server = Server(Dispatcher(handlers), clock=clock)
    address = await server.start("127.0.0.1", 0)
    ...
    await server.stop(grace_s=5)

Whoever composes a daemon makes one per port. It knows nothing of single requests.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Callable, Iterator

from .. import logs
from ..ambient import Clock
from ..kernel.http2 import Http2Limits
from ..kernel.seam import Feed, feed_nothing
from ..machine.connection_quota import ConnectionQuota, ListenerQuota
from .address import host_of, socket_address
from .connection.buffered_bytes import BufferedBytes
from .connection.connection import Connection
from .connection.pending_replies import Passage, ReplyTimeout
from .connection.strangers import Strangers
from .dispatch import Handler
from .http2.calls import Methods, Screen
from .http2.connection import Http2Connection
from .http2.hot import HotCalls
from .http2.service import CallService
from .http2.sessions import NewSession, rest_of_sessions, session_maker
from .limits import Limits
from .listening import Acceptor, Listening, bind
from .peer import Peer
from .service import Service
from .sniff import Sniffer, Spoke, Spoken
from .tls import ServerTls, opening

log = logs.get("pyromq.transport")

_REMEDIES = {
    "open files": "raise ulimit -n (LimitNOFILE), or bound each host by maxConnectionsPerAddress",
    "memory": "give the process more, or bound each host by maxConnectionsPerAddress",
}


Served = Connection | Http2Connection | Sniffer


class Server:
    """One listener. Event loop only."""

    def __init__(
        self,
        dispatch: Handler,
        *,
        clock: Clock,
        limits: Limits | None = None,
        tls: ServerTls | None = None,
        feed: Feed = feed_nothing,
        on_close: Callable[[Peer], None] | None = None,
        quota: ConnectionQuota | None = None,
        buffered: BufferedBytes | None = None,
        strangers: Strangers | None = None,
        reply_timeout: ReplyTimeout | None = None,
        passage: Passage | None = None,
        methods: Methods | None = None,
        http2: Http2Limits | None = None,
        screen: Screen | None = None,
        proxy_preamble: bool = False,
        name: str = "main",
    ) -> None:
        """`on_close` is called once for each connection that ended; `name` stands in log lines and verdicts.

        `methods` serve gRPC calls of peers that speak HTTP/2, on the same port; `http2` bounds what these may cost.
        `proxy_preamble`: believe a PROXY preamble, which anybody can send, whom it names as the peer.

        `quota` and `buffered`: connections and bytes that this listener and others may have together; `strangers`
        counts those of all who have not shown who they are, where they are asked (`Limits.strangers`).
        `reply_timeout` bounds how long the kernel's replies wait for the log, `passage` judges those that need not
        wait. `service` has those that do.
        """
        self._clock = clock
        self._limits = limits or Limits()
        self.name = name
        self._on_close = on_close
        self._opening = opening(tls)
        self._quota: ListenerQuota | None = None if quota is None else quota.listener()
        if strangers is None and self._limits.strangers is not None:
            strangers = Strangers(self._limits.strangers, clock)
        self.strangers = strangers
        self._connections: dict[Served, str] = {}  # and their hosts; with those that were accepted a moment ago
        self._per_host: Counter[str] = Counter()
        self._is_stopping = False
        self.service = Service(
            dispatch,
            clock=clock,
            limits=self._limits,
            feed=feed,
            opened=self._admit,
            closed=self._forget,
            buffered=buffered,
            reply_timeout=reply_timeout,
            passage=passage,
        )
        self._proxy_preamble = proxy_preamble
        self.calls: CallService | None = None
        self._new_session: NewSession  # set with `calls`
        if methods is not None:
            self.serve_calls(methods, http2, screen)
        self._acceptor: Acceptor[Served] = Acceptor(
            self._welcome, self._drop_connection, clock, self.service.warn, name
        )

    def accept_on(self, listening: Listening) -> None:
        """Take connections from sockets that were bound before; `stop` closes them."""
        self._acceptor.accept_on(listening)

    async def start(self, host: str, port: int) -> str:
        """Bind and accept; return the address, with the port that was chosen if it was 0. ConfigError as of `bind`."""
        listening = await bind(host, port)
        self.accept_on(listening)
        return listening.address

    def attach(self, stream: asyncio.Transport) -> Peer:
        """Serve a stream that exists already, such as one end of `memory.pair`. It speaks remoting."""
        connection = self._connection()
        stream.set_protocol(connection)
        connection.connection_made(stream)
        return connection

    def attach_unknown(self, stream: asyncio.Transport) -> None:
        """Serve a stream that exists already, whatever its peer speaks, as if it were accepted."""
        protocol = self._welcome(socket_address(stream.get_extra_info("peername")))
        if protocol is None:
            stream.abort()
        else:
            stream.set_protocol(protocol)
            protocol.connection_made(stream)

    @property
    def connections(self) -> int:
        return len(self._connections)

    def peers(self) -> Iterator[Peer]:
        """Return the connections that are open and have asked for something."""
        return (
            connection
            for connection in tuple(self._connections)
            if isinstance(connection, Connection) and connection.is_open and connection.has_spoken
        )

    async def stop(self, grace_s: float) -> None:
        """Accept nothing more, finish what is in flight, write it out, close. After the grace it is all cut off."""
        self._is_stopping = True
        self._acceptor.close()
        await self._acceptor.joined()
        self.service.refuse_new()
        if self.calls is not None:
            self.calls.refuse_new()
        try:
            async with self._clock.timeout(grace_s):
                await self.service.until_quiet()
                if self.calls is not None:
                    await self.calls.until_quiet()
                    await self.calls.end_calls()
                for connection in tuple(self._connections):
                    connection.close("the server stops")
                await self._all_gone()
        except TimeoutError:
            log.warning("stopped before all requests were finished", listener=self.name, grace_s=grace_s)
        await self.service.cancel()
        if self.calls is not None:
            await self.calls.end_calls()
        for connection in tuple(self._connections):
            connection.abort("the server stops")
        await self._all_gone()

    def cut_all(self, reason: str) -> None:
        """Cut every connection now: nothing that waits for an answer gets one. New ones are accepted."""
        for connection in tuple(self._connections):
            connection.abort(reason)

    async def _all_gone(self) -> None:
        for connection in tuple(self._connections):
            await connection.gone()

    def _connection(self) -> Connection:
        return Connection(self.service, opening=self._opening, listener=self.name)

    # --- what a peer speaks ------------------------------------------------------------------------------------------

    def serve_hot(self, sends: object) -> None:
        """Have the kernel serve plain sends of gRPC clients, on connections from now on. `serve_calls` comes first."""
        if self.calls is not None:
            self.calls.hot = HotCalls(sends, self.name, self.service)

    def serve_calls(self, methods: Methods, http2: Http2Limits | None = None, screen: Screen | None = None) -> None:
        """Serve gRPC calls, too, of the connections from now on. `screen` judges those of strangers."""
        service, self._new_session = self.service, session_maker()
        self.calls = CallService(
            methods,
            clock=self._clock,
            limits=self._limits,
            http2=http2 or Http2Limits(),
            warn=service.warn,
            buffer=service.buffer,
            turn_buffer=service.turn_buffer,
            buffered=service.buffered,
            closed=self._drop_connection,
            rest=rest_of_sessions(),
            screen=screen,
        )

    def _sniffer(self) -> Sniffer:
        return Sniffer(
            self._opening,
            self._enter,
            self._drop_connection,
            clock=self._clock,
            within_s=self._limits.opening_s,
            buffer=self.service.turn_buffer,
            warn=self.service.warn,
            allow_preamble=self._proxy_preamble,
        )

    def _enter(self, sniffer: Sniffer, stream: asyncio.Transport, spoke: Spoke) -> None:
        """Hand a stream to the connection that serves what its peer speaks; it takes over the place."""
        connection: Connection | Http2Connection
        if spoke.spoken is Spoken.HTTP1 and self.calls is not None:
            sniffer.refuse_http1()
            return
        if spoke.spoken is Spoken.HTTP2 and self.calls is not None:
            connection = Http2Connection(self.calls, self._new_session, spoke.security, spoke.address)
        else:
            connection = Connection(self.service, security=spoke.security, listener=self.name, source=spoke.address)
        host = self._connections.pop(sniffer, None)
        if host is None:
            stream.abort()
            return
        self._connections[connection] = host
        if sniffer.stranger is not None:
            connection.meet(sniffer.stranger)
        stream.set_protocol(connection)
        connection.begin(stream, spoke.plain)

    # --- who may come in ---------------------------------------------------------------------------------------------

    def _welcome(self, address: str) -> Served | None:
        """Make a connection for a socket that was just accepted; None where there is no place for it."""
        is_sniffed = self.calls is not None or self._proxy_preamble
        connection: Served = self._sniffer() if is_sniffed else self._connection()
        return connection if self._seat(connection, address) else None

    def _admit(self, connection: Connection) -> bool:
        """Return whether to serve a connection whose stream is there. One that was attached had no place yet."""
        if self._is_stopping:
            return False
        return connection in self._connections or self._seat(connection, connection.address)

    def _seat(self, connection: Served, address: str) -> bool:
        limits, host = self._limits, sys.intern(host_of(address))
        if self._is_stopping:
            return False
        if limits.connections is not None and len(self._connections) >= limits.connections:
            self._refuse(address, "connections", limits.connections)
            return False
        if limits.connections_per_address is not None and self._per_host[host] >= limits.connections_per_address:
            self._refuse(address, "connections_per_address", limits.connections_per_address)
            return False
        if self.strangers is not None and (fault := self.strangers.beyond(host, self._most_strangers)) is not None:
            self.strangers.refused[fault[0]] += 1
            self._refuse(address, *fault, remedy="those who are in leave when they have shown who they are")
            return False
        if self._quota is not None and not self._quota.acquire():
            shared = self._quota.shared
            self._refuse(address, shared.limited_by, shared.total, remedy=_REMEDIES[shared.limited_by])
            return False
        self._connections[connection] = host
        self._per_host[host] += 1
        if self.strangers is not None:
            connection.meet(self.strangers.welcome(host))
        return True

    @property
    def _most_strangers(self) -> int | None:
        """Return how many of all connections may be strangers'; None: there is no limit of those."""
        total = None if self._quota is None else self._quota.shared.total
        limits = [each for each in (self._limits.connections, total) if each is not None]
        return max(1, min(limits) // 2) if limits else None

    def _refuse(self, address: str, limit: str, value: int, **more: object) -> None:
        self.service.warn.warning("connection refused", peer=address, limit=limit, value=value, **more)

    def _forget(self, connection: Connection) -> None:
        if self._drop_connection(connection) and self._on_close is not None:
            self._on_close(connection)

    def _drop_connection(self, connection: Served) -> bool:
        host = self._connections.pop(connection, None)
        if host is None:
            return False  # it was refused
        if connection.stranger is not None:
            connection.stranger.end()
        if self._quota is not None:
            self._quota.release()
        self._per_host[host] -= 1
        if not self._per_host[host]:
            del self._per_host[host]
        return True
