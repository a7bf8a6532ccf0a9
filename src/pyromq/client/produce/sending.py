"""One message to one queue, and again elsewhere if that fails: which queue next, how long, and when to give up.

Used by the producer, and by consumers that give messages back by sending them. A send without key goes to another
broker after a failure; a send with a key stays on the queue of its key, so that its order holds. While a broker is away
or changes its master, attempts cost time alone: the route is read again until there is a master or the time is over.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from itertools import count

import msgspec

from ...model.codes import ResponseCode
from ...protocol.bodies.keyed import MessageQueue
from ...protocol.headers.send import SendMessageAnswer
from ..arguments import check_count, check_length
from ..connect.answers import header_of
from ..connect.session import Session, master_of
from ..core.retry import RETRIED_CODES, announced_pause_s, busy_pause_s, growing_pause_s, may_be_switching
from ..core.routing import Latencies, Rotation, Route
from ..errors import Error, NoBroker, NoNameServer, Refused, TimedOut, Unreachable, refused
from .outgoing import Outgoing, SendHeaders
from .queue_choice import QueueChoice, always
from .slow_sends import SlowSends

DEFAULT_REGION = "DefaultRegion"  # Java's, of brokers that do not name theirs


class SendStatus(Enum):
    """The message is stored in any case; anything but OK says what of the broker's promise is missing."""

    OK = 0
    FLUSH_DISK_TIMEOUT = 10
    SLAVE_NOT_AVAILABLE = 11
    FLUSH_SLAVE_TIMEOUT = 12


_STATUSES = {status.value: status for status in SendStatus}
_STORED = tuple(_STATUSES)
_FIRST_PAUSE_S, _MOST_PAUSE_S = 0.04, 0.25  # between attempts at a broker that is away, or no master now
_NO_SUCH_QUEUE = "request queueId["  # what brokers say, Apache's too, of a queue that the topic does not have


class SendResult(msgspec.Struct, frozen=True, kw_only=True):
    """Where a message went. Of a batch each message has its own."""

    message_id: str
    offset_message_id: str
    queue: MessageQueue
    queue_offset: int
    status: SendStatus = SendStatus.OK
    recall_handle: str | None = None  # of a message with a delivery time, where the broker can take it back
    region: str = DEFAULT_REGION
    is_traced: bool = True  # False: the broker wants no traces


@dataclass(frozen=True, slots=True, kw_only=True)
class SendPolicy:
    """`retries` on top of the first attempt; `timeout_s` for all of them together.

    A SYNC_MASTER answers after slaveTimeout, 3 s, if its slaves are late: that answer should be heard."""

    timeout_s: float = 3.5
    retries: int = 2
    retry_not_ok: bool = False  # also repeat a message that was stored, but not flushed or copied in time
    avoid_slow_brokers: bool = True
    once: bool = False  # name each send for the brokers' duplicate window, and repeat it where it may be stored

    def __post_init__(self) -> None:
        check_length("timeout_s", self.timeout_s)
        check_count("retries", self.retries, least=0, example=2)


class Sender:
    """Event loop only. One per producer: what it learns of brokers serves all its sends."""

    def __init__(self, session: Session, group: str, policy: SendPolicy) -> None:
        self._session = session
        self._headers = SendHeaders(group)
        self._policy = policy
        self._repeated = RETRIED_CODES.union(_STORED if policy.retry_not_ok else ())
        self._rotation = Rotation(session.rng)
        self._latencies = Latencies()
        self._slow = SlowSends(session)
        self._number = next(session.sender_numbers)
        self._sent = 0

    async def send(
        self, message: Outgoing, choose: QueueChoice | None = None, timeout_s: float | None = None
    ) -> list[SendResult]:
        """Return one result per message. Raise the last failure, or the one of an attempt that may be stored."""
        clock = self._session.clock
        now = clock.monotonic()
        deadline = now + (self._policy.timeout_s if timeout_s is None else timeout_s)
        last_broker = ""
        faults: list[Error] = []
        if self._policy.once:
            self._sent += 1  # `PRODUCER/EPOCH/SEQUENCE`, see docs/duplicates.md; epoch 0: no id is ever taken over
            message.name_send(f"{self._session.ids.of_process}:{self._number}/0/{self._sent}")
        while not faults or (self._attempts_left(faults) > 0 and now < deadline):
            queue: MessageQueue | None = None
            try:
                route = self._session.known_route(message.topic)
                if route is None or not self._is_usable(route, choose):
                    route = await self._route(message.topic, deadline - now, by_key=choose is not None)
                    now = clock.monotonic()
                queue = choose(route.for_keys) if choose else self._next_queue(route, last_broker, now)
                share_s = self._share_s(route, choose, deadline - now, faults)
                return await self._attempt(message, route, queue, share_s, now)
            except Error as fault:
                faults.append(fault)
                if not self._is_repeated(fault):
                    if await self._has_moved(queue, choose, fault, deadline):
                        now = clock.monotonic()
                        continue
                    if any(each.may_be_stored for each in faults[:-1]):
                        break
                    raise
            if queue is not None:
                if self._policy.once and isinstance(faults[-1], Unreachable | TimedOut):
                    choose = always(queue)  # it may be stored there, and no other broker would know
                last_broker = queue.broker_name
                self._latencies.failed(last_broker, clock.monotonic())
            await self._wait(message.topic, queue, choose, faults, deadline)
            now = clock.monotonic()
        raise self._failure(message.topic, faults)

    def _is_repeated(self, fault: Error) -> bool:
        return isinstance(fault, Unreachable | TimedOut | NoBroker) or fault.code in self._repeated

    async def _has_moved(
        self, queue: MessageQueue | None, choose: QueueChoice | None, fault: Error, deadline: float
    ) -> bool:
        """Return whether the topic has other queues by now than those of the known route, which is read again."""
        if queue is None or fault.code != ResponseCode.INVALID_PARAMETER or _NO_SUCH_QUEUE not in str(fault):
            return False
        try:
            async with self._session.clock.timeout(max(0.0, deadline - self._session.clock.monotonic())):
                queues = _queues(await self._session.read_route(queue.topic), choose)
        except (Error, TimeoutError):
            return False
        return queue not in queues and bool(queues) and (choose is None or choose(queues) != queue)

    def _attempts_left(self, faults: list[Error]) -> int:
        """Return how many attempts are left. A broker that is away, no master now, or says when to come again, costs
        time instead."""
        return self._policy.retries + 1 - sum(not (_is_passing(fault) or _says_when(fault)) for fault in faults)

    async def send_oneway(self, message: Outgoing, choose: QueueChoice | None = None) -> None:
        route = await self._route_to_write(message.topic, by_key=choose is not None)
        queue = choose(route.for_keys) if choose else self._next_queue(route, "", self._session.clock.monotonic())
        fields = self._headers.fields(message, queue, self._session.clock.now_ms())
        address = self._session.sends_to(master_of(route, queue))
        await self._session.send_oneway(address, message.code, fields, message.body)

    async def _route(self, topic: str, left_s: float, *, by_key: bool) -> Route:
        """Return the route. While no name server answers they are asked again: NoNameServer once the time is over."""
        clock = self._session.clock
        fault: Error = TimedOut(f"no route of {topic!r} within {left_s:g} s", hint="Are the name servers well?")
        try:
            async with clock.timeout(left_s):
                for attempt in count(1):
                    try:
                        return await self._route_to_write(topic, by_key=by_key)
                    except NoNameServer as away:
                        if away.is_explained:  # by the certificate, for instance: that does not pass
                            raise
                        fault = away
                    await clock.sleep(busy_pause_s(attempt, self._session.rng))
        except TimeoutError:
            pass
        raise fault

    async def _route_to_write(self, topic: str, *, by_key: bool) -> Route:
        route = await self._session.route_to_write(topic, by_key=by_key)
        if not by_key and len(route.writers) > 1 and self._session.known_route(topic) is None:
            self._session.new_topics.note_sent(route)
        return route

    def _is_usable(self, route: Route, choose: QueueChoice | None) -> bool:
        """Return whether the route has queues, and for a key all of them: a send may have just made the topic."""
        is_partial = choose is not None and self._session.new_topics.may_be_partial(route.topic)
        return bool(_queues(route, choose)) and not is_partial

    def _next_queue(self, route: Route, last_broker: str, now: float) -> MessageQueue:
        queues = route.writable
        if len(route.writers) == 1:
            return self._rotation.next(queues)
        others = route.writers - {last_broker} or {last_broker}
        if self._policy.avoid_slow_brokers:
            well = {name for name in others if self._latencies.is_available(name, now)}
            others = well or {self._latencies.least_bad(others, now)}
            if len(others) == len(route.writers):
                return self._rotation.next(queues)
        return self._rotation.pick(queues, lambda queue: queue.broker_name in others) or queues[0]

    def _share_s(self, route: Route, choose: QueueChoice | None, left_s: float, faults: list[Error]) -> float:
        """Return the time for one attempt: a hung broker leaves time for another, and gets all where there is none."""
        has_others = choose is None and len(route.writers) > 1
        return max(left_s / self._attempts_left(faults) if has_others else left_s, 0.001)

    async def _attempt(
        self, message: Outgoing, route: Route, queue: MessageQueue, timeout_s: float, began: float
    ) -> list[SendResult]:
        clock, address = self._session.clock, self._session.sends_to(master_of(route, queue))
        fields = self._headers.fields(message, queue, clock.now_ms(), timeout_s)
        number = self._slow.begin(message.topic, began)
        try:
            command = await self._session.call(  # as `ask` does, with less around it: every message passes here
                address, message.code, fields, message.body, timeout_s=timeout_s, expected=_STORED
            )
        except TimedOut:
            self._slow.doubt(message.topic)
            raise
        finally:
            self._slow.end(number)
        self._slow.answered(message.topic)
        now = clock.monotonic()
        self._latencies.sent(queue.broker_name, (now - began) * 1000, now)
        if command.code != ResponseCode.SUCCESS and self._policy.retry_not_ok:
            fault = refused(command.code, command.remark, address)
            fault.may_be_stored = True  # in fact it is
            raise fault
        return _results(message, queue, command.code, header_of(message.code, command, address))

    def _has_others(self, topic: str, choose: QueueChoice | None, faults: list[Error]) -> bool:
        """Return whether another broker may take it that has not said when to come again."""
        route = self._session.known_route(topic)
        if route is None or choose is not None:
            return False
        return len(route.writers) > len({fault.address for fault in faults if _says_when(fault)})

    async def _wait(
        self, topic: str, queue: MessageQueue | None, choose: QueueChoice | None, faults: list[Error], deadline: float
    ) -> None:
        """Wait before the next attempt at a broker that is busy or away; not if its master is elsewhere by now."""
        clock, fault, rng = self._session.clock, faults[-1], self._session.rng
        if _is_passing(fault):
            await self._session.routes.reread(topic, max(0.0, deadline - clock.monotonic()))
            master = None if queue is None else self._session.known_master(queue)
            is_elsewhere = master is not None and self._session.sends_to(master) != fault.address
            if is_elsewhere and not isinstance(fault, NoBroker):
                return
            pause_s = growing_pause_s(_FIRST_PAUSE_S, _MOST_PAUSE_S, sum(map(_is_passing, faults)), rng)
            await self._session.routes.wait_for_change(min(pause_s, max(0.0, deadline - clock.monotonic())))
            return
        if fault.code != ResponseCode.SYSTEM_BUSY:
            return
        pause_s = busy_pause_s(sum(each.code == ResponseCode.SYSTEM_BUSY for each in faults), rng)
        if not self._has_others(topic, choose, faults):
            pause_s = announced_pause_s(fault, pause_s, rng)
        await clock.sleep(min(pause_s, max(0.0, deadline - clock.monotonic())))

    def _failure(self, topic: str, faults: list[Error]) -> Error:
        """Return the error of all attempts. One that may have stored the message counts more than those after it."""
        last, text = faults[-1], f"sending to {topic!r} failed {len(faults)} times"
        doubts = [fault for fault in faults if fault.may_be_stored]
        if doubts:
            doubt = doubts[-1]
            text += f", and the message may be stored: {doubt}" + ("" if doubt is last else f" At last: {last}")
            return _as_said(doubt, type(doubt)(text, address=doubt.address, code=doubt.code, may_be_stored=True))
        if all(isinstance(fault, Unreachable | NoBroker) for fault in faults):
            return NoBroker(f"no broker of topic {topic!r} can be reached: {last}", address=last.address)
        return _as_said(last, type(last)(f"{text}, at last: {last}", address=last.address, code=last.code))


def _as_said(fault: Error, failure: Error) -> Error:
    """Return the failure with the broker's own words, and when it said to come again."""
    if isinstance(fault, Refused) and isinstance(failure, Refused):
        failure.remark, failure.retry_after_ms = fault.remark, fault.retry_after_ms
    return failure


def _queues(route: Route, choose: QueueChoice | None) -> tuple[MessageQueue, ...]:
    return route.writable if choose is None else route.for_keys


def _is_passing(fault: Error) -> bool:
    """Return whether the broker is away, or is not the master now: it, or another one, will be."""
    if isinstance(fault, Unreachable | NoBroker):
        return True
    return isinstance(fault, Refused) and may_be_switching(fault.code, fault.remark)


def _says_when(fault: Error) -> bool:
    return isinstance(fault, Refused) and fault.retry_after_s is not None


def _results(message: Outgoing, queue: MessageQueue, code: int, header: SendMessageAnswer) -> list[SendResult]:
    if header.queue_id is not None and header.queue_id != queue.queue_id:
        queue = MessageQueue(broker_name=queue.broker_name, queue_id=header.queue_id, topic=queue.topic)
    places = [header.msg_id or ""]
    if len(message.ids) > 1:
        places = places[0].split(",")
        places += [""] * (len(message.ids) - len(places))
    first, status = header.queue_offset or 0, _STATUSES[code]
    region, is_traced = header.msg_region or DEFAULT_REGION, header.trace_on is not False
    return [
        SendResult(
            message_id=unique_id,
            offset_message_id=place,
            queue=queue,
            queue_offset=first + number,
            status=status,
            recall_handle=header.recall_handle,
            region=region,
            is_traced=is_traced,
        )
        for number, (unique_id, place) in enumerate(zip(message.ids, places, strict=False))
    ]
