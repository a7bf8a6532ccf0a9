"""Actions under way, and how they ended: they go on when the browser goes, and each leaves a line in the audit log."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from ... import logs
from .plan import Sentence
from .refusals import FAULTS, Refusal, refusal_of
from .visitor import Visitor

log = logs.get("pyromq.dashboard")

MOST_OF_ONE = 50  # results of one session or program that are kept, the newest
MOST = 1_000
RUNNING, DONE, PARTLY, FAILED, INTERRUPTED = "running", "done", "partly", "failed", "interrupted"


class StepOutcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How one step ended. `place`: the broker, or what it was about."""

    place: str
    is_done: bool
    refusal: Refusal | None = None


class Trail(Protocol):
    """The audit log, as far as actions need it."""

    def note(self, kind: str, **fields: Any) -> None: ...

    async def written(self) -> None: ...


class NoTrail:
    """Stands for the audit log where nothing can be changed: a line there would be a mistake."""

    def note(self, kind: str, **fields: Any) -> None:
        raise AssertionError(f"a dashboard that only shows has done something: {kind} {fields}")

    async def written(self) -> None:
        pass


@dataclass(slots=True, eq=False, repr=False)
class Work:
    """One action under way. `total`: how many steps there will be, 0 if that is not known."""

    id: str
    owner: object
    cluster: str
    action: str
    right: str  # that brokers want for it, by its name in policies
    does: Sentence
    begun_ms: int
    state: str = RUNNING
    total: int = 0
    done: int = 0
    outcomes: list[StepOutcome] = field(default_factory=list)
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    def expect(self, total: int) -> None:
        """Say how many steps there will be."""
        self.total = total

    def advance(self, steps: int = 1) -> None:
        """Count steps that are done and need no row of their own."""
        self.done += steps

    async def attempt(self, place: str, call: Awaitable[object], right: str = "") -> bool:
        """Await one step, and note how it ended. Return whether it was done; what a server refuses raises nothing.

        `right`: that is needed for this step, where it is not the action's."""
        try:
            await call
        except FAULTS as fault:
            refusal = refusal_of(fault, right or self.right)
            self.outcomes.append(StepOutcome(place=place, is_done=False, refusal=refusal))
            return False
        finally:
            self.done += 1
        self.outcomes.append(StepOutcome(place=place, is_done=True))
        return True

    def judge(self) -> None:
        """Set the state by how the steps ended."""
        good = [one.is_done for one in self.outcomes]
        self.state = DONE if all(good) else PARTLY if any(good) else FAILED


@dataclass(slots=True, eq=False, repr=False)
class Works:
    """Event loop only. `word` makes ids."""

    word: Callable[[], str]
    now_ms: Callable[[], int]
    trail: Trail
    _works: dict[str, Work] = field(default_factory=dict)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def begin(
        self,
        visitor: Visitor,
        work: Work,
        apply: Callable[[Work], Awaitable[None]],
        facts: Mapping[str, Any],
    ) -> None:
        """Run an action as a task of its own. `facts`: what the audit line says besides who, what and how it ended."""
        own = [one for one in self._works.values() if one.owner == work.owner and one.state != RUNNING]
        others = [one for one in self._works.values() if one.state != RUNNING] if len(self._works) >= MOST else []
        for old in own[: max(0, len(own) - MOST_OF_ONE + 1)] or others[:1]:
            del self._works[old.id]
        self._works[work.id] = work
        task = asyncio.get_running_loop().create_task(self._run(visitor, work, apply, facts))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def find(self, owner: object, key: str, cluster: str) -> Work | None:
        """Return one's own work; None: there is none of this id in the cluster."""
        work = self._works.get(key)
        return work if work is not None and (work.owner, work.cluster) == (owner, cluster) else None

    async def _run(
        self, visitor: Visitor, work: Work, apply: Callable[[Work], Awaitable[None]], facts: Mapping[str, Any]
    ) -> None:
        try:
            await apply(work)
            work.judge()
        except asyncio.CancelledError:
            work.state = INTERRUPTED
            raise
        except FAULTS as fault:
            work.outcomes.append(StepOutcome(place="", is_done=False, refusal=refusal_of(fault, work.right)))
            work.judge()
        except Exception:
            log.exception("an action failed", action=work.action, cluster=work.cluster)
            fault_text = "the dashboard failed: its log says why"
            work.outcomes.append(StepOutcome(place="", is_done=False, refusal=Refusal(text=fault_text)))
            work.judge()
        finally:
            self._note(visitor, work, facts)
            work.ended.set()
        await self.trail.written()

    def _note(self, visitor: Visitor, work: Work, facts: Mapping[str, Any]) -> None:
        faults = {one.place: one.refusal.text for one in work.outcomes if one.refusal is not None}
        self.trail.note(
            "write",
            user=visitor.user or visitor.came_by,
            source=visitor.address,
            cluster=work.cluster,
            action=work.action,
            does=str(work.does),
            **facts,
            outcome=work.state,
            done=[one.place for one in work.outcomes if one.is_done],
            **({"faults": faults} if faults else {}),
        )

    async def close(self) -> None:
        """End what is under way: its audit line says that it was interrupted."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
