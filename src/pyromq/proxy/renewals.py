"""Messages that clients hold and that are renewed for them, until they are acknowledged or their client is gone.

A push consumer gets messages for a minute; while it has them the endpoint makes that longer, in Java's steps, for three
hours. The client keeps the first receipt: whatever it does with that is done with the newest one. All renewals are one
heap by time with one timer.

Nearly all messages are acknowledged within seconds. Where the broker can be asked which messages of an answer are still
open (`OpenReceipts`), an answer is one entry for its first seconds, and only what is open then becomes a `Held`.
"""

from __future__ import annotations

import asyncio
import heapq
import struct
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any, NamedTuple, Protocol

from .. import logs
from ..ambient import Clock, Timer
from ..errors import CallFailed
from ..kernel.grpc_pops import PLACE
from ..model.receipt import Receipt
from ..protocol.grpc.v2 import Code
from ..protocol.requests import RequestCode
from .backend import Backend
from .calls import BROKER_S
from .clients.peers import CallPeer
from .clients.settings import retry_delay_ms
from .config import ProxySettings
from .receipts import change_header, changed_receipt, read_receipt
from .statuses import Denied

log = logs.get("pyromq.proxy")

_LONGER_MS = (60_000, 180_000, 300_000, 600_000, 1_800_000, 3_600_000)
_AGAIN_MS = 1_000  # after a renewal that failed
YOUNG_MS = 5_000  # brokers keep check points at hand for twice as long
_TICK_S = 1.0
_PLACE = struct.Struct(PLACE)


class OpenReceipts(Protocol):
    """A broker whose young check points can be looked at."""

    def open_offsets(self, group: str, topic: str, receipt: Receipt) -> Collection[int]:
        """Return the messages of a receipt's check point that were neither acknowledged nor changed."""


class Young(NamedTuple):
    """Messages of one check point that a client has just been handed. `places`: `kernel.grpc_pops.PLACE` of each."""

    group: str
    topic: str
    receipt: Receipt
    places: bytes
    since_ms: int


@dataclass(eq=False, slots=True)
class Held:
    """A message that a client has and that is renewed. `reconsumed`: how often it was delivered before."""

    client_id: str
    group: str
    topic: str
    first: str
    receipt: Receipt
    reconsumed: int
    since_ms: int
    renewals: int = 0
    failures: int = 0
    is_over: bool = False
    quiet: asyncio.Event = field(default_factory=asyncio.Event)  # set while no renewal is under way


class Renewals:
    """Event loop only."""

    def __init__(
        self,
        backend: Backend,
        settings: ProxySettings,
        clock: Clock,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._backend, self._settings, self._clock, self._spawn = backend, settings, clock, spawn
        self.open_points: OpenReceipts | None = None
        self.held: dict[tuple[str, str], dict[str, Held]] = {}  # by client and group, then by first receipt
        self._young: dict[str, deque[Young]] = {}  # by client
        self._aging: Timer | None = None
        self._due: list[tuple[int, int, Held]] = []
        self._numbers = count()
        self._timer: Timer | None = None
        self._timer_at = 0

    def __len__(self) -> int:
        young = sum(len(list(self._open(one))) for answers in self._young.values() for one in answers)
        return young + sum(map(len, self.held.values()))

    def hold(self, client_id: str, group: str, topic: str, receipt: Receipt, reconsumed: int) -> None:
        """Renew a message from now on, until its receipt is taken or its client gone."""
        self.hold_answer(
            client_id, group, topic, receipt, _PLACE.pack(receipt.offset, receipt.position, reconsumed & 0x7FFFFFFF)
        )

    def hold_answer(self, client_id: str, group: str, topic: str, receipt: Receipt, places: bytes) -> None:
        """Renew messages of one check point, whose receipts are this one but for their places."""
        young = Young(group, topic, receipt, places, self._clock.now_ms())
        if self.open_points is None or receipt.is_ordered or not self._is_young(young):
            for held in _each(client_id, young):
                self._hold(held)
            return
        self._young.setdefault(client_id, deque()).append(young)
        if self._aging is None:
            self._aging = self._clock.call_later(_TICK_S, self._grow)

    def _is_young(self, young: Young) -> bool:
        """Return whether a later look comes in time: neither too late for a renewal nor for the broker to know."""
        lasts_ms = young.receipt.invisible_ms - self._settings.renew_ahead_time_millis
        return young.since_ms - young.receipt.pop_time < 1000 * _TICK_S and lasts_ms >= 2 * YOUNG_MS

    def _hold(self, held: Held) -> None:
        held.quiet.set()
        self.held.setdefault((held.client_id, held.group), {})[held.first] = held
        self._schedule(held, held.receipt.pop_time + held.receipt.invisible_ms - self._settings.renew_ahead_time_millis)

    # --- answers that were handed out a moment ago ----------------------------------------------------------------

    def _open(self, young: Young, client_id: str = "") -> Iterator[Held]:
        """Return what nobody has acknowledged of an answer."""
        assert self.open_points is not None
        is_open = self.open_points.open_offsets(young.group, young.topic, young.receipt)
        return (held for held in _each(client_id, young) if held.receipt.offset in is_open) if is_open else iter(())

    def _grow(self) -> None:
        self._aging = None
        self.grow(self._clock.now_ms() - YOUNG_MS)

    def grow(self, before_ms: int) -> None:
        """Keep each message that is open of what was handed out by then: its broker may not know for much longer."""
        for client_id, answers in tuple(self._young.items()):
            while answers and answers[0].since_ms <= before_ms:
                for held in self._open(answers.popleft(), client_id):
                    self._hold(held)
            if not answers:
                del self._young[client_id]
        if self._young and self._aging is None:
            self._aging = self._clock.call_later(_TICK_S, self._grow)

    # --- what clients do ------------------------------------------------------------------------------------------

    def is_renewed(self, client_id: str, group: str, text: str) -> bool:
        """Return whether the message of a receipt may have another one by now."""
        return text in self.held.get((client_id, group), ())

    async def newest(self, client_id: str, group: str, text: str) -> Receipt:
        """Return the receipt to use for the one that a client gave, and renew its message no longer."""
        held = self.held.get((client_id, group), {}).get(text)
        if held is None:
            return read_receipt(text)
        self._forget(held)
        await held.quiet.wait()
        return held.receipt

    def give_back(self, client_id: str) -> None:
        """Let the messages of a client come again in a moment: it is gone."""
        for young in self._young.pop(client_id, ()):
            for held in self._open(young, client_id):
                held.quiet.set()
                self._spawn(self._release(held))
        for key in [key for key in self.held if key[0] == client_id]:
            for held in list(self.held[key].values()):
                self._forget(held)
                self._spawn(self._release(held))

    def close(self) -> None:
        """Give back everything: nobody renews it from here on."""
        for timer in (self._timer, self._aging):
            if timer is not None:
                timer.cancel()
        self._timer = self._aging = None
        for client_id in {*self._young, *(key[0] for key in self.held)}:
            self.give_back(client_id)

    def _forget(self, held: Held) -> None:
        held.is_over = True
        key = (held.client_id, held.group)
        of_client = self.held.get(key, {})
        if of_client.get(held.first) is held:
            del of_client[held.first]
        if not of_client:
            self.held.pop(key, None)

    async def _release(self, held: Held) -> None:
        await held.quiet.wait()
        if self._clock.now_ms() < held.receipt.pop_time + held.receipt.invisible_ms:
            await self._change(held, self._settings.invisible_time_millis_when_clear)

    # --- renewing -------------------------------------------------------------------------------------------------

    def _schedule(self, held: Held, due_ms: int) -> None:
        heapq.heappush(self._due, (due_ms, next(self._numbers), held))
        self._set_timer()

    def _set_timer(self) -> None:
        while self._due and self._due[0][2].is_over:
            heapq.heappop(self._due)
        if not self._due or (self._timer is not None and self._timer_at <= self._due[0][0]):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = self._due[0][0]
        wait_s = max(0, self._timer_at - self._clock.now_ms()) / 1000
        self._timer = self._clock.call_later(wait_s, self._renew_due)

    def _renew_due(self) -> None:
        self._timer = None
        now = self._clock.now_ms()
        while self._due and (self._due[0][0] <= now or self._due[0][2].is_over):
            held = heapq.heappop(self._due)[2]
            if not held.is_over:
                held.quiet.clear()
                self._spawn(self._renew(held))
        self._set_timer()

    async def _renew(self, held: Held) -> None:
        settings, now = self._settings, self._clock.now_ms()
        is_last = now - held.since_ms >= settings.renew_max_time_millis
        try:
            if is_last:
                longer_ms = retry_delay_ms(await self._backend.group(held.group), held.reconsumed)
            else:
                longer_ms = _LONGER_MS[min(held.renewals, len(_LONGER_MS) - 1)]
            await self._change(held, longer_ms)
        except (CallFailed, Denied) as fault:
            held.failures += 1
            is_final = isinstance(fault, Denied) and fault.code in (Code.INVALID_RECEIPT_HANDLE, Code.BAD_REQUEST)
            if is_final or held.failures >= settings.max_renew_retry_times:
                log.warning("a message is renewed no longer", client=held.client_id, group=held.group, why=str(fault))
                self._forget(held)
            else:
                self._schedule(held, now + _AGAIN_MS)
        else:
            held.renewals, held.failures = held.renewals + 1, 0
            if is_last:
                log.warning("a message was held for too long, it comes again", client=held.client_id, group=held.group)
                self._forget(held)
            elif not held.is_over:
                ends = held.receipt.pop_time + held.receipt.invisible_ms
                self._schedule(held, ends - settings.renew_ahead_time_millis)
        finally:
            held.quiet.set()

    async def _change(self, held: Held, invisible_ms: int) -> None:
        peer = CallPeer("127.0.0.1:0")
        header = change_header(held.group, held.topic, held.receipt, invisible_ms)
        answer = await self._backend.call(
            held.receipt.broker, RequestCode.CHANGE_MESSAGE_INVISIBLETIME, header, peer=peer, timeout_s=BROKER_S
        )
        held.receipt = changed_receipt(held.receipt, answer)


def _each(client_id: str, young: Young) -> Iterator[Held]:
    """Return the messages of an answer one by one."""
    for offset, position, reconsumed in _PLACE.iter_unpack(young.places):
        receipt = young.receipt._replace(offset=offset, position=position)
        first = receipt.encode_with_position()
        yield Held(client_id, young.group, young.topic, first, receipt, reconsumed, young.since_ms)
