"""Messages that a handler could not deal with go back to their broker, which delivers them later or keeps them dead.

As Java does it: request 36; if that fails, a send of our own to the group's retry topic; if that fails too, the caller
keeps the message and tries again itself.
"""

from __future__ import annotations

from ... import logs
from ...model import names
from ...model.codes import ResponseCode
from ...model.foreign_text import bounded_line
from ...model.message import MOST_REASON_BYTES, Property, SysFlag
from ...protocol.headers.send import ConsumerSendMsgBack
from ...protocol.messages import UnreadableMessage
from ...protocol.properties import MAX_PROPERTIES_BYTES, rejoin_properties
from ...protocol.requests import RequestCode
from ..connect.broker_delays import DelaysOfBrokers
from ..connect.session import Session, master_of
from ..core.retry import (
    BROKER_CHOOSES,
    DEAD_LETTER,
    NO_END,
    BrokerDelays,
    Retry,
    RetryLater,
    level_after,
    reason_of,
    seconds_of,
    send_back_level,
)
from ..errors import BadMessage, Error, Refused
from ..handle.failures import DEAD
from ..produce.outgoing import Packing, pack
from ..produce.sending import Sender, SendPolicy
from ..received import Received
from .group_calls import NO_SETTINGS, group_settings

log = logs.get("pyromq.client")

_GROUP = "CLIENT_INNER_PRODUCER"  # Java's name for it
MOST_REFUSALS = 16  # of a record that nobody can read, before it is left where it is and its queue goes on
# Of such a body. The marks of an inner batch go: brokers take them of no plain send, and this one is broken anyway.
_AS_STORED = SysFlag.COMPRESSED | SysFlag.COMPRESSION_MASK
_NOT_SENT_AGAIN = (Property.CRC32, Property.DELAY, Property.TRAN_MSG, Property.RECONSUME_TIME, Property.OWN_REASON)
_PROPERTY_BYTES = MAX_PROPERTIES_BYTES - 2 * MOST_REASON_BYTES  # beyond it there is no place for a reason


class ConsumerSendBack:
    """Event loop only. One per consumer."""

    def __init__(self, session: Session, group: str, retry: Retry) -> None:
        self._session = session
        self._group = group
        self._retry = retry
        self._sender = Sender(session, _GROUP, SendPolicy())
        self._delays = DelaysOfBrokers(session)

    async def __call__(self, received: Received, fault: Exception) -> bool:
        """Return whether a broker has the message now, which the handler could not deal with for this reason."""
        level = send_back_level(fault, received.message.reconsume_times, self._retry)
        if level == BROKER_CHOOSES and isinstance(fault, RetryLater):
            return await self._give_back_for(received, fault)
        return await self._give_back(received, level, _reason(fault))

    def outlook(self, received: Received, fault: Exception) -> str:
        """Return in words what becomes of the message, as far as it is known here."""
        times = received.message.reconsume_times
        if send_back_level(fault, times, self._retry) == DEAD_LETTER:
            return DEAD
        wanted_s = fault.seconds if isinstance(fault, RetryLater) else seconds_of(level_after(times))
        return f"again in {wanted_s:g} s, unless its broker has other delays"

    async def _give_back_for(self, received: Received, wish: RetryLater) -> bool:
        """Give back for so many seconds: by a timer where the broker has one and no level fits, else by a level."""
        delays = BrokerDelays()
        try:
            delays = await self._delays.of(await self._address(received))
            if (timer_ms := delays.timer_ms(wish.seconds)) is not None:
                await self._send_again(received, BROKER_CHOOSES, _reason(wish), timer_ms)
                return True
        except Error as fault:
            log.info("no timer for a retry, a delay level is used", id=received.id, fault=str(fault))
        return await self._give_back(received, delays.level_for(wish.seconds), _reason(wish))

    async def _give_back(self, received: Received, level: int, reason: str) -> bool:
        """Return whether a broker has it. `level` is a delay level, BROKER_CHOOSES or DEAD_LETTER."""
        unreadable = received.message if isinstance(received.message, UnreadableMessage) else None
        if unreadable is not None and unreadable.is_curable and unreadable.reconsume_times < self._retry.most:
            level = BROKER_CHOOSES  # this client may have the package by then, or another member gets it
        try:
            await self._send_back(received, level, reason)
        except Error as first:
            try:
                await self._send_again(received, level, reason)
            except Error as second:
                about = {"group": self._group, "id": received.id, "then": str(second)}
                self._session.outages.warn("message not given back", first, **about)
                return unreadable is not None and self._is_left(unreadable, first, second)
        return True

    def _is_left(self, message: UnreadableMessage, *faults: Error) -> bool:
        """Return True once brokers have refused an unreadable record often enough: it is skipped."""
        if not all(isinstance(fault, Refused | BadMessage) for fault in faults):
            return False  # nobody there to take it: that passes
        message.refusals += 1
        if message.refusals < MOST_REFUSALS:
            return False
        log.error(
            "a record that cannot be read is skipped: its broker does not take it among the dead letters",
            group=self._group,
            queue_id=message.queue_id,
            offset=message.queue_offset,
            position=message.physical_offset,
            id=message.message_id,
            fault=str(faults[0]),
        )
        return True

    async def send_dead(self, received: Received, fault: Exception) -> bool:
        """Send a message that was kept as a dead letter. What nobody can read goes back as it is stored."""
        if isinstance(received.message, UnreadableMessage):
            return await self._give_back(received, DEAD_LETTER, _reason(fault))
        try:
            await self._send_again(received, DEAD_LETTER, _reason(fault))
        except Error as refusal:
            self._session.outages.warn("message not put among the dead letters", refusal, id=received.id)
            return False
        return True

    async def dead_letter(self, received: Received, reason: str) -> None:
        """Put a message among the dead letters, wherever it came from. Raise what its broker said."""
        text = bounded_line(reason, MOST_REASON_BYTES)
        try:
            await self._send_back(received, DEAD_LETTER, text)
        except Error as fault:
            log.info("a dead letter is sent anew", id=received.id, fault=str(fault))
            await self._send_again(received, DEAD_LETTER, text)

    async def most_retries(self, received: Received) -> int:
        """Return how often this message may come again: our own number, or the group's at the broker of its queue."""
        if not self._retry.of_group:
            return self._retry.most
        try:
            bound = (await group_settings(self._session, await self._address(received), self._group)).retry_max_times
        except Error as fault:
            if fault.code in (*NO_SETTINGS, ResponseCode.NO_PERMISSION):
                return NO_END if self._retry.times is None else self._retry.times
            self._session.outages.warn("the group's bound is not known, the message is kept", fault, group=self._group)
            return NO_END
        return NO_END if bound < 0 else bound

    async def _address(self, received: Received) -> str:
        return master_of(await self._session.route(received.queue.topic), received.queue)

    async def _send_back(self, received: Received, level: int, reason: str) -> None:
        header = ConsumerSendMsgBack(
            offset=received.message.physical_offset,
            group=self._group,
            delay_level=level,
            origin_msg_id=received.id,
            origin_topic=received.wire_topic,
            max_reconsume_times=self._retry.sent_bound,
            bname=received.queue.broker_name,
            pyro_reason=reason or None,
        )
        await self._session.ask(await self._address(received), RequestCode.CONSUMER_SEND_MSG_BACK, header)

    async def _send_again(self, received: Received, level: int, reason: str, timer_ms: int | None = None) -> None:
        message = received.message
        properties = {name: value for name, value in message.properties.items() if name not in _NOT_SENT_AGAIN}
        properties |= {Property.RETRY_TOPIC: received.wire_topic, Property.ORIGIN_MESSAGE_ID: received.id}
        properties.setdefault(Property.UNIQ_KEY, received.id)
        if reason and len(rejoin_properties(properties)) <= _PROPERTY_BYTES:
            properties[Property.OWN_REASON] = reason
        if level == BROKER_CHOOSES:
            level = level_after(message.reconsume_times)
        if timer_ms is not None:
            properties = {name: value for name, value in properties.items() if not name.startswith("TIMER_")}
            properties[Property.TIMER_DELAY_MS] = str(timer_ms)
        elif level != DEAD_LETTER:
            properties[Property.DELAY] = str(level)
        as_stored = isinstance(message, UnreadableMessage)
        packing = Packing(compression=None) if as_stored else Packing()
        outgoing = pack(names.retry_topic(self._group), message.body, properties, packing)
        if as_stored:
            outgoing.sys_flag = message.sys_flag & _AS_STORED
        outgoing.reconsume_times = message.reconsume_times + 1
        # More attempts than allowed: that is how a broker is told to keep it among the dead letters.
        outgoing.max_reconsume_times = 0 if level == DEAD_LETTER else self._retry.sent_bound
        await self._sender.send(outgoing)


def _reason(fault: Exception) -> str:
    return bounded_line(reason_of(fault), MOST_REASON_BYTES)
