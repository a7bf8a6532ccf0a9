"""What server and client sessions share: messages in and out of many streams over one connection of h2. Sans-IO.

A session is one connection's: bytes in, events out; `take_output` has what to send. It answers by itself what needs no
decision, and keeps what the peer's windows do not allow to be sent yet.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from h2 import events as h2_events
from h2.exceptions import H2Error, ProtocolError, StreamClosedError
from hpack.exceptions import HPACKError
from hyperframe.exceptions import HyperframeError

from ...kernel.http2 import CallReset, ErrorCode, Event, Http2Limits, MessageArrived, SessionClosed
from ...protocol.grpc.framing import MessageReader, MessageRefused, frame_message
from ...protocol.grpc.status import GrpcStatus
from .frame_guard import FrameGuard, SessionFault
from .header_fields import MalformedFields
from .lenient import LenientConnection, goaway_frame


class StreamState:
    """One call on the wire."""

    __slots__ = (
        "has_ended", "has_started", "is_finishing", "kept", "number", "out", "peer_has_ended", "reader", "unsent",
    )  # fmt: skip

    def __init__(self, number: int, reader: MessageReader) -> None:
        self.number = number
        self.reader = reader
        self.kept = 0  # bytes of a message that is not whole yet
        self.out: deque[memoryview] = deque()  # waits for the peer's windows
        self.unsent = 0  # its bytes
        self.has_started = False  # our headers were sent
        self.is_finishing = False  # nothing more of ours comes behind `out`
        self.has_ended = False  # nothing more is told of it, or sent
        self.peer_has_ended = False


class StreamSession(ABC):
    """Event loop only. `ServerSession` and `ClientSession` say what headers mean and how a stream ends."""

    def __init__(self, limits: Http2Limits, is_client: bool) -> None:
        self.limits = limits
        self._h2 = LenientConnection(limits, is_client)
        self._guard = FrameGuard(limits, is_server=not is_client)
        self._streams: dict[int, StreamState] = {}
        self._blocked: dict[int, StreamState] = {}  # with something in `out`
        self._made: list[bytes] = [self._h2.preface]
        self._events: list[Event] = []
        self._is_closed = False
        self.pending_bytes = 0  # of messages that are not whole yet
        self.unsent_bytes = 0  # waiting for the peer's windows
        self._handlers: dict[type[h2_events.Event], Callable[..., None]] = {
            h2_events.DataReceived: self._data_came,
            h2_events.StreamEnded: self._peer_ended,
            h2_events.StreamReset: self._peer_reset,
            h2_events.WindowUpdated: self._windows_grew,
            h2_events.RemoteSettingsChanged: self._windows_grew,
        }

    @property
    def is_closed(self) -> bool:
        """Whether the connection has come to its end; the last event says why."""
        return self._is_closed

    @property
    def open_calls(self) -> int:
        """How many calls are open."""
        return len(self._streams)

    # --- what comes --------------------------------------------------------------------------------------------------

    def receive(self, data: bytes | memoryview) -> list[Event]:
        """Take bytes of the peer; return what they mean, in order."""
        if self._is_closed:
            return self._take_events()
        try:
            self._guard.receive(data)
            handlers = self._handlers
            for event in self._h2.receive_data(data):
                handler = handlers.get(type(event))
                if handler is not None:
                    handler(event)
        except SessionFault as fault:
            self._fail(fault.code, fault.reason)
        except ProtocolError as fault:
            self._fail(fault.error_code.value, str(fault) or type(fault).__name__)
        except (H2Error, HyperframeError, HPACKError) as fault:
            self._fail(ErrorCode.PROTOCOL_ERROR, str(fault) or type(fault).__name__)
        return self._take_events()

    def _take_events(self) -> list[Event]:
        told, self._events = self._events, []
        return told

    def _fail(self, code: int, reason: str) -> None:
        """End the connection: nothing more can be read, and the peer is told why."""
        if self._is_closed:
            return
        self._is_closed = True
        self._streams.clear()
        self._blocked.clear()
        self.pending_bytes = self.unsent_bytes = 0
        self._made += (self._h2.data_to_send(), goaway_frame(self._h2.highest_inbound_stream_id, code, reason))
        self._events.append(SessionClosed(reason))

    def _data_came(self, event: h2_events.DataReceived) -> None:
        number, data = event.stream_id, event.data
        if event.flow_controlled_length:
            self._h2.acknowledge_received_data(event.flow_controlled_length, number)
        state = self._streams.get(number)
        if state is None or state.has_ended or not data:
            return
        try:
            for message in state.reader.receive(data):
                self._events.append(MessageArrived(number, message))
        except MessageRefused as refusal:
            self._refuse(state, refusal.status, str(refusal))
            return
        kept = state.reader.kept_bytes
        if kept != state.kept:
            self.pending_bytes += kept - state.kept
            state.kept = kept
            if self.pending_bytes > self.limits.pending_bytes:
                most = self.limits.pending_bytes
                text = f"more than {most} bytes of unfinished messages on one connection"
                self._refuse(state, GrpcStatus.RESOURCE_EXHAUSTED, text)

    def _peer_ended(self, event: h2_events.StreamEnded) -> None:
        state = self._streams.get(event.stream_id)
        if state is None:
            return
        state.peer_has_ended = True
        if state.has_ended:
            self._drop(state)
            return
        try:
            state.reader.check_end()
        except MessageRefused as refusal:
            self._refuse(state, refusal.status, str(refusal))
        else:
            self._half_closed(state)

    def _peer_reset(self, event: h2_events.StreamReset) -> None:
        state = self._streams.get(event.stream_id)
        self._guard.call_ended()
        if state is None:
            return
        self._drop(state)
        if not state.has_ended:
            state.has_ended = True
            self._events.append(CallReset(state.number, event.error_code or 0))

    def _windows_grew(self, event: object) -> None:
        """Send what waited, a piece of each stream in turn."""
        waiting = deque(self._blocked.values())
        while waiting and self._h2.outbound_flow_control_window > 0:
            state = waiting.popleft()
            if not state.has_ended and self._write_piece(state):
                waiting.append(state)

    def _malformed(self, number: int, fault: MalformedFields) -> None:
        """Reset a stream whose fields may not be sent; who has a call on it is told."""
        self._h2.reset_stream(number, ErrorCode.PROTOCOL_ERROR)
        state = self._streams.get(number)
        if state is not None:
            self._drop(state)
            if not state.has_ended:
                state.has_ended = True
                self._events.append(CallReset(number, ErrorCode.PROTOCOL_ERROR))

    # --- what leaves -------------------------------------------------------------------------------------------------

    def send(self, stream: int, message: bytes) -> None:
        """Send a message, or keep it until the peer's windows allow it. Nothing happens where the call is over."""
        state = self._streams.get(stream)
        if state is None or state.is_finishing or state.has_ended:
            return
        if not state.has_started:
            self._start(state)
        framed = frame_message(message)
        size = len(framed)
        if not state.out and size <= self._h2.max_outbound_frame_size <= self._window(stream):
            self._h2.send_data(stream, framed)  # nearly always
            self._guard.idle = 0
            return
        state.out.append(memoryview(framed))
        state.unsent += size
        self.unsent_bytes += size
        self._blocked[stream] = state
        while self._write_piece(state):
            pass
        if self.unsent_bytes > self.limits.output_bytes:
            most = self.limits.output_bytes
            self._fail(ErrorCode.ENHANCE_YOUR_CALM, f"more than {most} bytes wait for the peer's windows")

    def reset(self, stream: int, code: int) -> None:
        """Give a call up at once; nothing more is told of it."""
        state = self._streams.get(stream)
        if state is not None and not self._is_closed:
            state.has_ended = True
            self._reset_stream(state, code)

    def unsent(self, stream: int) -> int:
        """Return how many bytes of its messages wait for the peer's windows."""
        state = self._streams.get(stream)
        return 0 if state is None else state.unsent

    def take_output(self) -> bytes:
        """Return all bytes that may be sent now."""
        if not self._made:
            return self._h2.data_to_send()
        self._made.append(self._h2.data_to_send())
        made, self._made = b"".join(self._made), []
        return made

    def _window(self, stream: int) -> int:
        return self._h2.local_flow_control_window(stream)

    def _write_piece(self, state: StreamState) -> bool:
        """Send one frame of what waits; return whether more may follow at once."""
        if not state.out:
            return False
        most = min(self._window(state.number), self._h2.max_outbound_frame_size)
        if most <= 0:
            return False
        piece = state.out[0]
        if len(piece) <= most:
            state.out.popleft()
        else:
            state.out[0], piece = piece[most:], piece[:most]
        self._h2.send_data(state.number, piece)
        state.unsent -= len(piece)
        self.unsent_bytes -= len(piece)
        self._guard.idle = 0
        if state.out:
            return True
        del self._blocked[state.number]
        if state.is_finishing:
            self._end(state)
        return False

    def _reset_stream(self, state: StreamState, code: int) -> None:
        with suppress(StreamClosedError):  # it may have come to its end already
            self._h2.reset_stream(state.number, code)
        self._drop(state)

    def _drop(self, state: StreamState) -> None:
        """Forget a stream that is over on both sides."""
        if self._streams.pop(state.number, None) is not None:
            self._guard.call_ended()
            self._discard(state)

    def _discard(self, state: StreamState) -> None:
        """Let go of what is kept for a stream, in and out."""
        self._blocked.pop(state.number, None)
        state.out.clear()
        self.unsent_bytes -= state.unsent
        self.pending_bytes -= state.kept
        state.unsent = state.kept = 0

    # --- what each side does in its own way --------------------------------------------------------------------------

    @abstractmethod
    def _start(self, state: StreamState) -> None:
        """Send our headers, where they were not sent yet."""

    @abstractmethod
    def _end(self, state: StreamState) -> None:
        """Send what ends our side of the stream."""

    @abstractmethod
    def _half_closed(self, state: StreamState) -> None:
        """Tell that the peer has ended its side."""

    @abstractmethod
    def _refuse(self, state: StreamState, status: int, text: str) -> None:
        """End a call because of a message that cannot be taken."""
