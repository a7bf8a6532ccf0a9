"""Checks whether a send is allowed, and to which topic it goes, in Java's order. No record is built here.

Called by `handler.py` for every send. What is refused raises RequestRefused with the code that Java's clients act on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ...errors import ProtocolError, RequestRefused
from ...model import names
from ...model.client_info import Version
from ...model.codes import ResponseCode
from ...model.message import WRAPPED_BATCH, SysFlag
from ...model.names import MAX_TOPIC, is_retry
from ...model.topic import Perm, TopicFlag
from ...protocol.batch import BatchEntry, decode_batch, has_more_than
from ...protocol.bodies.topics import TopicConfig
from ...protocol.headers.send import SendMessage
from ..config import BrokerConfig
from ..intake.intake import illegal_batch
from ..metadata.groups import Groups
from ..metadata.topics import DLQ_QUEUES, Topics
from .properties import KINDS, having_any

MOST_VERDICTS = 10_000
WRITE = Perm.WRITE
_KIND = having_any(KINDS)


@dataclass(frozen=True, slots=True)
class Destination:
    """Where a message goes. `dead`: it was tried too often and goes to the dead letters of its group."""

    topic: TopicConfig
    queue_id: int
    dead: bool = False


@dataclass(slots=True, eq=False, repr=False)
class SendChecks:
    """Event loop only. `is_orderly` tells whether a group holds queue locks; `pick` chooses one of n queues."""

    topics: Topics
    groups: Groups
    now_ms: Callable[[], int]
    is_orderly: Callable[[str], bool]
    pick: Callable[[int], int]
    on_auto_created: Callable[[TopicConfig], None]
    _verdicts: dict[str, tuple[BrokerConfig, TopicConfig]] = field(default_factory=dict)

    def destination(self, header: SendMessage, config: BrokerConfig, client_version: int) -> Destination:
        topic = self.topics.find(header.topic)
        verdict = self._verdicts.get(header.topic)
        if topic is None or verdict is None or verdict[0] is not config or verdict[1] is not topic:
            topic = self._checked_topic(header, config)
        queue_id = self._queue(header, topic)
        if names.is_retry(header.topic):
            return self._retry(header, topic, queue_id, config, client_version)
        return Destination(topic, queue_id)

    def standing(self, name: str, config: BrokerConfig) -> TopicConfig | None:
        """Return the topic, if it exists and every send to it passes what depends on topic and settings alone."""
        topic = self.topics.find(name)
        if topic is None or names.topic_fault(name) is not None or not names.is_sendable(name):
            return None
        try:
            self._check_open(config)
            self._check_permission(topic, config)
        except RequestRefused:
            return None
        return topic

    def _checked_topic(self, header: SendMessage, config: BrokerConfig) -> TopicConfig:
        """Check what depends on topic and settings alone. The result is kept until either is another object."""
        self._check_open(config)
        topic = self._topic(header, config)
        self._check_permission(topic, config)
        if config.start_accept_send_request_time_stamp == 0:
            if len(self._verdicts) > MOST_VERDICTS:
                self._verdicts.clear()
            self._verdicts[header.topic] = (config, topic)
        return topic

    def _check_open(self, config: BrokerConfig) -> None:
        opens = config.start_accept_send_request_time_stamp
        if self.now_ms() < opens:
            raise RequestRefused(
                f"this broker takes messages from {opens} ms since 1970 on (startAcceptSendRequestTimeStamp)",
            )

    def _topic(self, header: SendMessage, config: BrokerConfig) -> TopicConfig:
        fault = names.topic_fault(header.topic)
        if fault is not None:
            raise RequestRefused(fault, ResponseCode.INVALID_PARAMETER)
        if not names.is_sendable(header.topic):
            raise RequestRefused(
                f"Sending message to topic[{header.topic}] is forbidden: it is the broker's own",
                ResponseCode.NO_PERMISSION,
            )
        topic = self.topics.find(header.topic) or self._create(header, config)
        if topic is None:
            raise RequestRefused(
                f"topic[{header.topic}] not exist, apply first please! Create it "
                f"(mqadmin updateTopic -t {header.topic}), or allow autoCreateTopicEnable",
                ResponseCode.TOPIC_NOT_EXIST,
            )
        return topic

    def _create(self, header: SendMessage, config: BrokerConfig) -> TopicConfig | None:
        is_retry = names.is_retry(header.topic)
        may_inherit = header.default_topic != names.AUTO_CREATE_TOPIC or config.auto_create_topic_enable
        if is_retry or may_inherit:
            self._check_capacity(header.topic, config)
        flag = 0
        if header.unit_mode:
            flag = TopicFlag.UNIT_SUB if is_retry else TopicFlag.UNIT
        made = None
        if may_inherit:
            made = self.topics.inherit(header.topic, header.default_topic, header.default_topic_queue_nums, flag)
        if made is None and is_retry:
            return self.topics.ensure(header.topic, 1, Perm.READ_WRITE, flag)
        if made is not None:
            self.on_auto_created(made)
        return made

    def _check_capacity(self, topic: str, config: BrokerConfig) -> None:
        """Refuse a new topic above the limit, except retry topics of known groups: they are no more than those."""
        own = names.is_retry(topic) and topic.removeprefix(names.RETRY_PREFIX) in self.groups
        if not own and len(self.topics) >= config.max_auto_created_topics:
            raise RequestRefused(
                f"topic[{topic}] not exist, and no send makes it: this broker has {len(self.topics)} topics, the "
                f"limit (maxAutoCreatedTopics) is {config.max_auto_created_topics}. Create it "
                f"(mqadmin updateTopic -t {topic}), or raise the setting",
                ResponseCode.TOPIC_NOT_EXIST,
            )

    def _check_permission(self, topic: TopicConfig, config: BrokerConfig) -> None:
        if not config.broker_permission & WRITE and (topic.order or config.enforce_topic_permission):
            raise RequestRefused(
                f"the broker[{config.broker_name}] sending message is forbidden: "
                f"brokerPermission is {config.broker_permission}",
                ResponseCode.NO_PERMISSION,
            )
        if not topic.perm & WRITE and config.enforce_topic_permission:
            raise RequestRefused(
                f"topic {topic.topic_name} has permission {topic.perm}, which does not allow sending: change it with "
                f"mqadmin updateTopicPerm, or set enforceTopicPermission=false",
                ResponseCode.NO_PERMISSION,
            )

    def _queue(self, header: SendMessage, topic: TopicConfig) -> int:
        queues = max(topic.write_queue_nums, topic.read_queue_nums)
        if header.queue_id >= queues or (header.queue_id < 0 and topic.write_queue_nums < 1):
            raise RequestRefused(
                f"request queueId[{header.queue_id}] is illegal: topic {topic.topic_name} has "
                f"{topic.write_queue_nums} write queues",
                ResponseCode.INVALID_PARAMETER,
            )
        return header.queue_id if header.queue_id >= 0 else self.pick(topic.write_queue_nums)

    def _retry(
        self, header: SendMessage, topic: TopicConfig, queue_id: int, config: BrokerConfig, client_version: int
    ) -> Destination:
        """Return where a message goes that a consumer sent to its retry topic: tried too often, to the dead letters."""
        name = header.topic.removeprefix(names.RETRY_PREFIX)
        group = self.groups.ensure(name, config)
        if group is None:
            raise RequestRefused(f"subscription group not exist, {name}", ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST)
        most = group.retry_max_times
        if client_version >= Version.V3_4_9 and header.max_reconsume_times is not None:
            most = header.max_reconsume_times
        if (header.reconsume_times or 0) <= most and not self.is_orderly(name):
            return Destination(topic, queue_id)
        dead = self.topics.ensure(names.dlq_topic(name), DLQ_QUEUES)
        return Destination(dead, self.pick(DLQ_QUEUES), dead=True)


def check_batch(header: SendMessage, properties: str, body: bytes | memoryview, max_messages: int) -> None:
    """Raise RequestRefused if the batch as a whole cannot be stored, in Java's order of checks."""
    if is_retry(header.topic):
        raise RequestRefused(f"batch request does not support retry group {header.topic}", ResponseCode.MESSAGE_ILLEGAL)
    if len(header.topic) > MAX_TOPIC:
        raise RequestRefused(f"message topic length too long {len(header.topic)}", ResponseCode.MESSAGE_ILLEGAL)
    if _KIND.search(properties) is not None or header.sys_flag & (SysFlag.TRANSACTION_MASK | WRAPPED_BATCH):
        raise RequestRefused(
            "the batch is illegal: delay, timer, transaction and batch marks are not for a batch",
            ResponseCode.MESSAGE_ILLEGAL,
        )
    if has_more_than(body, max_messages):
        raise illegal_batch(
            f"more than {max_messages} messages in it, the limit (maxMessagesInBatch). Send it in parts"
        )


def batch_entries(body: bytes | memoryview, max_property_bytes: int) -> list[BatchEntry]:
    """Decode the messages of a batch. RequestRefused if that fails, or if the properties of one are too long."""
    try:
        entries = decode_batch(body)
    except ProtocolError as fault:
        raise illegal_batch(str(fault)) from None
    for number, entry in enumerate(entries):
        if len(entry.properties) > max_property_bytes:
            raise illegal_batch(
                f"the properties of message {number} take {len(entry.properties)} bytes, "
                f"the limit is {max_property_bytes}"
            )
    return entries
