"""What a session of HTTP/2 tells, and within which limits: shared by the native one and by its twin on `h2`.

`native/http2.pyx` (on nghttp2) and `transport/http2/session.py` make these events from the same bytes and end a
connection for the same reasons. A session is sans-IO: bytes in, events and bytes out; no clock, no sockets. It answers
by itself what needs no decision: SETTINGS, PING, windows, and messages beyond the limits.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


class ErrorCode:
    """Codes of RST_STREAM and GOAWAY (RFC 9113, 7) that sessions use themselves."""

    NO_ERROR = 0
    PROTOCOL_ERROR = 1
    INTERNAL_ERROR = 2
    FLOW_CONTROL_ERROR = 3
    REFUSED_STREAM = 7
    CANCEL = 8
    ENHANCE_YOUR_CALM = 11


class Http2Limits(NamedTuple):
    """Bounds of one connection. Beyond those marked (c) it is closed with GOAWAY, beyond (m) the call is answered
    RESOURCE_EXHAUSTED and reset, beyond (r) the call is refused."""

    streams: int = 1000  # (r) calls open at once: SETTINGS says so
    window: int = 1 << 20  # of each stream and of the connection
    header_bytes: int = 8192  # (c) of a call's header list: name + value + 32 each, as RFC 9113 counts
    message_bytes: int = 1 << 16  # (m) of a request message, where `large` does not name its method
    large: Mapping[str, int] = {}  # (m) by method
    pending_bytes: int = 132 << 20  # (m) of all unfinished messages of a connection together
    resets: int = 1000  # (c) calls that the peer reset beyond those that ended otherwise
    idle_frames: int = 10_000  # (c) frames that no call gains from (PING, SETTINGS, PRIORITY, empty DATA), in a row
    output_bytes: int = 64 << 20  # (c) waiting for the peer's windows


class Rest(Enum):
    """What is left to do for who makes sessions small that nobody uses, a few at a time."""

    ALL = "all of them rest"
    LATER = "some have been used a moment ago"
    MORE = "there are more that nobody uses"


class CallBegun(NamedTuple):
    stream: int
    headers: Mapping[str, str]  # pseudo-headers too; `-bin` ones in base64; repeated ones joined by `,`


class MessageArrived(NamedTuple):
    """A whole request message: without its five bytes of framing, gunzipped."""

    stream: int
    message: bytes


class HalfClosed(NamedTuple):
    """The client sends no more on this call."""

    stream: int


class CallReset(NamedTuple):
    """The call is over, no answer can be sent: reset by the peer, or answered by the session itself (NO_ERROR)."""

    stream: int
    code: int


class SessionClosed(NamedTuple):
    """The last event of a connection. Where the peer is at fault, `take_output` has the GOAWAY that says so."""

    reason: str


Event = CallBegun | MessageArrived | HalfClosed | CallReset | SessionClosed
