"""Topics that a send has just made and that are not on disk yet. Whoever sends to one waits until it is.

Otherwise a kill could leave acked messages in a topic that nobody knows. Event loop only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable


class NewTopics:
    """Empty nearly always: a topic leaves it when its table was written."""

    def __init__(self, saved: Callable[[], Awaitable[None]]) -> None:
        """`saved` returns once everything that changed before is on disk."""
        self._saved = saved
        self._saving: dict[str, asyncio.Future[None]] = {}

    def made(self, topic: str) -> None:
        task = asyncio.ensure_future(self._save(topic))
        task.add_done_callback(_seen)
        self._saving[topic] = task

    def __contains__(self, topic: str) -> bool:
        return topic in self._saving

    def saving(self, topic: str) -> Awaitable[None] | None:
        """Return what has to be awaited before something is put into the topic.

        It raises what the write raised; asking again retries.
        """
        task = self._saving.get(topic)
        if task is None:
            return None
        if task.done():  # it failed, or it would not be here
            self.made(topic)
            task = self._saving[topic]
        return asyncio.shield(task)

    async def _save(self, topic: str) -> None:
        await self._saved()
        if self._saving.get(topic) is asyncio.current_task():  # else it was deleted and made again: that one waits on
            del self._saving[topic]


def _seen(task: asyncio.Future[None]) -> None:
    """Take note of the outcome. The table's own writer logs a failure; here it only must not count as overlooked."""
    if not task.cancelled():
        task.exception()
