"""Live settings set to hostile values over the wire, frames under these, and all of them back as they were."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from pyromq.broker.config import BrokerConfig
from pyromq.config import properties, settings_of
from pyromq.model.codes import ResponseCode
from pyromq.namesrv.config import NamesrvConfig
from pyromq.protocol.requests import RequestCode as C
from tests.fuzz import values
from tests.fuzz.lines import Broken, Line
from tests.fuzz.story import Story

# Live settings that no story touches: they delete the canary's messages, refuse everything for longer than the story
# lasts, or make a daemon call addresses that came from fuzzed registrations.
UNTOUCHED = frozenset(
    (
        *("fileReservedTime", "diskMaxUsedSpaceRatio", "diskSpaceCleanForciblyRatio", "diskSpaceWarningLevelRatio"),
        *("maxLogBytes", "spreadAutoCreatedTopics", "notifyMinBrokerIdChanged"),
    )
)
SHOW_AND_CHANGE: dict[str, tuple[int, int, type[BrokerConfig | NamesrvConfig]]] = {
    "broker": (C.GET_BROKER_CONFIG, C.UPDATE_BROKER_CONFIG, BrokerConfig),
    "namesrv": (C.GET_NAMESRV_CONFIG, C.UPDATE_NAMESRV_CONFIG, NamesrvConfig),
}


async def settings(story: Story, target: str, another: Callable[[], Awaitable[Line]]) -> None:
    """Live settings set to hostile values, a few frames under these, and all of them back. The canary rests meanwhile.

    `another` connects anew: what changes settings must not share a connection with what may be cut off.
    """
    show, change, kind = SHOW_AND_CHANGE[target]
    answer = await story.ask(show, odd=0)
    if answer is None:
        return
    before = {entry.key: entry.value for entry in properties.parse(bytes(answer.body).decode())}
    live = [one.java for one in settings_of(kind).values() if one.live and one.java in before]
    keys = [key for key in story.rng.sample(live, 3) if key not in UNTOUCHED]
    for key in keys:
        line = f"{key}={values.hostile(story.rng, story.mint.world)}\n"
        await story.ask(change, line.encode("utf-8", "replace"), odd=0)
    wild = await another()
    for _ in range(12):
        wild.send(story.mint.frame())
    await wild.settle()
    wild.close()
    if keys:
        await _put_back(Story(story.mint, await another()), change, {key: before[key] for key in keys})


async def _put_back(story: Story, change: int, before: dict[str, str]) -> None:
    answer = await story.ask(change, properties.render(before).encode(), odd=0)
    story.line.close()
    if answer is None or answer.code != ResponseCode.SUCCESS:
        raise Broken(f"settings cannot be put back to {before}: {answer}")
