"""The server's side of one HTTP/2 connection: the twin, on h2, of `kernel/native/http2.pyx`. Sans-IO.

session = ServerSession(limits)
for event in session.receive(data): ...
session.send(stream, message); session.finish(stream, 0)
write(session.take_output())
"""

from __future__ import annotations

from h2 import events as h2_events

from ...kernel.http2 import CallBegun, CallReset, ErrorCode, HalfClosed, Http2Limits
from ...protocol.grpc.framing import MessageReader
from ...protocol.grpc.status import encode_text
from .header_fields import MalformedFields, read_request, read_trailers
from .lenient import goaway_frame
from .streams import StreamSession, StreamState

_STARTED = [
    (b":status", b"200"),
    (b"content-type", b"application/grpc"),
    (b"grpc-encoding", b"identity"),
    (b"grpc-accept-encoding", b"gzip"),
]
_ENDED_AT_ONCE = _STARTED[:2]
_OK = [(b"grpc-status", b"0")]


class ServerSession(StreamSession):
    """Event loop only."""

    def __init__(self, limits: Http2Limits | None = None) -> None:
        super().__init__(limits or Http2Limits(), is_client=False)
        self._last_stream: int | None = None  # after a GOAWAY: calls behind it are refused
        self._endings: dict[int, tuple[int, str]] = {}  # of calls with messages that still wait for a window
        self._handlers[h2_events.RequestReceived] = self._call_began
        self._handlers[h2_events.TrailersReceived] = self._trailers_came

    def start(self, stream: int) -> None:
        """Send the headers of an answer; messages follow."""
        state = self._streams.get(stream)
        if state is not None and not state.has_started and not state.has_ended:
            self._start(state)

    def finish(self, stream: int, status: int, text: str = "") -> None:
        """End a call with this status, behind all of its messages."""
        state = self._streams.get(stream)
        if state is None or state.is_finishing or state.has_ended:
            return
        state.is_finishing = True
        if state.out:
            self._endings[stream] = (status, text)
        else:
            self._send_status(state, status, text)

    def goaway(self) -> None:
        """Say that no new calls are taken; those that are open go on."""
        if self._last_stream is None and not self._is_closed:
            self._last_stream = self._h2.highest_inbound_stream_id
            self._made += (
                self._h2.data_to_send(),
                goaway_frame(self._last_stream, ErrorCode.NO_ERROR, ""),
            )

    def _call_began(self, event: h2_events.RequestReceived) -> None:
        number, limits = event.stream_id, self.limits
        if len(self._streams) >= limits.streams or self._last_stream is not None:
            self._h2.reset_stream(number, ErrorCode.REFUSED_STREAM)
            return
        try:
            headers = read_request(event.headers)  # pairs of bytes: as configured
        except MalformedFields as fault:
            self._malformed(number, fault)
            return
        most = limits.large.get(headers[":path"], limits.message_bytes)
        self._streams[number] = StreamState(number, MessageReader(most, headers.get("grpc-encoding", "identity")))
        self._events.append(CallBegun(number, headers))

    def _trailers_came(self, event: h2_events.TrailersReceived) -> None:
        try:
            read_trailers(event.headers)  # they say nothing to gRPC
        except MalformedFields as fault:
            self._malformed(event.stream_id, fault)

    def _start(self, state: StreamState) -> None:
        state.has_started = True
        self._h2.send_headers(state.number, _STARTED)

    def _end(self, state: StreamState) -> None:
        self._send_status(state, *self._endings.pop(state.number))

    def _send_status(self, state: StreamState, status: int, text: str) -> None:
        fields = [(b"grpc-status", b"%d" % status)] if status else _OK
        if text:
            fields = [*fields, (b"grpc-message", encode_text(text).encode("ascii"))]
        if not state.has_started:
            fields = _ENDED_AT_ONCE + fields
        self._h2.send_headers(state.number, fields, end_stream=True)
        state.has_started = state.has_ended = True
        if state.peer_has_ended:
            self._drop(state)
        else:
            self._reset_stream(state, ErrorCode.NO_ERROR)  # nobody reads what it would still send

    def _half_closed(self, state: StreamState) -> None:
        self._events.append(HalfClosed(state.number))

    def _refuse(self, state: StreamState, status: int, text: str) -> None:
        """Answer a call that cannot go on, and tell that it is over."""
        self._discard(state)
        if not state.has_ended:
            self._send_status(state, status, text)
        self._events.append(CallReset(state.number, ErrorCode.NO_ERROR))
