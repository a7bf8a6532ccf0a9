"""The body of a message as a file: its bytes as they are, for programs and for what no page can show."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from ....admin.finding.lives import KnownLives, on_broker
from ...acting.plan import NotPossible, sentence
from ...acting.visitor import BodiesHidden, Visitor
from ..asking import ask_one
from ..served import DownloadFile
from .listed import having, topic_of
from .opened import MessageNotThere, find

if TYPE_CHECKING:
    from ...watch.watched import ClusterWatch

MOST_BYTES = 4 << 20


async def whole_body(cluster: ClusterWatch, topic: str, word: str, *, visitor: Visitor) -> DownloadFile:
    """Return the file. BodiesHidden; NotPossible: it is too large for a browser."""
    if not visitor.sees_bodies:
        raise BodiesHidden
    places, _ = having(cluster, topic_of(cluster, topic))
    answers = await asyncio.gather(*(ask_one(one.name, on_broker(cluster.calls, one, topic, word)) for one in places))
    lives = [life for each in answers if isinstance(each, KnownLives) for life in each.lives]
    found = await find(cluster, places, topic, word, lives)
    if found is None:
        raise MessageNotThere(topic, word, [one.name for one in places], [])
    body = found.message.body
    if len(body) > MOST_BYTES:
        raise NotPossible(
            sentence(
                "The body has {n} bytes, and 4 MiB are given at most: read it with pyromq msg query or pyromq sub",
                n=len(body),
            )
        )

    async def parts() -> AsyncIterator[bytes]:
        yield body

    return DownloadFile(f"{word}.body", parts())
