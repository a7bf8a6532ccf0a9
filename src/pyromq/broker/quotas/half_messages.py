"""Half messages that nobody has ended yet, counted before another is sent: of its topic, and of its producer group."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from ...model.message import Property
from ...transport.dispatch import Answer, Reply, Request, await_answer
from .limits import Limit, QuotaKind
from .refusal import beyond
from .use import QuotaUse

_HALF = f"{Property.TRAN_MSG}\x01true".lower()
_SOON_S = 1.0  # after which to try again


class UndecidedCounts(Protocol):
    """Half messages that are undecided."""

    async def catch_up(self) -> None:
        """Read what was stored since the last time."""
        ...

    def count_of_topic(self, name: str) -> int: ...

    def count_of_group(self, name: str) -> int: ...


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class HalfMessages:
    """Event loop only. Those that are on their way into the log count, too."""

    undecided: UndecidedCounts

    def limited(self, uses: Iterable[QuotaUse], properties: str) -> list[QuotaUse]:
        """Return whose quota a message is counted for."""
        if _HALF not in properties.lower():
            return []
        return [use for use in uses if Limit.HALF_MESSAGES in use.limits]

    async def send(self, uses: list[QuotaUse], serve: Callable[[Request], Answer], request: Request) -> Reply | None:
        """Serve a send unless there are too many."""
        await self.undecided.catch_up()
        for use in uses:
            of = self.undecided.count_of_topic if use.owner.kind is QuotaKind.TOPIC else self.undecided.count_of_group
            count = of(use.owner.name) + use.halves_under_way
            if count >= use.limits[Limit.HALF_MESSAGES]:
                raise beyond(use, Limit.HALF_MESSAGES, str(count), _SOON_S)
        under_way = list(uses)
        for use in under_way:
            use.halves_under_way += 1
        request.on_answer = partial(_arrived, under_way)
        try:
            reply = await await_answer(serve(request))
        except BaseException:
            _arrived(under_way)
            raise
        if reply is not None:  # else it is answered once it is stored
            _arrived(under_way)
        return reply


def _arrived(under_way: list[QuotaUse], _: Reply | None = None) -> None:
    """Count a message as arrived, once: a reply may be answered, and stored, one after the other."""
    while under_way:
        under_way.pop().halves_under_way -= 1
