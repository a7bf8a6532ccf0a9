"""Topics that a send has made and that are not on disk yet."""

from __future__ import annotations

import asyncio

from pyromq.broker.metadata.saving import NewTopics


async def test_a_topic_that_is_made_again_before_the_first_is_saved_waits_for_its_own_write() -> None:
    writes = [asyncio.Event(), asyncio.Event()]
    begun = iter(writes)

    async def saved() -> None:
        await next(begun).wait()

    new = NewTopics(saved)
    new.made("T")
    first = new.saving("T")
    await asyncio.sleep(0)
    new.made("T")  # it was deleted meanwhile
    second = new.saving("T")
    assert first is not None
    assert second is not None
    await asyncio.sleep(0)
    writes[0].set()
    await first
    assert "T" in new  # who sends to it now still waits: only the first life is on disk
    writes[1].set()
    await second  # raised KeyError
    assert "T" not in new
