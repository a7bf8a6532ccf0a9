"""Checks whether a pop is allowed, and by what it filters, in Java's order and words. Nothing is read here.

Called by `handler.py`, also for pops that were held: a topic may be gone by then. Refusals carry the fields of an
answer, all 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn, Protocol

from ...errors import RequestRefused
from ...model.codes import ResponseCode
from ...model.filters.sql92 import FilterFault
from ...model.topic import Perm
from ...protocol.bodies.groups import SubscriptionGroupConfig
from ...protocol.bodies.topics import TopicConfig
from ...protocol.headers.pop import PopMessage
from ...transport.peer import Peer
from ..config import BrokerConfig
from ..filters.filters import EVERYTHING, Wanted, check_expression, filter_for, is_by_tags, tag_codes
from ..metadata.groups import Groups
from ..metadata.topics import Topics
from .tickets import PopAllowed

MOST_MESSAGES = 32
LATE_MS = 500  # a pop whose time has been over for longer is not looked at
FAQ = "\nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."
NO_FIELDS = {"popTime": "0", "invisibleTime": "0", "reviveQid": "0", "restNum": "0"}


class QueueHeader(Protocol):
    """The fields of a header that say where somebody wants to read, and for whom."""

    @property
    def topic(self) -> str: ...

    @property
    def consumer_group(self) -> str: ...

    @property
    def queue_id(self) -> int: ...


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PopChecks:
    """Event loop only."""

    topics: Topics
    groups: Groups

    def check(self, header: PopMessage, peer: Peer, config: BrokerConfig, now_ms: int) -> PopAllowed:
        """Return what is allowed. RequestRefused has the code that clients act on."""
        host, born_ms = config.advertised_host, header.born_time or now_ms
        if now_ms - born_ms - header.poll_time > LATE_MS:
            _refuse(f"the broker[{host}] pop message is timeout too much", ResponseCode.POLLING_TIMEOUT)
        if not config.broker_permission & Perm.READ:
            _refuse(f"the broker[{host}] pop message is forbidden", ResponseCode.NO_PERMISSION)
        if header.max_msg_nums > MOST_MESSAGES:
            _refuse(
                f"the broker[{host}] pop message's num is greater than {MOST_MESSAGES}", ResponseCode.INVALID_PARAMETER
            )
        if header.max_msg_nums < 0:
            _refuse(f"maxMsgNums is {header.max_msg_nums}: ask for 0 to {MOST_MESSAGES}", ResponseCode.SYSTEM_ERROR)
        if not config.timer_wheel_enable:
            _refuse(
                f"the broker[{host}] pop message is forbidden because timerWheelEnable is false",
                ResponseCode.SYSTEM_ERROR,
            )
        topic = self.topic(header, peer)
        return PopAllowed(topic, self.group(header, config), born_ms, _wanted(header, config))

    def topic(self, header: QueueHeader, peer: Peer) -> TopicConfig:
        topic = self.topics.find(header.topic)
        if topic is None:
            _refuse(f"topic[{header.topic}] not exist, apply first please! {FAQ}", ResponseCode.TOPIC_NOT_EXIST)
        if not topic.perm & Perm.READ:
            _refuse(f"the topic[{header.topic}] peeking message is forbidden", ResponseCode.NO_PERMISSION)
        if header.queue_id >= topic.read_queue_nums:
            _refuse(illegal_queue(header.queue_id, topic, peer), ResponseCode.INVALID_PARAMETER)
        return topic

    def group(self, header: QueueHeader, config: BrokerConfig) -> SubscriptionGroupConfig:
        name = header.consumer_group
        group = self.groups.ensure(name, config)
        if group is None:
            _refuse(f"subscription group [{name}] does not exist, {FAQ}", ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST)
        if not group.consume_enable:
            _refuse(f"subscription group no permission, {name}", ResponseCode.NO_PERMISSION)
        return group


def _wanted(header: PopMessage, config: BrokerConfig) -> Wanted:
    kind, text = header.exp_type, header.exp
    if not text:
        return EVERYTHING
    try:
        check_expression(header.topic, 0, text, config)
        if not is_by_tags(kind):
            return Wanted(record_filter=filter_for(kind, text))
    except (FilterFault, RequestRefused):
        _refuse("parse the consumer's subscription failed", ResponseCode.SUBSCRIPTION_PARSE_FAILED)
    codes = tag_codes(text.split("||"))
    return EVERYTHING if codes is None else Wanted(codes)


def illegal_queue(queue_id: int, topic: TopicConfig, peer: Peer) -> str:
    return (
        f"queueId[{queue_id}] is illegal, topic:[{topic.topic_name}] "
        f"topicConfig.readQueueNums:[{topic.read_queue_nums}] consumer:[/{peer.address}]"
    )


def _refuse(remark: str, code: int) -> NoReturn:
    raise RequestRefused(remark, code, dict(NO_FIELDS))
