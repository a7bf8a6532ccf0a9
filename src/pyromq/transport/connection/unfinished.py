"""Requests of one peer that Python has and that are not finished: how many, and how many bytes they hold.

The connection counts them here as they come and go, and pauses where there are too many. Event loop only.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...protocol.command import Command
from ..limits import Limits
from ..turns.request_class import keeps_order

_SMALL_HEADER = 4096  # bytes; headers below are not counted


class UnfinishedRequests:
    """`sends` are those of the requests that later sends of the peer wait for."""

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
