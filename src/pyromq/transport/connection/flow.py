"""Flow control of one connection: nothing is read from its peer while any reason to pause holds.

The connection tells what comes, leaves and waits; here it is counted, its requests that are not finished too, and the
stream is read on when the last reason has ended. Event loop only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from enum import Enum

from ...protocol.command import Command
from ..limits import Limits
from ..turns.fair_queue import keeps_order


class Pause(Enum):
    """Why nothing is read from a peer."""

    BLOCKED = "it does not read what we send; its requests are not served either"
    UNFINISHED = "it has as many requests unfinished as it may have"
    DRAINING = "a kernel goes on when Python has finished the sends that it has"
    PENDING_REPLIES = "many of its replies wait for the log"
    YIELDING = "others have their turn, until the next pass of the loop"
    POSTPONED = "what came last is served in the next pass of the loop, since it takes long"


_NONE: frozenset[Pause] = frozenset()


class FlowControl:
    """Invariant: the stream is read exactly while `reasons` is empty, until it closes.

    `account` is told of bytes that are kept for the peer, more or fewer; it may close the connection.
    """

    __slots__ = ("_account", "_limits", "_reply_bytes", "_stream", "_unblocked", "_unread", "reasons", "requests")

    def __init__(
        self,
        stream: asyncio.Transport,
        limits: Limits,
        account: Callable[[int], None],
        requests: UnfinishedRequests | None = None,
    ) -> None:
        self._stream = stream
        self._limits = limits
        self._account = account
        self.reasons: frozenset[Pause] = _NONE
        self.requests = requests or UnfinishedRequests(limits)
        self._reply_bytes = 0
        self._unread = 0  # bytes of the write buffer, while the peer is blocked
        self._unblocked: asyncio.Future[None] | None = None  # made for those who wait for it

    def pause(self, reason: Pause) -> None:
        if not self.reasons and not self._stream.is_closing():
            self._stream.pause_reading()
        self.reasons |= {reason}

    def resume(self, reason: Pause) -> None:
        """End a reason, if it holds."""
        if reason in self.reasons:
            self.reasons -= {reason}
            if not self.reasons and not self._stream.is_closing():
                self._stream.resume_reading()

    def yield_turn(self) -> None:
        """Read no more in this pass of the loop."""
        self.pause(Pause.YIELDING)
        asyncio.get_running_loop().call_soon(self.resume, Pause.YIELDING)

    # --- requests and replies ----------------------------------------------------------------------------------------

    def submitted(self, requests: Sequence[Command], received: int) -> None:
        size = self.requests.add(requests, received)
        if self.requests.is_full:
            self.pause(Pause.UNFINISHED)
        self._account(size)

    def finished(self, request: Command) -> None:
        requests = self.requests
        self._account(-requests.remove(request))
        if self.reasons:
            if not requests.sends:
                self.resume(Pause.DRAINING)
            if requests.is_half_free:
                self.resume(Pause.UNFINISHED)

    def drain(self) -> None:
        """Wait with reading until the sends that Python has are finished."""
        if self.requests.sends:
            self.pause(Pause.DRAINING)

    def replies_pending(self, change: int) -> None:
        """Count bytes of replies that wait for the log, more or fewer."""
        self._reply_bytes += change
        self._account(change)
        if self._reply_bytes > self._limits.write_high_bytes:
            self.pause(Pause.PENDING_REPLIES)
        else:
            self.resume(Pause.PENDING_REPLIES)

    # --- a peer that does not read -----------------------------------------------------------------------------------

    @property
    def is_blocked(self) -> bool:
        return Pause.BLOCKED in self.reasons

    def count_unread(self) -> int:
        """Count the write buffer of a blocked peer as kept for it; return its size."""
        size = self._stream.get_write_buffer_size()
        change, self._unread = size - self._unread, size
        self._account(change)
        return size

    def unblock(self) -> None:
        self.drop_unread()
        self.resume(Pause.BLOCKED)
        self.wake()

    def drop_unread(self) -> None:
        unread, self._unread = self._unread, 0
        self._account(-unread)

    def unblocked(self) -> asyncio.Future[None]:
        """Return a future that is done when the peer reads again, or is gone."""
        if self._unblocked is None:
            self._unblocked = asyncio.get_running_loop().create_future()
        return self._unblocked

    def wake(self) -> None:
        """Let those go on who wait for `unblocked`."""
        if self._unblocked is not None:
            self._unblocked.set_result(None)
            self._unblocked = None


_SMALL_HEADER = 4096  # bytes; headers below are not counted


class UnfinishedRequests:
    """Those of one peer that Python has, and their bytes. `sends`: those that later sends of the peer wait for."""

    __slots__ = ("_bytes", "_header_bytes", "_most", "_most_bytes", "count", "sends")

    def __init__(self, limits: Limits) -> None:
        self._most = limits.unfinished_requests
        self._most_bytes = limits.unfinished_bytes
        self._bytes = 0
        self._header_bytes = 0  # of these: headers, where they are large
        self.count = 0
        self.sends = 0

    @property
    def is_full(self) -> bool:
        return self.count >= self._most or self._bytes >= self._most_bytes

    @property
    def is_half_free(self) -> bool:
        return self.count <= self._most // 2 and self._bytes <= self._most_bytes // 2

    def add(self, requests: Sequence[Command], received: int) -> int:
        """Count requests that came in so many bytes; return the bytes that they hold."""
        size = sum(len(request.body) for request in requests)
        if received - size > _SMALL_HEADER * len(requests):
            self._header_bytes += received - size
            size = received
        self.count += len(requests)
        self.sends += sum(keeps_order(request.code) for request in requests)
        self._bytes += size
        return size

    def remove(self, request: Command) -> int:
        """Count a request no longer; return the bytes that it held."""
        size = len(request.body)
        if self._header_bytes:  # nobody counts them one by one: each request takes its share along
            share = self._header_bytes // self.count
            self._header_bytes -= share
            size += share
        self.count -= 1
        self.sends -= keeps_order(request.code)
        self._bytes -= size
        return size
