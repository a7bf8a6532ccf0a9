"""The listener of scrapers: `/metrics`, `/metrics/broker`, `/-/healthy`, `/-/ready`. GET only, no TLS, nobody is asked.

A scrape is made in slices, so that others are served in between; one at a time, and who asks meanwhile waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

from .. import logs
from ..ambient import Clock, RunBlocking, Timer
from ..transport.listening import Acceptor, Listening
from .exposition import END, OPEN_METRICS, TEXT, written
from .families import Collect
from .http_request import BadRequest, HttpRequest, answer, gzipped, take_request
from .limiting import Limiting
from .settings import Detail

log = logs.get("pyromq.metrics")

MOST_CONNECTIONS = 16
HEAD_S = 5.0  # from the first byte of a request to the last of its head
IDLE_S = 150.0  # between two scrapes over one connection
_ALL_BYTES = 256 << 10  # smaller answers are compressed at once, larger ones by a helper thread

_HELP = """\
PyroMQ metrics.
/metrics         all series, for Prometheus (?name[]=a&name[]=b for some)
/metrics/broker  without series of topics and groups
/-/healthy       200 while this process serves
/-/ready         200 while it can do what it is there for, else 503 and why
"""


@dataclass(slots=True, eq=False, repr=False)
class MetricsEndpoint:
    """Event loop only. `troubles` says why the daemon is not ready; nothing: it is."""

    collect: Collect
    limiting: Limiting
    detail: Detail
    troubles: Callable[[], list[str]]
    clock: Clock
    run_blocking: RunBlocking
    _acceptor: Acceptor[_Scraper] = field(init=False)
    _scrapers: set[_Scraper] = field(default_factory=set)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        warn = logs.Limited(log, self.clock)
        self._acceptor = Acceptor(self._welcome, self._scrapers.discard, self.clock, warn, "metrics")

    def accept_on(self, listening: Listening) -> None:
        """Serve these sockets, which are the endpoint's to close from now on."""
        self._acceptor.accept_on(listening)
        log.info("metrics are served", address=f"http://{listening.address}/metrics")

    async def stop(self) -> None:
        self._acceptor.close()
        await self._acceptor.joined()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for scraper in list(self._scrapers):
            scraper.close()

    def _welcome(self, address: str) -> _Scraper | None:
        if len(self._scrapers) >= MOST_CONNECTIONS:
            return None
        scraper = _Scraper(self)
        self._scrapers.add(scraper)
        return scraper

    def lost(self, scraper: _Scraper) -> None:
        self._scrapers.discard(scraper)

    def serve(self, scraper: _Scraper, request: HttpRequest) -> None:
        """Answer a request, later."""
        task = asyncio.get_running_loop().create_task(self._serve(scraper, request))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, scraper: _Scraper, request: HttpRequest) -> None:
        try:
            reply = await self._answer(request)
        except Exception:
            log.exception("a scrape failed")
            reply = _text(request, 500, "internal error, see the daemon's log\n")
        head_end = reply.index(b"\r\n\r\n") + 4
        scraper.send(reply[:head_end] if request.method == "HEAD" else reply, keeps_open=request.keeps_open)

    async def _answer(self, request: HttpRequest) -> bytes:
        if request.method not in ("GET", "HEAD"):
            return _text(request, 405, "GET only\n")
        if request.path == "/-/healthy":
            return _text(request, 200, "healthy\n")
        if request.path == "/-/ready":
            troubles = self.troubles()
            return _text(request, 503 if troubles else 200, "".join(f"{one}\n" for one in troubles) or "ready\n")
        if request.path == "/metrics":
            return await self._scrape(request, self.detail)
        if request.path == "/metrics/broker":
            return await self._scrape(request, Detail.BROKER)
        return _text(request, 200 if request.path == "/" else 404, _HELP)

    async def _scrape(self, request: HttpRequest, detail: Detail) -> bytes:
        is_open = request.accepts("accept", "application/openmetrics-text")
        names = set(request.query.get("name[]", ()))
        async with self._turn:
            parts = await self._parts(detail, names, is_open)
        body = "".join(parts).encode()
        is_gzipped = request.accepts("accept-encoding", "gzip")
        if is_gzipped:
            body = gzipped(body) if len(body) <= _ALL_BYTES else await self.run_blocking(lambda: gzipped(body))
        kind = OPEN_METRICS if is_open else TEXT
        return answer(200, kind, body, gzipped=is_gzipped, keeps_open=request.keeps_open)

    async def _parts(self, detail: Detail, names: set[str], is_open: bool) -> list[str]:
        parts = []
        async for family in self.limiting.limited(self.collect, detail):
            if names and family.name not in names:
                continue
            for part in written(family, is_open):
                parts.append(part)
                await self.clock.sleep(0)
        return [*parts, *([END] if is_open else [])]


def _text(request: HttpRequest, status: int, text: str) -> bytes:
    return answer(status, "text/plain; charset=utf-8", text.encode(), keeps_open=request.keeps_open)


class _Scraper(asyncio.Protocol):
    """One connection. One request at a time; the next one is read when the answer has been written."""

    def __init__(self, endpoint: MetricsEndpoint) -> None:
        self._endpoint = endpoint
        self._received = bytearray()
        self._transport: asyncio.Transport | None = None
        self._is_busy = False
        self._timer: Timer | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's are of no class that asyncio knows
        self._wait(HEAD_S)

    def data_received(self, data: bytes) -> None:
        if not self._received and not self._is_busy:
            self._wait(HEAD_S)
        self._received += data
        if not self._is_busy:
            self._take()
        elif len(self._received) > 1 << 16 and self._transport is not None:
            self._transport.pause_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._wait(None)
        self._endpoint.lost(self)

    def send(self, reply: bytes, *, keeps_open: bool) -> None:
        """Write an answer, then close or take the next request."""
        self._is_busy = False
        if self._transport is None:
            return
        self._transport.write(reply)
        if not keeps_open:
            self.close()
            return
        self._transport.resume_reading()
        self._wait(IDLE_S)
        self._take()

    def close(self) -> None:
        self._wait(None)
        if self._transport is not None:
            self._transport.close()

    def _take(self) -> None:
        try:
            request = take_request(self._received)
        except BadRequest as fault:
            if self._transport is not None:
                self._transport.write(answer(fault.status, "text/plain; charset=utf-8", f"{fault}\n".encode()))
            self.close()
            return
        if request is not None:
            self._is_busy = True
            self._wait(None)
            self._endpoint.serve(self, request)

    def _wait(self, seconds: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if seconds is None else self._endpoint.clock.call_later(seconds, self._give_up)

    def _give_up(self) -> None:
        if self._transport is not None:
            self._transport.abort()
