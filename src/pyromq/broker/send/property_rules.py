"""Who may set which property, and what its values may be: the table that a send is held against at the door.

`handler.py` calls `admitted` for messages that carry a name of `SPECIAL`; all others have nothing of it, and a native
kernel takes them without a look. Prefers to leave a property out rather than to refuse a message: consumers send on
what they got, with everything that a broker wrote into it. What lies in the store is not held against it: whoever reads
a property there takes a safe value where it says nonsense.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum

from ...errors import RequestRefused
from ...model.codes import ResponseCode
from ...model.message import Property
from ...model.wire_text import INT_MAX, LONG_MAX, whole_number
from ..intake.message_type import TIMERS, delay_level


class Setter(Enum):
    """Whose word a property is."""

    CLIENT = "client"
    BROKER = "broker"


class Otherwise(Enum):
    """What becomes of a value that is not valid, or of one that a client has no business to set."""

    KEEP = "kept: whoever reads it takes it for none, as in Java"
    DROP = "left out"
    REFUSE = "the message is refused"


@dataclass(frozen=True, slots=True)
class Rule:
    """One property. `valid` None: any text."""

    setter: Setter
    otherwise: Otherwise = Otherwise.KEEP
    valid: Callable[[str], bool] | None = None
    meaning: str = "text"
    code: ResponseCode = ResponseCode.MESSAGE_ILLEGAL

    def allows(self, value: str) -> bool:
        return self.setter is Setter.CLIENT and (self.valid is None or self.valid(value))


def _within(low: int, high: int) -> Callable[[str], bool]:
    return lambda text: whole_number(text, low, high) is not None


_JAVAS = ResponseCode.SYSTEM_ERROR  # what Java answers to a level that is none

TEXT = Rule(Setter.CLIENT)
COUNT = Rule(Setter.CLIENT, valid=_within(0, INT_MAX), meaning="whole number")
TIME = Rule(Setter.CLIENT, valid=_within(0, LONG_MAX), meaning="number of milliseconds")
LEVEL = Rule(Setter.CLIENT, Otherwise.REFUSE, _within(-INT_MAX - 1, INT_MAX), "delay level", _JAVAS)
SECONDS = Rule(Setter.CLIENT, Otherwise.REFUSE, _within(-LONG_MAX, LONG_MAX), "number of seconds")
MILLISECONDS = Rule(Setter.CLIENT, Otherwise.REFUSE, _within(-LONG_MAX, LONG_MAX), "number of milliseconds")
OWN = Rule(Setter.BROKER, Otherwise.DROP)
CARRIED = Rule(Setter.BROKER)  # a client that sends on what it got may carry it, and it means the same

RULES: Mapping[str, Rule] = {
    # the application's
    Property.KEYS: TEXT,
    Property.TAGS: TEXT,
    Property.BUYER_ID: TEXT,
    Property.INSTANCE_ID: TEXT,
    Property.SHARDING_KEY: TEXT,
    Property.DUP_INFO: TEXT,
    Property.TRACE_CONTEXT: TEXT,
    Property.LITE_TOPIC: TEXT,
    Property.PRIORITY: Rule(Setter.CLIENT, Otherwise.DROP, _within(0, INT_MAX), "whole number"),
    # the client's own, and what it copies into a message that it sends again
    Property.WAIT: Rule(Setter.CLIENT, valid=("true", "false").__contains__, meaning="true or false"),
    Property.UNIQ_KEY: TEXT,
    Property.SEND_ID: Rule(Setter.CLIENT, meaning="PRODUCER/EPOCH/SEQUENCE, judged by the duplicate window"),
    Property.ORIGIN_MESSAGE_ID: TEXT,
    Property.RETRY_TOPIC: TEXT,
    Property.ORIGIN_GROUP: TEXT,
    Property.BORN_HOST: TEXT,
    Property.BORN_TIMESTAMP: TIME,
    Property.RECONSUME_TIME: COUNT,
    Property.MAX_RECONSUME_TIMES: COUNT,  # of a retry the header says it, and counts
    Property.CONSUME_START_TIME: TIME,
    Property.DLQ_ORIGIN_TOPIC: TEXT,
    Property.DLQ_ORIGIN_MESSAGE_ID: TEXT,
    Property.MIN_OFFSET: TIME,
    Property.MAX_OFFSET: TIME,
    # waiting
    Property.DELAY: LEVEL,
    Property.TIMER_DELAY_SEC: SECONDS,
    Property.TIMER_DELAY_MS: MILLISECONDS,
    Property.TIMER_DELIVER_MS: MILLISECONDS,
    Property.TIMER_DEL_UNIQKEY: TEXT,
    Property.TIMER_DELAY_LEVEL: TEXT,
    Property.TIMER_OUT_MS: CARRIED,  # it waited already: it does not wait again, as in Java
    Property.TIMER_ENQUEUE_MS: OWN,
    Property.TIMER_DEQUEUE_MS: OWN,
    Property.TIMER_ROLL_TIMES: OWN,
    Property.REAL_TOPIC: OWN,
    Property.REAL_QID: OWN,
    Property.OWN_DUE_MS: OWN,
    Property.OWN_DELAY: OWN,
    Property.OWN_DEAD_MS: OWN,
    # transactions
    Property.TRAN_MSG: Rule(Setter.CLIENT, valid=lambda text: text.lower() in ("true", "false"), meaning="true"),
    Property.PGROUP: TEXT,
    Property.TRAN_PREPARED_QUEUE_OFFSET: TEXT,
    Property.TRANSACTION_ID: TEXT,  # of a half message the broker sets it
    Property.CHECK_IMMUNITY_TIME_IN_SECONDS: Rule(
        Setter.CLIENT, valid=_within(0, LONG_MAX // 1000), meaning="number of seconds"
    ),
    Property.TRANSACTION_CHECK_TIMES: OWN,
    # requests and replies
    Property.CORRELATION_ID: TEXT,
    Property.REPLY_TO_CLIENT: TEXT,
    Property.TTL: TEXT,
    Property.ARRIVE_TIME: TEXT,
    Property.PUSH_REPLY_TIME: TEXT,
    Property.MSG_TYPE: TEXT,
    # pop
    Property.POP_CK: OWN,
    Property.POP_CK_OFFSET: CARRIED,
    Property.FIRST_POP_TIME: CARRIED,
    # stamped by each broker, and parts of a record
    Property.CLUSTER: OWN,
    Property.MSG_REGION: OWN,
    Property.TRACE_ON: OWN,
    Property.CRC32: OWN,
    Property.INNER_NUM: Rule(Setter.BROKER, Otherwise.REFUSE),  # a batch that is kept as one has it
    Property.INNER_BASE: OWN,
    Property.INNER_MULTI_DISPATCH: TEXT,
    Property.INNER_MULTI_QUEUE_OFFSET: OWN,
}

OWN_NAMES = tuple(name for name, rule in RULES.items() if rule is OWN)


def admitted(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties to store of a client's. RequestRefused names the one that is not allowed."""
    kept = without_own(properties)
    timed = delay_level(kept) <= 0 and Property.TIMER_OUT_MS not in kept
    for name, value in properties.items():
        rule = RULES.get(name)
        if rule is None or rule.otherwise is Otherwise.KEEP or rule.allows(value) or name not in kept:
            continue
        if rule.otherwise is Otherwise.DROP:
            del kept[name]
        elif timed or name not in TIMERS:  # else no timer counts, whatever it says
            raise _refused(name, value, rule)
    return kept


def without_own(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties without those that only a broker may set."""
    return {name: value for name, value in properties.items() if RULES.get(name) is not OWN}


def _refused(name: str, value: str, rule: Rule) -> RequestRefused:
    if rule.setter is Setter.BROKER:
        return RequestRefused(f"the message is illegal: {name} is for batches", rule.code)
    shown = f"{value[:100]}..." if len(value) > 100 else value
    return RequestRefused(f"the message is illegal: {name} = {shown!r} is no {rule.meaning}", rule.code)
