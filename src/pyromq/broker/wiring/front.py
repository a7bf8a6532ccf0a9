"""The listeners: the main port and the fast one, the dispatcher of each, and the kernel that takes what is plain."""

from __future__ import annotations

from collections.abc import Callable

from ...errors import RequestRefused
from ...model.codes import ResponseCode
from ...protocol.row import RequestClass
from ...store.config import FlushMode
from ...store.message_store import MessageStore
from ...transport.address import parse_address
from ...transport.connection.buffered_bytes import BufferedBytes
from ...transport.dispatch import Answer, Dispatcher, Handler, Request
from ...transport.limits import Limits
from ...transport.peer import Peer
from ...transport.server import Server
from ...transport.settings import TransportSettings
from ..pull.pull_verdicts import Pulling, PullVerdicts
from ..send.send_verdicts import Sending, Verdicts, native_verdicts, patience
from ..surface import on_fast_port
from .ground import Ground

Around = Callable[[Handler], Handler]


class Front:
    """Event loop only. Connections are taken from `listen` on; requests are refused until `serve`."""

    def __init__(
        self,
        ground: Ground,
        transport: TransportSettings,
        around: Around | None,
        on_close: Callable[[Peer], None],
    ) -> None:
        """`around`: faults that a test wants."""
        self._ground = ground
        self._transport = transport
        self._around = around
        self._on_close = on_close
        self.dispatchers: dict[str, Dispatcher] = {}
        self.verdicts: list[Verdicts] = []
        self.pull_verdicts: list[PullVerdicts] = []
        held = BufferedBytes(self.limits.held_bytes)
        self.servers = [self._server(name, held) for name in ("main", "fast")]

    @property
    def limits(self) -> Limits:
        return self._transport.limits(self._ground.budget.memory_bytes)

    def _server(self, name: str, held: BufferedBytes) -> Server:
        return Server(
            self._served(name),
            clock=self._ground.clock,
            limits=self.limits,
            tls=self._transport.server_tls(),
            on_close=self._on_close,
            seats=self._ground.budget.seats,
            buffered=held,
            name=name,
        )

    def _served(self, listener: str) -> Handler:
        def serve(request: Request) -> Answer:
            dispatcher = self.dispatchers.get(listener)
            if dispatcher is None:
                raise RequestRefused("this broker is starting: try again", ResponseCode.SERVICE_NOT_AVAILABLE)
            return dispatcher(request)

        return serve if self._around is None else self._around(serve)

    async def listen(self) -> int:
        """The port of the main listener."""
        config = self._ground.config
        host = config.bind_address.strip("[]")
        port = parse_address(await self.servers[0].start(host, config.listen_port))[1]
        await self.servers[1].start(host, config.fast_port)
        return port

    def serve(self, handlers: dict[int, Handler]) -> None:
        self.dispatchers["main"] = Dispatcher(handlers)
        self.dispatchers["fast"] = Dispatcher(on_fast_port(handlers))

    def feed_kernel(self, sending: Sending, pulling: Pulling, store: MessageStore) -> None:
        """A native kernel takes plain sends and pulls where nobody has to show who he is, and no test stands in the
        way."""
        if self._around is not None:
            return
        for server in self.servers:
            verdicts = native_verdicts(sending) if self.dispatchers[server.name].allows_all else None
            if verdicts is not None:
                self.verdicts.append(verdicts)
                pulls = PullVerdicts(pulling, verdicts.module, verdicts.feed)
                self.pull_verdicts.append(pulls)
                server.use_feed(pulls.feed)
                if self._ground.config.flush_mode is FlushMode.SYNC:
                    store.readable.on_advance(server.release)
                    store.readable.on_failure(server.abort_pending_replies)
                    server.set_reply_timeout(patience(self._ground.live))

    def forget_unused_verdicts(self) -> None:
        for one in self.pull_verdicts:
            one.forget_unused()

    def waiting(self, kind: RequestClass) -> int:
        """Requests of a class that wait to be served."""
        return sum(server.waiting(kind) for server in self.servers)

    def parked_answers(self) -> int:
        """Answers of a kernel that wait for a sync."""
        return sum(server.pending_replies for server in self.servers)
