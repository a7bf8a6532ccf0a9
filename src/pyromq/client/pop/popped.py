"""A message that is this consumer's for a time, and what can become of it: done, later, or a dead letter."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Mapping
from enum import Enum
from typing import Any, Protocol

from ...ambient import Clock
from ...model.message import StoredMessage
from ...protocol.bodies.keyed import MessageQueue
from ..arguments import Seconds
from ..received import Received
from ..values import JSON, Codec

_NO_ENDS: Mapping[MessageQueue, int] = {}


class LeaseState(Enum):
    OPEN = "open"
    ACKING = "being acknowledged"
    DONE = "done"  # acknowledged, or among the dead letters
    RETURNING = "being given back"
    RETURNED = "given back"


class Acking:
    """An acknowledgement on its way. Await it to know how it ended; `flush` of the consumer tells of the others."""

    __slots__ = ("future", "is_awaited")

    def __init__(self, future: asyncio.Future[None]) -> None:
        self.future = future
        self.is_awaited = False

    def __await__(self) -> Generator[Any, None, None]:
        self.is_awaited = True
        return asyncio.shield(self.future).__await__()


class Keeper(Protocol):
    """What a popped message asks of the consumer that has it: `leases.py`."""

    clock: Clock

    def ack(self, message: Popped) -> Acking: ...

    async def later(self, message: Popped, seconds: Seconds, *, counts: bool = True) -> None: ...

    async def dead_letter(self, message: Popped, reason: str) -> None: ...


class Popped(Received):
    """One delivery that is hidden from the group until its invisible time is over, unless it is acknowledged."""

    is_alone = True
    __slots__ = ("_keeper", "acking", "receipt", "state", "until")

    def __init__(
        self,
        message: StoredMessage,
        queue: MessageQueue,
        namespace: str = "",
        group: str = "",
        codec: Codec = JSON,
        *,
        receipt: Any,
        until: float,
        keeper: Keeper,
    ) -> None:
        super().__init__(message, queue, namespace, group, codec, _NO_ENDS)
        self._keeper = keeper
        self.receipt = receipt  # what its broker wants back
        self.until = until  # of the monotonic clock: then it comes again
        self.state = LeaseState.OPEN
        self.acking: Acking | None = None

    @property
    def left_s(self) -> float:
        """The seconds for which the message is still hidden from others of the group; 0, if it comes again."""
        return max(0.0, self.until - self._keeper.clock.monotonic())

    @property
    def is_expired(self) -> bool:
        """Whether its invisible time is over: it comes again, and an acknowledgement would not count."""
        return self.left_s <= 0

    def ack(self) -> Acking:
        """Acknowledge the message: it is done, and does not come again.

        Those that come at about the same time share a request. Awaiting the result waits for the broker's answer and
        raises what went wrong; ReceiptExpired, if the time is over. `flush` tells of those that nobody awaits.
        """
        return self._keeper.ack(self)

    async def later(self, seconds: Seconds, *, counts: bool = True) -> None:
        """Let the message come again after so many seconds from now, in place of its invisible time.

        Until then it is still this consumer's and may be acknowledged: so this also gives more time to whoever works
        on it. `counts=False`: the next delivery has the same `attempt` as this one.
        """
        await self._keeper.later(self, seconds, counts=counts)

    async def dead_letter(self, reason: str = "") -> None:
        """Put the message among the group's dead letters, with this reason: it does not come again."""
        await self._keeper.dead_letter(self, reason)
