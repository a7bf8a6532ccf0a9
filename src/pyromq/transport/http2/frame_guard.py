"""Looks at the head of each frame before anything of it is kept: sizes, and frames that cost us and serve nobody.

h2 keeps a frame of 16 MB until its end before it says that 16 KB are allowed, and counts neither empty frames nor
resets of streams that it has forgotten. Sans-IO; each side of a connection has one for what it receives.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...kernel.http2 import PREFACE, ErrorCode, Http2Limits

_HEAD_BYTES = 9
_DATA, _HEADERS, _RST_STREAM, _CONTINUATION = 0, 1, 3, 9
_END_HEADERS = 4
_FRAME_BYTES = 16_384  # SETTINGS_MAX_FRAME_SIZE: nobody is told of another
_FRAME_SIZE_ERROR = 6


class SessionFault(Exception):
    """The peer broke the protocol or asks for too much: the connection ends with this code and reason."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


class FrameGuard:
    """Counts frames of one peer. `resets` is twice the calls that it reset beyond those that ended otherwise."""

    __slots__ = ("_block", "_head", "_limits", "_skip", "idle", "resets")

    def __init__(self, limits: Http2Limits, is_server: bool) -> None:
        self._limits = limits
        self._skip = len(PREFACE) if is_server else 0  # bytes until the next frame's head
        self._head = b""  # the begin of one that is not whole yet
        self._block = 0  # bytes of the header block so far
        self.idle = 0
        self.resets = 0

    def receive(self, data: bytes | memoryview) -> None:
        """Look at bytes that came. SessionFault if a frame among them is one too many or too large."""
        at, end = self._skip, len(data)
        if self._head:
            missing = _HEAD_BYTES - len(self._head)
            self._head += bytes(data[:missing])
            if len(self._head) < _HEAD_BYTES:
                return
            at = missing + self._frame(self._head, 0)
            self._head = b""
        while at + _HEAD_BYTES <= end:
            at += _HEAD_BYTES + self._frame(data, at)
        if at < end:
            self._head = bytes(data[at:])
            at = end
        self._skip = at - end

    def _frame(self, data: bytes | memoryview, at: int) -> int:
        """Count a frame by its head; return the length of what follows."""
        length, kind = data[at] << 16 | data[at + 1] << 8 | data[at + 2], data[at + 3]
        if length > _FRAME_BYTES:
            raise SessionFault(_FRAME_SIZE_ERROR, f"a frame of {length} bytes, the limit is {_FRAME_BYTES}")
        if kind == _HEADERS or (kind == _DATA and length):
            self.idle = 0
        else:
            self._idle_frame()
        if kind == _HEADERS:
            self._header_block(length)
        elif kind == _CONTINUATION:
            self._header_block(self._block + length)
        elif kind == _RST_STREAM:
            self._reset()
        return length

    def _idle_frame(self) -> None:
        self.idle += 1
        most = self._limits.idle_frames
        if self.idle > most:
            raise SessionFault(ErrorCode.ENHANCE_YOUR_CALM, f"more than {most} frames in a row that no call gains from")

    def _header_block(self, size: int) -> None:
        self._block = size
        most = self._limits.header_bytes
        if size > 2 * most:  # a block is hardly larger than what it says
            raise SessionFault(ErrorCode.ENHANCE_YOUR_CALM, f"a header list of more than {most} bytes")

    def _reset(self) -> None:
        self.resets += 2
        most = self._limits.resets
        if self.resets > 2 * most:
            raise SessionFault(ErrorCode.ENHANCE_YOUR_CALM, f"more than {most} calls reset beyond those that ended")

    def call_ended(self) -> None:
        """Count a call that came to its end, whatever end it was."""
        if self.resets:
            self.resets -= 1


class HeadFirst:
    """Cuts what a stranger sends behind each list of headers, from the first byte of its connection on.

    So a call is judged before anything of its message is read, let alone unpacked."""

    __slots__ = ("_head", "_is_headers", "_left")

    def __init__(self) -> None:
        self._left = len(PREFACE)  # bytes until the next frame's head
        self._head = b""  # the begin of one that is not whole yet
        self._is_headers = False  # what is left belongs to a list of headers

    def pieces(self, data: bytes | memoryview) -> Iterator[bytes | memoryview]:
        """Yield all of these bytes; behind each frame of headers a piece ends."""
        first, at, end = 0, 0, len(data)
        while at < end:
            if self._left:
                step = min(self._left, end - at)
                self._left -= step
                at += step
            else:
                step = min(_HEAD_BYTES - len(self._head), end - at)
                self._head += bytes(data[at : at + step])
                at += step
                if len(self._head) == _HEAD_BYTES:
                    self._left = int.from_bytes(self._head[:3], "big")
                    self._is_headers = self._head[3] in (_HEADERS, _CONTINUATION)
                    self._head = b""
            if self._is_headers and not self._left and not self._head:
                yield data[first:at]
                first, self._is_headers = at, False
        if first < end:
            yield data[first:end]
