"""Sends batches to the queues of brokers over blocking connections, and waits for every answer.

Queues are served side by side, each with one request under way, so that what goes to one queue stays in order whatever
fails. A broker that is away is looked for again and asked again with the same request until the time is over.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import blake2b

from ... import logs
from ...ambient import Clock, SystemClock, pause
from ...client.core.routing import Route
from ...client.errors import Error, NoNameServer, refused
from ...client.produce.outgoing import Outgoing, SendHeaders
from ...client.produce.sending import SendStatus
from ...errors import CallFailed, PyroError
from ...model.codes import ResponseCode
from ...model.message import Property
from ...protocol.bodies.keyed import MessageQueue
from ...protocol.command import Command
from ...protocol.headers.send import LONG_NAMES
from ...protocol.requests import RequestCode
from ..connect.cluster import Cluster
from ..connect.connection import BlockingConnection
from ..options import WriteOptions

log = logs.get("pyromq.spark")

_PAUSE_S = 0.25
_BUSY = (ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE)
_STORED = {status.value for status in SendStatus}
_FLAG, _PROPERTIES = LONG_NAMES["flag"], LONG_NAMES["properties"]
_WINDOW = b"duplicateWindowEnable=true"


@dataclass(slots=True, eq=False, repr=False)
class SendRequest:
    """One send to one queue. `body` is a view of many requests' bytes."""

    queue: MessageQueue
    outgoing: Outgoing
    body: memoryview
    rows: int
    origin: str  # from whom it is, and which of his requests
    flag: int = 0  # of a single message; those of a batch have their own
    deadline: float = 0.0


@dataclass(frozen=True, slots=True)
class SendTotals:
    rows: int = 0
    bytes: int = 0
    unsafe: int = 0  # requests that were stored, but not flushed or copied in time
    repeatable: frozenset[str] = frozenset()  # brokers without a duplicate window, which would store a repeat again

    def __add__(self, other: SendTotals) -> SendTotals:
        repeatable = self.repeatable | other.repeatable
        return SendTotals(self.rows + other.rows, self.bytes + other.bytes, self.unsafe + other.unsafe, repeatable)

    @property
    def promise(self) -> str:
        """Say in words how often each row is stored."""
        if self.repeatable:
            return f"at least once (no duplicate window: {', '.join(sorted(self.repeatable))})"
        return "once, also if repeated"


@dataclass(slots=True, eq=False, repr=False)
class _BrokerConnection:
    """The connection to one broker's master, and what is under way on it."""

    connection: BlockingConnection
    has_window: bool
    waiting: dict[int, SendRequest] = field(default_factory=dict)


@dataclass(eq=False, repr=False)
class BatchSender:
    """One thread. `put` requests, then `finish`; `close` in any case."""

    options: WriteOptions
    clock: Clock = field(default_factory=SystemClock)
    pause: Callable[[float], None] = pause
    connect: Callable[[str, WriteOptions], BlockingConnection] = BlockingConnection

    def __post_init__(self) -> None:
        self._cluster = Cluster(self.options)
        self._headers = SendHeaders(self.options.producer_group)
        self._routes: dict[str, Route] = {}  # as first seen: rows keep the queue that was chosen for them
        self._masters: dict[str, str] = {}  # where brokers are by now
        self._connections: dict[str, _BrokerConnection] = {}
        self._free_at = 0.0  # when the rate allows the next request
        self.sent = SendTotals()

    def route(self, topic: str) -> Route:
        """Return the topic's route. While no name server answers they are asked again, until the time is over."""
        deadline = self.clock.monotonic() + self.options.send_timeout_ms / 1000
        while topic not in self._routes:
            try:
                self._routes[topic] = self._cluster.route_to_write(topic, make=True)
            except NoNameServer as away:
                if away.is_explained or self.clock.monotonic() >= deadline:
                    raise
                self.pause(_PAUSE_S)
        return self._routes[topic]

    def put(self, request: SendRequest) -> None:
        """Send, once no earlier request to the same queue is under way and the rate allows it."""
        self._keep_rate(request.rows)
        request.deadline = self.clock.monotonic() + self.options.send_timeout_ms / 1000
        name = request.queue.broker_name
        while any(other.queue == request.queue for other in self._waiting(name)):
            self._receive(name)
        self._send(name, [request])

    def finish(self) -> SendTotals:
        for name in list(self._connections):
            while self._waiting(name):
                self._receive(name)
        return self.sent

    def close(self) -> None:
        for broker in self._connections.values():
            broker.connection.close()
        self._cluster.close()

    def _keep_rate(self, rows: int) -> None:
        if self.options.max_rate is None:
            return
        now = self.clock.monotonic()
        begin = max(now, self._free_at)
        self._free_at = begin + rows / self.options.max_rate
        if begin > now:
            self.pause(begin - now)

    # --- one broker -----------------------------------------------------------------------------------------------

    def _waiting(self, name: str) -> list[SendRequest]:
        return list(self._connections[name].waiting.values()) if name in self._connections else []

    def _send(self, name: str, requests: list[SendRequest]) -> None:
        """Send the requests; if the connection breaks, send again all that was under way there, too."""
        while requests:
            try:
                broker = self._connection(name, requests[0].queue.topic)
                for request in tuple(requests):
                    broker.waiting[self._send_on(broker, request)] = request
                    requests.remove(request)
            except (CallFailed, Error) as fault:
                self._check_time(requests[0], str(fault))
                requests = self._broken(name, fault) + requests

    def _send_on(self, broker: _BrokerConnection, request: SendRequest) -> int:
        fields = self._headers.fields(request.outgoing, request.queue, self.clock.now_ms())
        fields[_FLAG] = str(request.flag)
        if broker.has_window:
            fields[_PROPERTIES] += f"{Property.SEND_ID}\x01{identity_of(request)}/0/0\x02"
        command = Command(code=request.outgoing.code, fields=fields)
        return broker.connection.send(command, request.body)

    def _receive(self, name: str) -> None:
        broker = self._connections[name]
        try:
            answer = broker.connection.receive()
        except CallFailed as fault:
            self._send(name, self._broken(name, fault))
            return
        request = broker.waiting.pop(answer.opaque, None)
        if request is None:
            return
        if answer.code in _BUSY:
            self._check_time(request, f"{broker.connection.address} is busy: {answer.remark}")
            self.pause(_PAUSE_S)
            self._send(name, [request])
        elif answer.code in _STORED:
            repeatable = frozenset() if broker.has_window else frozenset((name,))
            unsafe = int(answer.code != ResponseCode.SUCCESS)
            self.sent += SendTotals(request.rows, len(request.body), unsafe, repeatable)
        else:
            raise refused(answer.code, answer.remark, broker.connection.address)

    # --- connections ----------------------------------------------------------------------------------------------

    def _connection(self, name: str, topic: str) -> _BrokerConnection:
        if name not in self._connections:
            address = self._masters.get(name) or self.route(topic).master(name)
            if address is None:
                raise Error(f"broker {name!r} of topic {topic!r} is not there")
            connection = self.connect(address, self.options)
            try:
                self._connections[name] = _BrokerConnection(connection, self._window_of(connection))
            except BaseException:
                connection.close()
                raise
        return self._connections[name]

    def _window_of(self, connection: BlockingConnection) -> bool:
        """Return whether this broker drops repeats. Others, Apache's too, would keep the property they do not know."""
        if self.options.once == "off":
            return False
        answer = connection.call(Command(code=RequestCode.GET_BROKER_CONFIG))
        has_window = answer.code == ResponseCode.SUCCESS and _WINDOW in bytes(answer.body).splitlines()
        if not has_window and self.options.once == "required":
            raise PyroError(
                f"sendOnce = 'required': {connection.address} has no duplicate window; set duplicateWindowEnable=true "
                "there, or write at least once with sendOnce=auto"
            )
        return has_window

    def _broken(self, name: str, fault: PyroError) -> list[SendRequest]:
        """Close the connection and return what was under way on it. PyroError if the time of one is over."""
        broker = self._connections.pop(name, None)
        unanswered = [] if broker is None else list(broker.waiting.values())
        if broker is not None:
            broker.connection.close()
        for request in unanswered:
            self._check_time(request, str(fault))
        self.pause(_PAUSE_S)
        for topic in self._routes:
            try:
                route = self._cluster.route(topic)
            except Error as missing:
                log.debug("no route for now", topic=topic, fault=str(missing))
            else:
                found = {name: route.master(name) for name in route.addresses}
                self._masters |= {name: address for name, address in found.items() if address is not None}
        return unanswered

    def _check_time(self, request: SendRequest, why: str) -> None:
        if self.clock.monotonic() >= request.deadline:
            queue = request.queue
            raise PyroError(
                f"{request.rows} messages to {queue.topic}/{queue.broker_name}/{queue.queue_id} were not stored "
                f"within sendTimeoutMs = {self.options.send_timeout_ms}: {why}"
            )


def identity_of(request: SendRequest) -> str:
    """Return a producer's name for the duplicate window: of origin and content, so rows in another order are stored."""
    digest = blake2b(request.origin.encode(), digest_size=20)
    if request.outgoing.code != RequestCode.SEND_BATCH_MESSAGE:  # entries of a batch hold their properties
        digest.update(request.outgoing.properties.encode())
    digest.update(request.body)
    return f"spark:{digest.hexdigest()}"
