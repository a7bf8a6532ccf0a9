"""The members of one client over gRPC: a session for each producer and consumer, over the same connections."""

from __future__ import annotations

from ...ambient import Clock, Random
from ...transport.http2.client import Http2Client
from ..config import ClientConfig
from .grpc_session import GrpcSession


class GrpcMembers:
    """Event loop only. The first session is the client's own; when it stops, everything does."""

    def __init__(self, config: ClientConfig, clock: Clock, rng: Random) -> None:
        self._config, self._clock, self._rng = config, clock, rng
        self._http = Http2Client(clock=clock, rng=rng, tls=config.tls)
        self._sessions: list[GrpcSession] = []

    def new_session(self) -> GrpcSession:
        made = GrpcSession(self._config, self._clock, self._rng, self._http, len(self._sessions))
        if not self._sessions:
            made.on_stop = self._stop
        self._sessions.append(made)
        return made

    async def _stop(self) -> None:
        for each in self._sessions[1:]:
            await each.stop()
        await self._http.close()
