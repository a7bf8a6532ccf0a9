"""Where a timed message waits: rmq_sys_wheel_timer, until the slot of its time. Pure: records in, records out.

`intake` asks it for every send with a timer property, `recall.py` parks its markers by it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from ...errors import RequestRefused
from ...model.codes import ResponseCode
from ...model.message import Property
from ...model.names import TIMER_TOPIC
from ...model.wire_text import INT_MAX, LONG_MAX, whole_number
from ...protocol.properties import decode_properties
from ...protocol.record import Record
from ..config import BrokerConfig
from ..intake.message_type import TIMERS, delay_level
from .properties import appended, check_fits, fit_properties
from .timer_records import slot_of

UNLIMITED = INT_MAX
_BEFORE = (Property.TIMER_ENQUEUE_MS, Property.TIMER_DEQUEUE_MS, Property.TIMER_ROLL_TIMES)


class TimerPark:
    """Event loop only."""

    def __init__(
        self,
        config: Callable[[], BrokerConfig],
        now_ms: Callable[[], int],
        count_at: Callable[[int], int] = lambda slot_ms: 0,
        draw: Callable[[int], int] = lambda bound: 0,
    ) -> None:
        """`count_at` tells how many wait in a slot; `draw` is one of the numbers below its argument, by chance."""
        self._config = config
        self._now_ms = now_ms
        self._count_at = count_at
        self._draw = draw

    def __call__(self, record: Record, properties: Mapping[str, str]) -> Record | None:
        """Return the message as it waits, for `Intake`; None if it has no timer, or one that is due already."""
        given = next((name for name in TIMERS if name in properties), None)
        if given is None or delay_level(properties) > 0:
            return None
        if Property.TIMER_OUT_MS in properties or record.topic == TIMER_TOPIC:
            return None  # it waited already: a consumer sends on what it got
        config, now = self._config(), self._now_ms()
        if not config.timer_wheel_enable:
            raise RequestRefused(
                "accurate timer message is not enabled, timerWheelEnable is false", ResponseCode.SYSTEM_ERROR
            )
        due_ms = self._due(given, properties[given], now)
        most = config.timer_max_delay_sec * 1000
        if due_ms - now > most:
            raise _illegal(f"{given} = {properties[given]} is {due_ms - now} ms away", most)
        if due_ms <= now:
            if Property.TIMER_DEL_UNIQKEY in properties:
                raise _illegal("the message to be recalled is due already", most)
            return None
        self._check_congestion(slot_of(due_ms, config.timer_precision_ms), config.timer_congest_num_each_slot)
        return check_fits(self.until(record, due_ms))

    def _check_congestion(self, slot_ms: int, most: int) -> None:
        """Refuse a growing share above the limit, above twice the limit all."""
        if most >= UNLIMITED:
            return
        excess = self._count_at(slot_ms) - most
        if excess > 0 and self._draw(most) < excess:
            raise RequestRefused(
                f"timer message is under flow control: {excess + most} wait for the same time, "
                f"timerCongestNumEachSlot is {most}",
                ResponseCode.SYSTEM_ERROR,
            )

    def until(self, record: Record, due_ms: int) -> Record:
        """Park until a time, whatever the limits."""
        own: dict[str, str] = {
            Property.TIMER_OUT_MS: str(slot_of(due_ms, self._config().timer_precision_ms)),
            Property.REAL_TOPIC: record.topic,
            Property.REAL_QID: str(record.queue_id),
        }
        properties = appended(record.properties, own)
        if properties is None:
            properties = fit_properties(_own(record.properties) | own)
        return msgspec.structs.replace(record, topic=TIMER_TOPIC, queue_id=0, properties=properties)

    def _due(self, name: str, text: str, now: int) -> int:
        """Return the time for which it waits. What is no number was refused before (`property_rules.py`)."""
        number = whole_number(text, -LONG_MAX, LONG_MAX) or 0
        if name == Property.TIMER_DELIVER_MS:
            return number
        return now + (number * 1000 if name == Property.TIMER_DELAY_SEC else number)


def _own(raw: bytes) -> dict[str, str]:
    """Return what the message says, without its way through a timer before this one."""
    return {name: value for name, value in decode_properties(raw).items() if name not in _BEFORE}


def _illegal(why: str, most: int) -> RequestRefused:
    return RequestRefused(
        f"timer message illegal, the delay time should not be bigger than the max delay {most}ms (timerMaxDelaySec); "
        f"or if set del msg, the delay time should be bigger than the current time: {why}",
        ResponseCode.MESSAGE_ILLEGAL,
    )
