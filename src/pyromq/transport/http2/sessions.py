"""What a connection asks of its session of HTTP/2, and which sessions serve: on nghttp2 in the kernel, or the twin."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, cast

from ...kernel.choice import native_http2
from ...kernel.http2 import Event, Http2Limits, Rest


class Http2Session(Protocol):
    """Sans-IO, one connection, server side. See `kernel/http2.py`."""

    @property
    def is_closed(self) -> bool: ...

    @property
    def pending_bytes(self) -> int:
        """Return what it keeps of messages that are not whole yet."""

    @property
    def unsent_bytes(self) -> int:
        """Return what waits for the peer's windows."""

    def receive(self, data: bytes | memoryview) -> Sequence[Event]: ...

    def start(self, stream: int) -> None: ...

    def send(self, stream: int, message: bytes) -> None: ...

    def finish(self, stream: int, status: int, text: str = "") -> None: ...

    def reset(self, stream: int, code: int) -> None: ...

    def unsent(self, stream: int) -> int: ...

    def goaway(self) -> None: ...

    def take_output(self) -> bytes: ...


# Makes sessions small that nobody has used since it looked at all of them before, some at a time.
RestUnused = Callable[[], Rest]

NewSession = Callable[[Http2Limits], Http2Session]


def session_maker() -> NewSession:
    """Return what makes sessions of the kernel that serves. `h2` is loaded where it is needed alone."""
    native = native_http2()
    if native is not None:
        return cast(NewSession, native.Http2Session)
    from .session import ServerSession

    return ServerSession


def rest_of_sessions() -> RestUnused | None:
    """Return what makes idle sessions small, where the kernel's serve."""
    native = native_http2()
    return None if native is None else cast(RestUnused, native.rest_unused)
