"""Fresh parts of open pages: made once for all tabs that show the same, and sent only if they are others.

A page asks every two seconds for its parts alone (`X-Fragment`). What is kept is a fragment by all that it depends on;
it serves as long as its snapshot is the newest, and for two seconds at most, since it has ages and live answers in it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from hashlib import sha256

from starlette.requests import Request
from starlette.responses import Response

FRESH_S = 2.0
MOST = 500


@dataclass(frozen=True, slots=True)
class _Kept:
    number: int
    made_at: float
    text: asyncio.Task[str]


@dataclass(slots=True, eq=False, repr=False)
class Fragments:
    """Event loop only."""

    monotonic: Callable[[], float]
    _kept: dict[Hashable, _Kept] = field(default_factory=dict)

    async def text(self, key: Hashable, number: int, make: Callable[[], Awaitable[str]]) -> str:
        """Return the fragment of a key for the snapshot of this number. Who asks while it is made waits for the same;
        what `make` raises is kept for nobody."""
        now, kept = self.monotonic(), self._kept.get(key)
        if kept is None or kept.number != number or now - kept.made_at >= FRESH_S:
            self._drop_old(now)
            kept = _Kept(number, now, asyncio.ensure_future(_awaited(make)))
            self._kept[key] = kept
        try:
            return await asyncio.shield(kept.text)
        except Exception:
            if self._kept.get(key) is kept:
                del self._kept[key]
            raise

    def _drop_old(self, now: float) -> None:
        self._kept = {key: one for key, one in self._kept.items() if now - one.made_at < FRESH_S}
        while len(self._kept) >= MOST:
            del self._kept[next(iter(self._kept))]


async def _awaited(make: Callable[[], Awaitable[str]]) -> str:
    return await make()


def is_wanted(request: Request) -> bool:
    """Return whether a page that is open asks for its parts."""
    return "x-fragment" in request.headers


def answer(request: Request, text: str) -> Response:
    """Return a fragment, or 304 where the page has it."""
    tag = tag_of(text)
    if has(request, tag):
        return unchanged(tag)
    return Response(text, 200, {"etag": tag}, media_type="text/html; charset=utf-8")


def tag_of(*parts: object) -> str:
    return f'"{sha256(repr(parts).encode()).hexdigest()[:24]}"'


def has(request: Request, tag: str) -> bool:
    """Return whether who asks has what this tag stands for."""
    return tag in {one.strip().removeprefix("W/") for one in request.headers.get("if-none-match", "").split(",")}


def unchanged(tag: str) -> Response:
    return Response(None, 304, {"etag": tag})
