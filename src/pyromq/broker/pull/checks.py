"""Checks whether a pull is allowed, and by what it filters, in Java's order. Nothing is read here.

Called by `handler.py`. What is refused raises RequestRefused with the code that clients act on.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...errors import RequestRefused
from ...model.codes import ResponseCode
from ...model.group import ConsumeType, MessageModel
from ...model.pop_names import normal_topic
from ...model.topic import Perm
from ...protocol.bodies.groups import SubscriptionGroupConfig
from ...protocol.bodies.heartbeat import SubscriptionData
from ...protocol.bodies.topics import TopicConfig
from ...protocol.headers.pull import PullMessage
from ...protocol.pulls import PullFlag
from ...protocol.requests import RequestCode
from ..clients.consumers import ConsumerGroup, Consumers
from ..clients.filter_data import ConsumerFilters
from ..config import BrokerConfig
from ..filters.filters import (
    EVERYTHING,
    RecordFilter,
    Wanted,
    check_enabled,
    check_expression,
    codes_of,
    for_topic,
    is_by_tags,
    parsed,
    tag_codes,
)
from ..metadata.groups import Groups
from ..metadata.topics import Topics

READ = Perm.READ


class Forbidden:
    """Values of `forbiddenType`: what it is that may not be read."""

    BROKER = 1
    GROUP = 2
    TOPIC = 3
    BROADCAST = 4
    SUBSCRIPTION = 5


@dataclass(frozen=True, slots=True)
class Allowed:
    """A pull that passed the checks."""

    topic: TopicConfig
    group: SubscriptionGroupConfig
    wanted: Wanted


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PullChecks:
    """Event loop only."""

    topics: Topics
    groups: Groups
    consumers: Consumers
    filters: ConsumerFilters

    def check(self, header: PullMessage, code: int, config: BrokerConfig) -> Allowed:
        if not config.broker_permission & READ:
            raise _forbidden(
                f"the broker[{config.broker_name}] pulling message is forbidden: "
                f"brokerPermission is {config.broker_permission}",
                Forbidden.BROKER,
            )
        if code == RequestCode.LITE_PULL_MESSAGE and not config.lite_pull_message_enable:
            raise RequestRefused(
                f"the broker[{config.broker_name}] for lite pull consumer is forbidden (litePullMessageEnable)",
                ResponseCode.NO_PERMISSION,
            )
        group = self._group(header, config)
        topic = self._topic(header)
        return Allowed(topic, group, self._wanted(header, group, config))

    def _group(self, header: PullMessage, config: BrokerConfig) -> SubscriptionGroupConfig:
        name = header.consumer_group
        group = self.groups.ensure(name, config)
        if group is None:
            raise RequestRefused(
                f"subscription group [{name}] does not exist", ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
            )
        if not group.consume_enable:
            raise _forbidden(f"subscription group no permission, {name}: consumeEnable is false", Forbidden.GROUP)
        return group

    def _topic(self, header: PullMessage) -> TopicConfig:
        topic = self.topics.find(header.topic)
        if topic is None:
            raise RequestRefused(f"topic[{header.topic}] not exist, apply first please!", ResponseCode.TOPIC_NOT_EXIST)
        if not topic.perm & READ:
            raise _forbidden(
                f"the topic[{header.topic}] pulling message is forbidden: its permission is {topic.perm}",
                Forbidden.TOPIC,
            )
        if not 0 <= header.queue_id < topic.read_queue_nums:
            raise RequestRefused(
                f"queueId[{header.queue_id}] is illegal, topic:[{header.topic}] has "
                f"{topic.read_queue_nums} read queues",
                ResponseCode.INVALID_PARAMETER,
            )
        return topic

    def _wanted(self, header: PullMessage, group: SubscriptionGroupConfig, config: BrokerConfig) -> Wanted:
        if not header.sys_flag & PullFlag.SUBSCRIPTION:
            return self._by_heartbeat(header, group, config)
        kind, text = header.expression_type, header.subscription or ""
        check_expression(header.topic, 0, text, config)
        if is_by_tags(kind):
            self._check_active(header, config)
            return _by_tags(tag_codes(text.split("||")))
        check_enabled(kind, config.enable_property_filter)
        record_filter = parsed(kind, text)
        self._check_active(header, config)
        return self._by_expression(header, record_filter, config)

    def _by_expression(self, header: PullMessage, record_filter: RecordFilter, config: BrokerConfig) -> Wanted:
        return for_topic(
            header.topic,
            record_filter,
            config.filter_support_retry,
            lambda origin: self.filters.record_filter(origin, header.consumer_group),
        )

    def _check_active(self, header: PullMessage, config: BrokerConfig) -> None:
        members = self.consumers.find(header.consumer_group)
        if config.reject_pull_consumer_enable and (members is None or members.consume_type is ConsumeType.ACTIVELY):
            raise RequestRefused(
                f"the group [{header.consumer_group}] pulls actively, which rejectPullConsumerEnable forbids",
                ResponseCode.SUBSCRIPTION_NOT_EXIST,
            )

    def _by_heartbeat(self, header: PullMessage, group: SubscriptionGroupConfig, config: BrokerConfig) -> Wanted:
        members = self.consumers.find(header.consumer_group)
        if members is None:
            raise RequestRefused(
                f"the consumer's group info not exist: {header.consumer_group} has no member online",
                ResponseCode.SUBSCRIPTION_NOT_EXIST,
            )
        if not group.consume_broadcast_enable and members.message_model is MessageModel.BROADCASTING:
            raise _forbidden(
                f"the consumer group[{header.consumer_group}] can not consume by broadcast way", Forbidden.BROADCAST
            )
        if not self.groups.may_read(header.consumer_group, header.topic):
            raise _forbidden(
                f"the consumer group[{header.consumer_group}] is forbidden for topic[{header.topic}]",
                Forbidden.SUBSCRIPTION,
            )
        subscription = members.subscriptions.get(header.topic)
        if _reads_all(header, subscription, members):
            self._check_active(header, config)
            return EVERYTHING
        if subscription is None:
            raise RequestRefused(
                f"the consumer's subscription not exist: {header.consumer_group} does not subscribe to {header.topic}",
                ResponseCode.SUBSCRIPTION_NOT_EXIST,
            )
        return self._by_subscription(header, subscription, config)

    def _by_subscription(self, header: PullMessage, subscription: SubscriptionData, config: BrokerConfig) -> Wanted:
        if subscription.sub_version < header.sub_version:
            raise RequestRefused(
                "the consumer's subscription not latest: send a heartbeat first", ResponseCode.SUBSCRIPTION_NOT_LATEST
            )
        if is_by_tags(subscription.expression_type):
            self._check_active(header, config)
            return _by_tags(codes_of(subscription))
        record_filter = self._registered(header)
        check_enabled(subscription.expression_type, config.enable_property_filter)
        self._check_active(header, config)
        return self._by_expression(header, record_filter, config)

    def _registered(self, header: PullMessage) -> RecordFilter:
        """Return the filter that a heartbeat has left, if it is the one that the pull means."""
        data = self.filters.find(header.topic, header.consumer_group)
        record_filter = self.filters.record_filter(header.topic, header.consumer_group)
        if data is None or record_filter is None:
            raise RequestRefused(
                "The broker's consumer filter data is not exist!Your expression may be wrong! "
                f"({header.consumer_group} on {header.topic})",
                ResponseCode.FILTER_DATA_NOT_EXIST,
            )
        if data.client_version < header.sub_version:
            raise RequestRefused(
                "the consumer's consumer filter data not latest: send a heartbeat first",
                ResponseCode.FILTER_DATA_NOT_LATEST,
            )
        return record_filter


def _reads_all(header: PullMessage, subscription: SubscriptionData | None, members: ConsumerGroup) -> bool:
    """Return whether the pull is of the retry topic of a topic that the group popped before, and still subscribes to.

    All of that is the group's, whatever heartbeats have said of it. A Java member that pulls subscribes to it anew at
    each rebalance, so that its pulls are mostly ahead of its heartbeats; one that pops does not name it in its own,
    which ends the subscription of those that pull. Java's broker refuses such pulls.
    """
    origin = normal_topic(header.topic, header.consumer_group)
    if origin == header.topic or origin not in members.subscriptions:
        return False
    return subscription is None or (is_by_tags(subscription.expression_type) and codes_of(subscription) is None)


def _by_tags(codes: frozenset[int] | None) -> Wanted:
    return EVERYTHING if codes is None else Wanted(codes)


def _forbidden(remark: str, kind: int) -> RequestRefused:
    return RequestRefused(remark, ResponseCode.NO_PERMISSION, {"forbiddenType": str(kind)})
