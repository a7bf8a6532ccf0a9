"""Request 370: a message that waits for its time is called back.

A marker is put to the timer, in the slot of the message; when the slot comes, neither of the two is delivered.
Codes and remarks are those of Java; what is too late or too early is said in words. A message that was recalled before
gets no second marker, since each takes one from the count of what waits: the answer is the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from ...config import Live
from ...errors import RequestRefused
from ...model.codes import ResponseCode
from ...model.message import Property
from ...model.names import TIMER_TOPIC
from ...model.recall_handle import BadHandle, RecallHandle, decode_handle
from ...model.topic import Perm
from ...protocol.headers.send import RecallMessage
from ...protocol.properties import decode_properties, encode_properties
from ...protocol.record import Record
from ...store.log.reader import KeyQuery
from ...transport.dispatch import Reply, RequestOf
from ..config import BrokerConfig
from ..intake.intake import LogAccess, Outcome
from ..metadata.topics import Topics
from .timer_park import TimerPark, delete_key

TAG = "_RECALL_TAG_"
REMEMBERED = 1_000  # markers that the index may not know yet

_Identity = tuple[str | None, ...]


@dataclass(slots=True, eq=False, repr=False)
class Recall:
    """Event loop only."""

    live: Live[BrokerConfig]
    topics: Topics
    access: LogAccess
    park: TimerPark
    born_host: Callable[[str], bytes]  # packs a peer's address as a record holds it
    _latest: dict[_Identity, asyncio.Future[Outcome]] = field(default_factory=dict)

    async def __call__(self, request: RequestOf[RecallMessage, None]) -> Reply:
        header = request.header
        config = self.live.config
        region = {"MSG_REGION": config.region_id}
        try:
            handle = self._checked(header, config)
            marker = self.park.until(self._marker(header, handle, request.peer.address), handle.time_ms)
        except RequestRefused as refused:
            refused.fields = region
            raise
        if not await self._is_recalled(marker, handle.unique):
            outcome = await asyncio.shield(self._put(marker, config.put_wait_s))
            if outcome.refusal is not None:
                outcome.refusal.fields = region
                raise outcome.refusal
        return Reply(fields={"msgId": handle.unique} | region)

    async def _is_recalled(self, marker: Record, unique: str) -> bool:
        """Return whether the same marker is stored, which the index knows, also after a restart."""
        wanted = _identity(marker)
        if wanted in self._latest:
            return False  # its put is asked
        return any(_identity(one) == wanted for one in await self.access.store.by_key(KeyQuery(TIMER_TOPIC, unique)))

    def _put(self, marker: Record, wait_s: float) -> asyncio.Future[Outcome]:
        """Return its outcome, or that of the same one just before. Who goes away must not end it for others."""
        identity = _identity(marker)
        before = self._latest.get(identity)
        if before is not None:
            return before
        ended: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

        def end(outcome: Outcome) -> None:
            if outcome.refusal is None:
                self.access.count(TIMER_TOPIC, 0, 1, outcome.places[-1].size)
            else:
                self._latest.pop(identity, None)
            if not ended.done():
                ended.set_result(outcome)

        if len(self._latest) >= REMEMBERED:
            del self._latest[next(iter(self._latest))]
        self._latest[identity] = ended
        self.access.intake.put(marker, end, wait_s)
        return ended

    def _checked(self, header: RecallMessage, config: BrokerConfig) -> RecallHandle:
        """Check a recall in Java's order."""
        if not config.recall_message_enable:
            raise RequestRefused(
                "recall failed, operation is forbidden: recallMessageEnable is false", ResponseCode.NO_PERMISSION
            )
        writable = config.broker_permission & Perm.WRITE or config.allow_recall_when_broker_not_writeable
        if self.access.clock.now_ms() < config.start_accept_send_request_time_stamp or not writable:
            raise RequestRefused("recall failed, broker service not available", ResponseCode.SERVICE_NOT_AVAILABLE)
        if self.topics.find(header.topic) is None:
            raise RequestRefused(f"recall failed, the topic[{header.topic}] not exist", ResponseCode.TOPIC_NOT_EXIST)
        try:
            handle = decode_handle(header.recall_handle)
        except BadHandle as bad:
            raise _illegal(str(bad)) from None
        if handle.topic != header.topic:
            raise _illegal(f"recall failed, topic not match: the handle is of {handle.topic}")
        if handle.broker != config.broker_name:
            raise _illegal(f"recall failed, broker service not available: the message is at {handle.broker}")
        ahead_ms = handle.time_ms - self.access.clock.now_ms()
        if ahead_ms <= 0:
            raise _illegal(f"recall failed, timestamp invalid: the message was due {-ahead_ms} ms ago, it is too late")
        if ahead_ms >= config.timer_max_delay_sec * 1000:
            raise _illegal(
                f"recall failed, timestamp invalid: {ahead_ms} ms ahead is beyond timerMaxDelaySec "
                f"({config.timer_max_delay_sec} s)"
            )
        return handle

    def _marker(self, header: RecallMessage, handle: RecallHandle, address: str) -> Record:
        now, config = self.access.clock.now_ms(), self.live.config
        unique = handle.unique
        pairs = {
            Property.TAGS: TAG,
            Property.TIMER_DEL_UNIQKEY: delete_key(config.append_topic_for_timer_delete_key, handle.topic, unique),
            Property.UNIQ_KEY: unique,
            Property.TIMER_DELIVER_MS: str(handle.time_ms),
            Property.BORN_TIMESTAMP: str(now),
            Property.PGROUP: header.producer_group or "",
        }
        try:
            properties = encode_properties(pairs)
        except ValueError as fault:
            raise _illegal(f"recall handle is invalid: {fault}") from None
        return Record(
            topic=handle.topic,
            queue_id=0,
            body=b"0",
            properties=properties,
            born_timestamp=now,
            born_host=self.born_host(address),
            store_host=self.access.store_host,
        )


def _identity(record: Record) -> _Identity:
    """Return what markers of the same message have in common. That of a message has no key."""
    pairs = decode_properties(record.properties)
    return tuple(pairs.get(name) for name in (Property.TIMER_DEL_UNIQKEY, Property.REAL_TOPIC, Property.TIMER_OUT_MS))


def _illegal(why: str) -> RequestRefused:
    return RequestRefused(why, ResponseCode.ILLEGAL_OPERATION)
