"""gRPC's own status: the number and text in the trailers of a call. RocketMQ's codes are `v2.Code`, inside messages."""

from __future__ import annotations

from enum import IntEnum
from urllib.parse import quote, unquote


class GrpcStatus(IntEnum):
    """`grpc-status`."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


_PLAIN = "".join(chr(code) for code in range(0x20, 0x7F) if chr(code) != "%")
_MOST_TEXT = 1024  # characters: a text comes back in a header, and the peer's list of headers has a limit


def encode_text(text: str) -> str:
    """Return a text as it stands in `grpc-message`: printable ASCII, the rest percent-encoded, cut where it is long."""
    return quote(text[:_MOST_TEXT], safe=_PLAIN, errors="replace")


def decode_text(text: str) -> str:
    """Return what `grpc-message` says; what is no UTF-8 becomes replacement characters."""
    return unquote(text, errors="replace")


# What an HTTP status without gRPC's own means, by the gRPC specification; all others are UNKNOWN.
_BY_HTTP = {
    400: GrpcStatus.INTERNAL,
    401: GrpcStatus.UNAUTHENTICATED,
    403: GrpcStatus.PERMISSION_DENIED,
    404: GrpcStatus.UNIMPLEMENTED,
    429: GrpcStatus.UNAVAILABLE,
    502: GrpcStatus.UNAVAILABLE,
    503: GrpcStatus.UNAVAILABLE,
    504: GrpcStatus.UNAVAILABLE,
}


def status_of_http(code: int) -> GrpcStatus:
    """Return the status of an answer that is no gRPC answer: a proxy's on the way, or another server's."""
    return _BY_HTTP.get(code, GrpcStatus.UNKNOWN)
