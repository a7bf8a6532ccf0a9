"""The client's side of one HTTP/2 connection, on h2. Sans-IO, as `session.py` is for the server.

session = ClientSession()
stream = session.request("/a.Service/Method", "host:8081", [("x-mq-client-id", "me")])
session.send(stream, message); session.half_close(stream)
write(session.take_output())
for event in session.receive(data): ...                   # MessageArrived, then AnswerEnded
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from h2 import events as h2_events
from h2.errors import ErrorCodes

from ...kernel.http2 import CallReset, ErrorCode, Event, Http2Limits
from ...model.wire_text import whole_number
from ...protocol.grpc.framing import MessageReader
from ...protocol.grpc.status import GrpcStatus, decode_text, status_of_http
from .header_fields import MalformedFields, read_response, read_trailers
from .streams import StreamSession, StreamState

ANSWER_BYTES = 130 << 20  # of a message, as servers take them
CLIENT_LIMITS = Http2Limits(message_bytes=ANSWER_BYTES, header_bytes=16_384)


class AnswerEnded(NamedTuple):
    """The last of a call: its status and text, and the trailers, those of gRPC too."""

    stream: int
    status: int
    text: str
    trailers: dict[str, str]


class GoingAway(NamedTuple):
    """The server takes no new calls on this connection; those that it began go on."""

    code: int
    reason: str


ClientEvent = Event | AnswerEnded | GoingAway


class _ClientStream(StreamState):
    __slots__ = ("headers", "trailers")

    def __init__(self, number: int, reader: MessageReader) -> None:
        super().__init__(number, reader)
        self.headers: dict[str, str] = {}
        self.trailers: dict[str, str] = {}


class ClientSession(StreamSession):
    """Event loop only."""

    def __init__(self, limits: Http2Limits = CLIENT_LIMITS) -> None:
        super().__init__(limits, is_client=True)
        self._is_leaving = False
        self._pings = 0  # sent and not answered
        self._handlers |= {
            h2_events.ResponseReceived: self._answer_began,
            h2_events.TrailersReceived: self._trailers_came,
            h2_events.ConnectionTerminated: self._server_leaves,
            h2_events.PingAckReceived: self._pong_came,
        }

    @property
    def can_begin(self) -> bool:
        """Whether the server takes one more call on this connection."""
        most = self._h2.remote_settings.max_concurrent_streams
        return not self._is_leaving and not self._is_closed and len(self._streams) < most

    @property
    def unanswered_pings(self) -> int:
        return self._pings

    def request(self, path: str, authority: str, metadata: Iterable[tuple[str, str]], scheme: str = "http") -> int:
        """Begin a call; return its stream. `can_begin` must hold."""
        number = self._h2.get_next_available_stream_id()
        fields = [
            (":method", "POST"), (":scheme", scheme), (":path", path), (":authority", authority), ("te", "trailers"),
            ("content-type", "application/grpc"), ("grpc-accept-encoding", "gzip,identity"), *metadata,
        ]  # fmt: skip
        self._h2.send_headers(number, fields)
        state = _ClientStream(number, MessageReader(self.limits.message_bytes))
        state.has_started = True
        self._streams[number] = state
        return number

    def half_close(self, stream: int) -> None:
        """Send no more on this call, behind what was sent."""
        state = self._streams.get(stream)
        if state is not None and not state.is_finishing and not state.has_ended:
            state.is_finishing = True
            if not state.out:
                self._h2.end_stream(stream)

    def ping(self) -> None:
        """Ask the server whether it is still there."""
        if not self._is_closed:
            self._pings += 1
            self._h2.ping(b"pyromq  ")

    def _start(self, state: StreamState) -> None:
        """Do nothing: a call begins with its headers."""

    def _end(self, state: StreamState) -> None:
        self._h2.end_stream(state.number)

    def _answer_began(self, event: h2_events.ResponseReceived) -> None:
        state = self._streams.get(event.stream_id)
        if not isinstance(state, _ClientStream):
            return
        try:
            state.headers = read_response(event.headers)
        except MalformedFields as fault:
            self._malformed(event.stream_id, fault)
            return
        encoding = state.headers.get("grpc-encoding", "identity")
        state.reader = MessageReader(self.limits.message_bytes, encoding, self.limits.message_bytes)

    def _trailers_came(self, event: h2_events.TrailersReceived) -> None:
        state = self._streams.get(event.stream_id)
        if not isinstance(state, _ClientStream):
            return
        try:
            state.trailers = read_trailers(event.headers)
        except MalformedFields as fault:
            self._malformed(event.stream_id, fault)

    def _half_closed(self, state: StreamState) -> None:
        assert isinstance(state, _ClientStream)
        status, text = _status(state.headers, state.trailers)
        self._report_end(state, status, text, state.trailers or state.headers)

    def _refuse(self, state: StreamState, status: int, text: str) -> None:
        self._report_end(state, status, text, {})

    def _report_end(self, state: StreamState, status: int, text: str, trailers: dict[str, str]) -> None:
        self._events.append(AnswerEnded(state.number, status, text, trailers))  # type: ignore[arg-type]
        state.has_ended = True
        if state.is_finishing and not state.out and state.peer_has_ended:
            self._drop(state)
        else:
            self._reset_stream(state, ErrorCode.CANCEL)

    def _server_leaves(self, event: h2_events.ConnectionTerminated) -> None:
        self._is_leaving = True
        last, code = event.last_stream_id or 0, event.error_code or ErrorCodes.NO_ERROR
        reason = (event.additional_data or b"").decode("utf-8", "replace")
        for state in [each for number, each in self._streams.items() if number > last]:
            state.has_ended = True
            self._drop(state)
            self._events.append(CallReset(state.number, ErrorCode.REFUSED_STREAM))  # the server never saw it
        self._events.append(GoingAway(code, reason))  # type: ignore[arg-type]

    def _pong_came(self, event: h2_events.PingAckReceived) -> None:
        self._pings = 0


def _status(headers: dict[str, str], trailers: dict[str, str]) -> tuple[int, str]:
    found = trailers if "grpc-status" in trailers else headers
    status = whole_number(found.get("grpc-status"), high=1 << 16)
    if status is not None:
        return status, decode_text(found.get("grpc-message", ""))
    http = whole_number(headers.get(":status"), high=999) or 0
    if http == 200:
        return GrpcStatus.UNKNOWN, "the answer has no gRPC status"
    return status_of_http(http), f"the server, or a proxy before it, answered with HTTP status {http}"
