"""One receive of a simple consumer: who is asked, in which order, and how to wait where there are several.

Of one broker and topic, the pop itself is held there. Of several, each is asked without waiting; while all are empty, a
notification is awaited of each, which hands out nothing. Notifications stay when a receive ends, for the next one: a
broker tells one of them of a message, and one that nobody waits for would swallow that.
What a receive had, or still gets, when it is cancelled is handed to `abandon`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from ... import logs
from ...model.codes import ResponseCode
from ...protocol.bodies.keyed import MessageQueue
from ..connect.background import Tasks
from ..connect.session import Session
from ..errors import Error, Refused
from ..subscription import Filter
from .kept_pops import KeptPops
from .options import FIRST, SimpleOptions
from .pop_calls import MOST_POPPED, Handed, PopCalls, PopRequest

log = logs.get("pyromq.client")

WATCH_S = 15.0
PAUSE_S = 1.0  # after a notification that failed, or where brokers have none
LEAST_HOLD_S = 0.1  # a broker answers a little before the time is over: no other call is worth it
T = TypeVar("T")
LEAST_PAUSE_S = 0.01  # whatever brokers announce
_FIRST_REST_S, _MOST_REST_S = 0.01, 0.5  # after notifications of what others had taken


class Receiving:
    """Event loop only. One per consumer."""

    def __init__(
        self,
        calls: PopCalls,
        session: Session,
        group: str,
        filters: Mapping[str, Filter],
        options: SimpleOptions,
        abandon: Callable[[list[Handed]], None],
    ) -> None:
        self._calls = calls
        self._session, self._clock = session, session.clock
        self._group = group
        self._filters = filters
        self._options = options
        self._abandon = abandon
        self._turn = session.rng.randrange(1 << 16)  # who is asked first
        self._watches: dict[MessageQueue, asyncio.Task[bool]] = {}
        self._tasks = Tasks(lambda fault: log.debug("a notification failed", fault=repr(fault)))
        self._pops = KeptPops(calls, session.ids.next, abandon)
        self._can_watch = True

    async def stop(self) -> None:
        await self._tasks.cancel()
        self._watches.clear()

    async def receive(self, most: int, until: float, invisible_s: float, *, is_ordered: bool) -> list[Handed]:
        """Return messages as soon as there are some, [] at `until`. Raise, if nobody can be asked."""
        rests = 0
        while True:
            places = await self.places()
            left_s = max(0.0, until - self._clock.monotonic())
            hold_s = left_s if len(places) == 1 or self._calls.is_cancellable else 0.0
            asked = PopRequest(
                place=places[0],
                wanted=self._filters[places[0].topic],
                most=most,
                hold_s=hold_s,
                invisible_s=invisible_s,
                is_ordered=is_ordered,
                from_first=self._options.begin in FIRST,
            )
            if len(places) > 1 and self._calls.is_cancellable:
                found, faults = await self._race(asked, places)
            else:
                found, faults = await self._sweep(asked, places)
            if found:
                return found
            left_s = until - self._clock.monotonic()
            if len(faults) == len(places):
                announced_s = _announced_s(faults.values())
                if announced_s is None or announced_s >= left_s:
                    raise next(iter(faults.values()))
                await self._clock.sleep(announced_s)
                continue
            if left_s < LEAST_HOLD_S:
                await self._clock.sleep(max(0.0, left_s))
                return []
            if len(places) > 1 and not self._calls.is_cancellable:
                was_told = await self._wait([each for each in places if each not in faults], left_s, is_ordered)
                rests = rests + 1 if was_told else 0
                if rests > 1:  # what came was somebody else's, or does not match
                    await self._clock.sleep(min(left_s, _MOST_REST_S, _FIRST_REST_S * 2.0**rests))
            else:
                await self._clock.sleep(min(left_s, PAUSE_S))  # it holds no more pops, or none for so long

    async def places(self) -> list[MessageQueue]:
        """Return who can be asked, another one first each time. Raise, if that is nobody."""
        found: list[MessageQueue] = []
        faults: list[Error] = []
        for topic in self._filters:
            try:
                found += await self._calls.places(topic)
            except Error as fault:
                faults.append(fault)
        if not found:
            raise faults[0]
        self._turn += 1
        first = self._turn % len(found)
        return found[first:] + found[:first]

    async def _sweep(
        self, asked: PopRequest, places: Sequence[MessageQueue]
    ) -> tuple[list[Handed], dict[MessageQueue, Error]]:
        """Ask one after another until there are enough messages."""
        found: list[Handed] = []
        faults: dict[MessageQueue, Error] = {}
        try:
            for place in places:
                if len(found) < asked.most:
                    wanted = self._filters[place.topic]
                    try:
                        await self._drain(replace(asked, place=place, wanted=wanted), found)
                    except Error as fault:
                        faults[place] = fault
                        self._session.outages.warn("nothing popped", fault, group=self._group, place=str(place))
        except asyncio.CancelledError:
            self._abandon(found)
            raise
        return found, faults

    async def _race(
        self, asked: PopRequest, places: Sequence[MessageQueue]
    ) -> tuple[list[Handed], dict[MessageQueue, Error]]:
        """Ask all at a time, and take what comes first. The other calls are cancelled."""
        loop = asyncio.get_running_loop()
        most = min(MOST_POPPED, asked.most)
        pops = {
            loop.create_task(
                self._calls.pop(replace(asked, place=each, wanted=self._filters[each.topic], most=most))
            ): each
            for each in places
        }
        found: list[Handed] = []
        faults: dict[MessageQueue, Error] = {}
        pending = set(pops)
        try:
            while pending and not found:
                done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    if isinstance(fault := task.exception(), Error):
                        faults[pops[task]] = fault
                    else:
                        found += task.result()
        except asyncio.CancelledError:
            self._abandon(found)
            raise
        finally:
            for task in pending:
                task.cancel()
        self._abandon(found[asked.most :])
        return found[: asked.most], faults

    async def _drain(self, asked: PopRequest, found: list[Handed]) -> None:
        """Take from one place while it has more, until there are enough."""
        while len(found) < asked.most:
            count = min(MOST_POPPED, asked.most - len(found))
            got = await self._pops.pop(replace(asked, most=count, hold_s=0.0 if found else asked.hold_s))
            found += got
            if len(got) < count:
                return

    async def _wait(self, places: Sequence[MessageQueue], left_s: float, is_ordered: bool) -> bool:
        """Wait until a broker has a message, or the time is over. Return whether one said so."""
        if not self._can_watch:
            await self._clock.sleep(min(left_s, PAUSE_S))
            return False
        for place in places:
            if place not in self._watches:
                self._watches[place] = self._tasks.start(self._watch(place, is_ordered))
        waits = [self._watches[place] for place in places if place in self._watches]
        try:
            async with self._clock.timeout(left_s):
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError:
            return False
        ended = [place for place, watch in self._watches.items() if watch.done()]
        answers = [_result(self._watches.pop(place)) for place in ended]
        return any(answers)

    async def _watch(self, place: MessageQueue, is_ordered: bool) -> bool:
        asked = PopRequest(
            place=place,
            wanted=self._filters[place.topic],
            most=1,
            hold_s=WATCH_S,
            invisible_s=0,
            is_ordered=is_ordered,
        )
        try:
            return await self._calls.watch(asked)
        except Error as fault:
            if isinstance(fault, Refused) and fault.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                self._can_watch = False
            else:
                await self._clock.sleep(PAUSE_S)
            return False


def _announced_s(faults: Iterable[Error]) -> float | None:
    """Return after how long the first of these brokers will serve; None unless all of them say it."""
    told = [fault.retry_after_s if isinstance(fault, Refused) else None for fault in faults]
    return None if None in told else max(LEAST_PAUSE_S, min(each for each in told if each is not None))


def _result(done: asyncio.Task[T]) -> T | None:
    return None if done.cancelled() or done.exception() is not None else done.result()
