"""The messages that a consumer has now: acknowledged together, renewed, given back. Simple and push consumers use it.

Acknowledgements of one broker leave as one request: those of one turn of the event loop, and those that come while the
request before is under way. With `linger_s` they wait that long for others.

A change of the invisible time makes a new receipt, and the old one is worth nothing from then on. So one request for a
message is under way at a time: whatever comes meanwhile waits for the new receipt, and no receipt is used twice.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from ... import logs
from ...ambient import Clock
from ..arguments import Seconds, check_kind
from ..arguments import seconds as seconds_of
from ..connect.background import Tasks
from ..errors import Error, ReceiptExpired
from .pop_calls import PopCalls
from .popped import Acking, LeaseState, Popped

log = logs.get("pyromq.client")

MOST_GATHERED = 256  # acknowledgements of one request


class Leases:
    """Event loop only. One per consumer."""

    def __init__(self, calls: PopCalls, clock: Clock, group: str, linger_s: float) -> None:
        self.clock = clock
        self._calls = calls
        self._group = group
        self._linger_s = linger_s
        self._open: dict[Popped, None] = {}
        self._gathered: dict[str, list[Popped]] = {}  # by broker: to be acknowledged by the next request
        self._under_way: Counter[str] = Counter()  # requests, by broker
        self._changing: dict[Popped, asyncio.Future[None]] = {}  # whose receipt may be another in a moment
        self._tasks = Tasks(lambda fault: log.error("an acknowledgement failed", group=group, fault=repr(fault)))
        self._failures: list[Acking] = []  # of which somebody must hear

    @property
    def open(self) -> list[Popped]:
        return [each for each in self._open if not each.is_expired]

    def add(self, messages: Iterable[Popped]) -> None:
        for each in [each for each in self._open if each.is_expired]:
            del self._open[each]
        self._open.update(dict.fromkeys(messages))

    # --- acknowledgements -----------------------------------------------------------------------------------------

    def ack(self, message: Popped) -> Acking:
        """Acknowledge soon, with others. A second call returns what the first one did."""
        if message.acking is not None:
            return message.acking
        acking = Acking(asyncio.get_running_loop().create_future())
        if (fault := self._fault(message)) is not None:
            self._fail(acking, fault)
            return acking
        message.state, message.acking = LeaseState.ACKING, acking
        if (changing := self._changing.get(message)) is None:
            self._gather(message)
        else:
            changing.add_done_callback(lambda _: self._ack_changed(message, acking))
        return acking

    def _ack_changed(self, message: Popped, acking: Acking) -> None:
        """Acknowledge by the receipt that a change has brought; a dead letter is done already."""
        if message.state is LeaseState.ACKING:
            self._gather(message)
        elif not acking.future.done():
            acking.future.set_result(None)

    def _gather(self, message: Popped) -> None:
        broker = message.queue.broker_name
        gathered = self._gathered.get(broker)
        if gathered is None:
            gathered = self._gathered[broker] = []
            if self._linger_s > 0:
                self.clock.call_later(self._linger_s, self._send, broker, gathered)
            elif not self._under_way[broker]:
                asyncio.get_running_loop().call_soon(self._send, broker, gathered)
        gathered.append(message)
        if len(gathered) >= MOST_GATHERED:
            self._send(broker, gathered)

    def _send(self, broker: str, messages: list[Popped]) -> None:
        if self._gathered.get(broker) is messages:  # else they have left, since they were many or by `flush`
            del self._gathered[broker]
            self._under_way[broker] += 1
            self._tasks.start(self._settle(broker, messages))

    async def _settle(self, broker: str, messages: list[Popped]) -> None:
        try:
            await self._calls.ack(messages)
        except Error as fault:
            log.warning("messages not acknowledged", group=self._group, messages=len(messages), fault=str(fault))
            for each in messages:
                acking, each.acking, each.state = each.acking, None, LeaseState.OPEN
                if acking is not None:
                    self._fail(acking, fault)
        else:
            for each in messages:
                self._end(each, LeaseState.DONE)
                if each.acking is not None and not each.acking.future.done():
                    each.acking.future.set_result(None)
        finally:
            self._under_way[broker] -= 1
            if self._linger_s <= 0 and (more := self._gathered.get(broker)):
                self._send(broker, more)

    def _fail(self, acking: Acking, fault: Error) -> None:
        if not acking.future.done():
            acking.future.set_exception(fault)
            acking.future.exception()  # else asyncio would log it, too
            self._failures = [*(each for each in self._failures[-MOST_GATHERED:] if not each.is_awaited), acking]

    async def flush(self) -> None:
        """Send the acknowledgements now and wait for their answers. Raise the first failure that nobody awaited."""
        if self._changing:
            await asyncio.wait(self._changing.values())
        for broker, messages in tuple(self._gathered.items()):
            self._send(broker, messages)
        await self._tasks.finished()
        failures, self._failures = self._failures, []
        for each in failures:
            if not each.is_awaited:
                await each

    # --- later, or never again ------------------------------------------------------------------------------------

    async def later(self, message: Popped, seconds: Seconds, *, counts: bool = True) -> None:
        """Change when a message comes again. Raise ReceiptExpired, if it does already."""
        length_s = seconds_of(seconds)
        if not 0 <= length_s < float("inf"):
            raise Error(f"later({seconds!r}) is no number of seconds of 0 or more", hint="Write later(30)")
        async with self._alone(message):
            self._check(message)
            receipt = await self._calls.change(message, length_s, counts=counts)
            message.receipt, message.until = receipt, self.clock.monotonic() + length_s

    async def dead_letter(self, message: Popped, reason: str) -> None:
        check_kind("the reason", reason, str, "a text")
        async with self._alone(message):
            self._check(message)
            await self._calls.dead_letter(message, reason)
            self._end(message, LeaseState.DONE)

    async def give_back(self, messages: Iterable[Popped], *, counts: bool = False) -> None:
        """Let these come again at once, for anybody. What fails comes again after its invisible time."""
        await asyncio.gather(*(self._give_back(each, counts=counts) for each in messages))

    async def _give_back(self, message: Popped, *, counts: bool) -> None:
        async with self._alone(message):
            if self._fault(message) is not None:
                return
            message.state = LeaseState.RETURNING
            try:
                await self._calls.change(message, 0, counts=counts)
            except Error as fault:
                log.debug("message not given back", group=self._group, id=message.id, fault=str(fault))
            finally:
                self._end(message, LeaseState.RETURNED)

    @asynccontextmanager
    async def _alone(self, message: Popped) -> AsyncIterator[None]:
        """Wait for what is under way with the message, and let what comes next wait for this."""
        while (before := self._changing.get(message)) is not None:
            await asyncio.wait((before,))
        self._changing[message] = now = asyncio.get_running_loop().create_future()
        try:
            yield
        finally:
            del self._changing[message]
            now.set_result(None)

    async def close(self) -> None:
        """Wait for the acknowledgements, and give back whatever is open: it comes again at once."""
        try:
            await self.flush()
        except Error as fault:
            log.warning("messages not acknowledged, they come again", group=self._group, fault=str(fault))
        await self.give_back(tuple(self._open), counts=True)

    def _end(self, message: Popped, state: LeaseState) -> None:
        message.state = state
        self._open.pop(message, None)

    def _check(self, message: Popped) -> None:
        if (fault := self._fault(message)) is not None:
            raise fault

    def _fault(self, message: Popped) -> Error | None:
        """Return why nothing can be done with the message any more; None if it is ours."""
        if message.state is not LeaseState.OPEN:
            return Error(f"message {message.id} is {message.state.value}", hint="It is no longer this consumer's")
        if not message.is_expired:
            return None
        late_s = self.clock.monotonic() - message.until
        return ReceiptExpired(
            f"the invisible time of message {message.id} was over {late_s:.3g} s ago: it comes again",
            hint="Give it more time: invisible_s of the consumer, or `await message.later(60)` while you work on it",
        )
