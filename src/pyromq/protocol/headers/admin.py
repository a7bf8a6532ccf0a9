"""Administration of a broker: topics, groups, statistics, upkeep, users and permissions (ACL 2.0), our own requests."""

from __future__ import annotations

import msgspec

from ...model.names import AUTO_CREATE_TOPIC
from ..bodies.topics import TopicConfig
from .header import Header, Int32, Int64, RpcHeader, TopicHeader, TopicName

ADMIN_ADDRESS = "adminAddress"  # of a refusal: where administration is served instead; our own servers' alone


class CreateTopic(TopicName, kw_only=True):
    default_topic: str
    read_queue_nums: Int32
    write_queue_nums: Int32
    perm: Int32
    topic_filter_type: str
    topic_sys_flag: Int32 | None = None
    order: bool = False
    attributes: str | None = None  # `+key=value,-key`
    force: bool = False

    @classmethod
    def of(cls, topic: TopicConfig, *, attributes: str | None = None, force: bool = False) -> CreateTopic:
        """Return the topic as it is to be; its own attributes are not sent."""
        return cls(
            topic=topic.topic_name,
            default_topic=AUTO_CREATE_TOPIC,
            read_queue_nums=topic.read_queue_nums,
            write_queue_nums=topic.write_queue_nums,
            perm=topic.perm,
            topic_filter_type=topic.topic_filter_type,
            topic_sys_flag=topic.topic_sys_flag,
            order=topic.order,
            attributes=attributes,
            force=force,
        )


class GetAllTopicConfig(Header, kw_only=True):
    """Without fields everything is wanted; the pages came with 5.4."""

    topic_seq: Int32 | None = None
    data_version: str | None = None
    max_topic_num: Int32 | None = None


class GetAllTopicConfigAnswer(Header, kw_only=True):
    total_topic_num: Int32 | None = None


class QuerySubscriptionByConsumer(TopicHeader, kw_only=True):
    group: str
    topic: str | None = None


class GetAllSubscriptionGroup(Header, kw_only=True):
    group_seq: Int32 | None = None
    data_version: str | None = None
    max_group_num: Int32 | None = None


class GetAllSubscriptionGroupAnswer(Header, kw_only=True):
    total_group_num: Int32 | None = None


class DeleteSubscriptionGroup(RpcHeader, kw_only=True):
    group_name: str
    clean_offset: bool = False


class UpdateGroupForbidden(TopicHeader, kw_only=True):
    group: str
    topic: str
    readable: bool | None = None  # None: only asks


# --- statistics, settings, upkeep -------------------------------------------------------------------------------------


class GetBrokerConfigAnswer(Header, kw_only=True):
    version: str  # the JSON of a DataVersion


class GetConsumeStats(TopicHeader, kw_only=True):
    consumer_group: str
    topic: str | None = None
    topic_list: str | None = None  # separated by semicolons


class GetBrokerConsumeStats(Header, kw_only=True):
    is_order: bool = False


class QueryConsumeTimeSpan(TopicName, kw_only=True):
    group: str


class ViewBrokerStatsData(Header, kw_only=True):
    stats_name: str
    stats_key: str


class ViewBrokerStatsDataAnswer(Header, kw_only=True):
    """Of our brokers alone. The body is as Java samples it: what is older than a minute may be missing in it until the
    next ten minutes or the hour are full."""

    sum_of_day: Int64 | None = None


class CheckRocksdbCqWriteProgress(Header, kw_only=True):
    topic: str | None = None
    check_store_time: Int64 = 0


class ExportRocksdbConfig(Header, kw_only=True):
    config_type: str  # separated by semicolons


class SetCommitLogReadMode(Header, kw_only=True):
    read_ahead_mode: str = msgspec.field(name="READ_AHEAD_MODE")  # 0 normal, 1 random


class SwitchTimerEngine(Header, kw_only=True):
    engine_type: str = msgspec.field(name="E_T")  # F: the file's time wheel, R: RocksDB


# --- users and permissions; a subject is `User:name` ------------------------------------------------------------------


class UserName(Header, kw_only=True):
    """Absent is refused by the handlers, each with its own code."""

    username: str | None = None


class UserChange(UserName, kw_only=True):
    """Ours alone know the two: for a password that is replaced while requests signed with the old one still come."""

    keep_old: bool | None = None  # the password that was valid stays valid, too
    drop_old: bool | None = None  # the newest password alone is valid


class ListUsers(Header, kw_only=True):
    filter: str | None = None


class AclSubject(Header, kw_only=True):
    subject: str | None = None


class DeleteAcl(AclSubject, kw_only=True):
    policy_type: str | None = None
    resource: str | None = None


class ListAcls(Header, kw_only=True):
    subject_filter: str | None = None
    resource_filter: str | None = None


# --- requests that only our brokers know (30,001 and up) --------------------------------------------------------------


class MessageLifeRequest(Header, kw_only=True):
    """`id`: the client's unique id, the broker's offset id, or a key that one message alone has."""

    topic: str
    id: str


class HalfMessagesRequest(Header, kw_only=True):
    """Up to `most` half messages of a topic or producer group, from the queue offset `begin` on."""

    begin: str | None = msgspec.field(default=None, name="from")
    most: str | None = None
    topic: str | None = None
    producer_group: str | None = None


class DeadLettersRequest(Header, kw_only=True):
    """With a group its messages, the oldest first; without one, the groups."""

    group: str | None = None
    max_num: Int32 = 100


class SnapshotRequest(Header, kw_only=True):
    """The picture that the asker has, of which life of the broker; without them everything is told."""

    life: str = ""
    since: Int64 = 0


class QuotaName(Header, kw_only=True):
    """Whom a quota is for."""

    kind: str
    name: str
