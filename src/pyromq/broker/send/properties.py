"""The properties of a send: which ones a client may set, to what, and which ones the broker adds. Pure bytes and text.

`handler.py` calls `admitted` for messages that carry a name of `SPECIAL`; all others have nothing of it, and a native
kernel takes them without a look. Prefers to leave a property out rather than to refuse a message: consumers send on
what they got, with everything that a broker wrote into it. What lies in the store is not checked again: whoever reads a
property there takes a safe value where it says nonsense, as Java does for every property that has no rule here.

Most messages carry none of the reserved names, so the usual way of a stamp is one search and one join; only a message
that was consumed and is sent again has to be taken apart.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ...errors import RequestRefused
from ...model.codes import ResponseCode
from ...model.message import Property
from ...model.wire_text import INT_MAX, LONG_MAX, whole_number
from ...protocol.properties import decode_properties, rejoin_properties
from ..intake.message_type import TIMERS, delay_level

# Properties that make a message more than plain, and that a batch as a whole cannot have.
KINDS = (Property.DELAY, *TIMERS, Property.TRAN_MSG, Property.LITE_TOPIC, Property.PRIORITY, Property.INNER_NUM)
# Set anew by each broker, or meant for the way out only: a client's own value would be a lie.
RESERVED = (Property.CLUSTER, Property.MSG_REGION, Property.TRACE_ON, Property.POP_CK)
# A broker's word alone: left out of what clients send.
OWN_NAMES = (
    *RESERVED,
    Property.TIMER_ENQUEUE_MS,
    Property.TIMER_DEQUEUE_MS,
    Property.TIMER_ROLL_TIMES,
    Property.REAL_TOPIC,
    Property.REAL_QID,
    Property.OWN_DUE_MS,
    Property.OWN_DELAY,
    Property.OWN_DEAD_MS,
    Property.TRANSACTION_CHECK_TIMES,
    Property.CRC32,
    Property.INNER_BASE,
    Property.INNER_MULTI_QUEUE_OFFSET,
)
# Where none of them is found, the text need not be taken apart. `verdicts.py` keeps such messages from a native
# kernel by the same list. What each broker stamps anew is taken out by `Stamp`.
SPECIAL = (*KINDS, *(name for name in OWN_NAMES if name not in RESERVED))
TYPED_SPECIAL = (Property.SHARDING_KEY,)  # the same in topics that name a type


@dataclass(frozen=True, slots=True)
class Rule:
    """Which values of a property are valid, and what a refusal says of another. "": another is left out."""

    valid: Callable[[str], bool]
    refusal: str
    code: ResponseCode = ResponseCode.MESSAGE_ILLEGAL


def _within(low: int, high: int) -> Callable[[str], bool]:
    return lambda text: whole_number(text, low, high) is not None


_OWN = frozenset(OWN_NAMES)
_LONG = _within(-LONG_MAX, LONG_MAX)
RULES: Mapping[str, Rule] = {
    # Java answers SYSTEM_ERROR to a level that is none.
    Property.DELAY: Rule(_within(-INT_MAX - 1, INT_MAX), "{} = {!r} is no delay level", ResponseCode.SYSTEM_ERROR),
    Property.TIMER_DELAY_SEC: Rule(_LONG, "{} = {!r} is no number of seconds"),
    Property.TIMER_DELAY_MS: Rule(_LONG, "{} = {!r} is no number of milliseconds"),
    Property.TIMER_DELIVER_MS: Rule(_LONG, "{} = {!r} is no number of milliseconds"),
    Property.PRIORITY: Rule(_within(0, INT_MAX), ""),
    Property.INNER_NUM: Rule(lambda text: False, "{} is for batches"),  # that are kept as one
}


def having_any(names: tuple[str, ...]) -> re.Pattern[str]:
    """Return a pattern that finds encoded properties with one of these names."""
    return re.compile("(?:^|\x02)(?:" + "|".join(names) + ")\x01")


_HAS_RESERVED = having_any(RESERVED)
_HAS_ID = re.compile(f"(?:^|\x02){Property.UNIQ_KEY}\x01([^\x02]+)")


def admitted(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties to store of a client's. RequestRefused names the one that is not allowed."""
    kept = without_own(properties)
    timed = delay_level(kept) <= 0 and Property.TIMER_OUT_MS not in kept
    for name, value in properties.items():
        rule = RULES.get(name)
        if rule is None or rule.valid(value):
            continue
        if not rule.refusal:
            del kept[name]
        elif timed or name not in TIMERS:  # else no timer counts, whatever it says
            shown = f"{value[:100]}..." if len(value) > 100 else value
            raise RequestRefused(f"the message is illegal: {rule.refusal.format(name, shown)}", rule.code)
    return kept


def without_own(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties without those that only a broker may set."""
    return {name: value for name, value in properties.items() if name not in _OWN}


class Stamp:
    """What one broker adds. `new_id` makes an id for a message that has none."""

    def __init__(self, cluster: str, region: str, new_id: Callable[[], str]) -> None:
        self._new_id = new_id
        self.tails = {trace: _tail(cluster, region, trace) for trace in (True, False)}

    def single(self, properties: str, trace_on: bool) -> tuple[bytes, str]:
        """Return the stored properties of a message that came alone, and its unique id."""
        if _HAS_RESERVED.search(properties):
            pairs = decode_properties(properties)
            for name in RESERVED:
                pairs.pop(name, None)
            properties = rejoin_properties(pairs).decode()
        elif properties and not properties.endswith("\x02"):
            properties += "\x02"
        found = _HAS_ID.search(properties)
        if found is not None:
            return (properties + self.tails[trace_on]).encode(), found[1]
        unique = self._new_id()
        return f"{properties}{Property.UNIQ_KEY}\x01{unique}\x02{self.tails[trace_on]}".encode(), unique

    def changed(self, properties: Mapping[str, str], trace_on: bool) -> tuple[bytes, str]:
        """Return the stamped text and the unique id of properties that were changed on the way."""
        return self.single(rejoin_properties(properties).decode(), trace_on)

    def inner_batch(self, properties: str, count: int, trace_on: bool) -> tuple[bytes, str]:
        """Return the properties of a batch that is stored as one record: it says how many messages are in it."""
        pairs = without_own(decode_properties(properties))
        return self.changed(pairs | {Property.INNER_NUM: str(count)}, trace_on)


def _tail(cluster: str, region: str, trace_on: bool) -> str:
    own = {Property.MSG_REGION: region, Property.TRACE_ON: str(trace_on).lower(), Property.CLUSTER: cluster}
    return rejoin_properties(own).decode()


def unique_id(properties: str) -> str | None:
    found = _HAS_ID.search(properties)
    return None if found is None else found[1]
