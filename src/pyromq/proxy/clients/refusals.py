"""Clients that are no members of their group, since they subscribe otherwise than its members: who, and why."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ...ambient import Clock, Timer
from ...protocol.grpc.v2 import Code
from ..statuses import Denied
from .grpc_client import GrpcClient

SILENT_S = 60.0  # each try of the client, by settings or a heartbeat, begins it anew


class _Refusal(NamedTuple):
    client: GrpcClient
    why: str
    timer: Timer


class Refusals:
    """Event loop only. `left` is called with a client that no longer asks."""

    def __init__(self, clock: Clock, left: Callable[[GrpcClient], None]) -> None:
        self._clock = clock
        self._left = left
        self._by_id: dict[str, _Refusal] = {}

    def note(self, client: GrpcClient, why: str) -> None:
        self.clear(client.client_id)
        self._by_id[client.client_id] = _Refusal(client, why, self._clock.call_later(SILENT_S, self._left, client))

    def clear(self, client_id: str) -> None:
        """Forget one: it was accepted, or has gone."""
        found = self._by_id.pop(client_id, None)
        if found is not None:
            found.timer.cancel()

    def find(self, client_id: str) -> GrpcClient | None:
        """Return a refused client: its heartbeats ask again."""
        found = self._by_id.get(client_id)
        return None if found is None else found.client

    def check(self, client_id: str) -> None:
        """Raise why a client is refused, if it is."""
        found = self._by_id.get(client_id)
        if found is not None:
            raise Denied(Code.FORBIDDEN, found.why)
