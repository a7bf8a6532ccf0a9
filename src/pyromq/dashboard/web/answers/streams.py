"""What goes on answering: events as text/event-stream, until who listens goes or his session ends."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass, field

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from ....ambient import Clock
from ...acting.plan import NotPossible, sentence
from ...views.served import StreamEvent
from ..problems import fault_problem
from ..sessions import WebSession
from ..site import EXPECTED, Site
from ..tables import StreamRoute
from .bound import bound

BEAT_S = 15.0  # then a line that means nothing is sent: so it is noticed when nobody listens any more
MOST_OF_ONE = 8  # streams of one session or program
MOST = 200


@dataclass(slots=True, eq=False, repr=False)
class OpenStreams:
    """How many streams each has open. Event loop only."""

    _open: Counter[object] = field(default_factory=Counter)

    def enter(self, owner: object) -> None:
        """Count one more. NotPossible: there are enough."""
        if self._open[owner] >= MOST_OF_ONE or self._open.total() >= MOST:
            raise NotPossible(sentence("Too many streams are open: close some of them"))
        self._open[owner] += 1

    def leave(self, owner: object) -> None:
        self._open[owner] -= 1
        if not self._open[owner]:
            del self._open[owner]


def stream(site: Site, streams: OpenStreams, route: StreamRoute) -> Callable[[Request], Awaitable[Response]]:
    """Return what answers the path of a stream."""

    async def answer(request: Request) -> Response:
        owner = site.visitor(request).owner
        try:
            call, _ = bound(site, route, request, route.stream)
            streams.enter(owner)
        except EXPECTED as fault:
            return fault_problem(fault)
        clock = site.cluster(request).watcher.clock
        lines = _lines(call(), owner, clock, lambda: streams.leave(owner))
        return StreamingResponse(lines, media_type="text/event-stream")

    return answer


async def _lines(
    events: AsyncGenerator[StreamEvent, None], owner: object, clock: Clock, ended: Callable[[], None]
) -> AsyncIterator[bytes]:
    """Write events as they come, and a beat where none came for a while."""
    coming: asyncio.Future[StreamEvent] | None = None
    try:
        async with aclosing(events):
            while not (isinstance(owner, WebSession) and owner.is_over):
                coming = coming or asyncio.ensure_future(anext(events))
                with suppress(TimeoutError):
                    async with clock.timeout(BEAT_S):
                        await asyncio.wait((coming,))
                if not coming.done():
                    yield b": still here\n\n"
                    continue
                try:
                    event, coming = coming.result(), None
                except StopAsyncIteration:
                    return
                except EXPECTED as fault:
                    event, coming = StreamEvent("fault", str(fault)), None
                    yield _text(event)
                    return
                yield _text(event)
    finally:
        if coming is not None:
            coming.cancel()
        ended()


def _text(event: StreamEvent) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (event.kind.encode(), msgspec.json.encode(event.data))
