"""Receipts of messages that clients hold: decoded, changed, and renewed for clients that asked for it.

A push consumer gets messages for a minute; while it has them the endpoint makes that longer, in Java's steps, for three
hours. The client keeps the first receipt: whatever it does with that is done with the newest one. All renewals are one
heap by time with one timer.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from .. import logs
from ..ambient import Clock, Timer
from ..errors import CallFailed
from ..model.codes import ResponseCode
from ..model.pop_names import popped_topic
from ..model.receipt import BadReceipt, Receipt, decode_receipt
from ..protocol.command import Command
from ..protocol.grpc.v2 import Code
from ..protocol.headers.pop import AckMessage, ChangeInvisibleTime, ChangeInvisibleTimeAnswer
from ..protocol.requests import RequestCode
from .backend import Backend
from .calls import BROKER_S
from .clients.peers import CallPeer
from .clients.settings import retry_delay_ms
from .config import ProxySettings
from .statuses import Denied, from_broker, refused

log = logs.get("pyromq.proxy")

_LONGER_MS = (60_000, 180_000, 300_000, 600_000, 1_800_000, 3_600_000)
_AGAIN_MS = 1_000  # after a renewal that failed


def read_receipt(text: str) -> Receipt:
    """Decode a client's receipt. Denied in Java's words, with the code that it has for what is none."""
    fields = text.count(" ") + 1
    if fields < 8:
        raise Denied(Code.INTERNAL_SERVER_ERROR, f"Parse failed, dataList size {fields}")
    try:
        return decode_receipt(text)
    except BadReceipt as fault:
        raise Denied(Code.INTERNAL_SERVER_ERROR, str(fault)) from None


def check_valid(receipt: Receipt, now_ms: int) -> None:
    if now_ms >= receipt.pop_time + receipt.invisible_ms:
        raise refused(Code.INVALID_RECEIPT_HANDLE, "receipt handle is expired")


def ack_header(group: str, topic: str, receipt: Receipt, lite_topic: str = "") -> AckMessage:
    return AckMessage(
        consumer_group=group,
        topic=popped_topic(topic, group, receipt.retry),
        queue_id=receipt.queue_id,
        extra_info=receipt.encode(),
        offset=receipt.offset,
        lite_topic=lite_topic or None,
    )


def change_header(
    group: str, topic: str, receipt: Receipt, invisible_ms: int, *, suspend: bool = False, lite_topic: str = ""
) -> ChangeInvisibleTime:
    return ChangeInvisibleTime(
        consumer_group=group,
        topic=popped_topic(topic, group, receipt.retry),
        queue_id=receipt.queue_id,
        extra_info=receipt.encode(),
        offset=receipt.offset,
        invisible_time=invisible_ms,
        suspend=suspend,
        lite_topic=lite_topic or None,
    )


def changed_receipt(receipt: Receipt, answer: Command) -> Receipt:
    """Return the receipt after a change. Denied if the broker did not change it."""
    if answer.code != ResponseCode.SUCCESS:
        raise from_broker(answer.code, answer.remark)
    header = ChangeInvisibleTimeAnswer.from_fields(answer.fields)
    return receipt._replace(
        start=receipt.offset,
        pop_time=header.pop_time,
        invisible_ms=header.invisible_time,
        revive_queue=header.revive_qid,
    )


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
        self._held: dict[tuple[str, str], dict[str, Held]] = {}  # by client and group, then by first receipt
        self._due: list[tuple[int, int, Held]] = []
        self._numbers = count()
        self._timer: Timer | None = None
        self._timer_at = 0

    def __len__(self) -> int:
        return sum(map(len, self._held.values()))

    def hold(self, client_id: str, group: str, topic: str, receipt: Receipt, reconsumed: int) -> None:
        """Renew a message from now on, until its receipt is taken or its client gone."""
        first = receipt.encode_with_position()
        held = Held(client_id, group, topic, first, receipt, reconsumed, self._clock.now_ms())
        held.quiet.set()
        self._held.setdefault((client_id, group), {})[first] = held
        self._schedule(held, receipt.pop_time + receipt.invisible_ms - self._settings.renew_ahead_time_millis)

    async def newest(self, client_id: str, group: str, text: str) -> Receipt:
        """Return the receipt to use for the one that a client gave, and renew its message no longer."""
        held = self._held.get((client_id, group), {}).get(text)
        if held is None:
            return read_receipt(text)
        self._forget(held)
        await held.quiet.wait()
        return held.receipt

    def give_back(self, client_id: str) -> None:
        """Let the messages of a client come again in a moment: it is gone."""
        for key in [key for key in self._held if key[0] == client_id]:
            for held in list(self._held[key].values()):
                self._forget(held)
                self._spawn(self._release(held))

    def close(self) -> None:
        """Give back everything: nobody renews it from here on."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for client_id in {key[0] for key in self._held}:
            self.give_back(client_id)

    def _forget(self, held: Held) -> None:
        held.is_over = True
        key = (held.client_id, held.group)
        of_client = self._held.get(key, {})
        if of_client.get(held.first) is held:
            del of_client[held.first]
        if not of_client:
            self._held.pop(key, None)

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
