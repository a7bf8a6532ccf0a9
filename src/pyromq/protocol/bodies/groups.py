"""Subscription groups as they are configured, and users with their permissions (ACL 2.0)."""

from __future__ import annotations

from ..ints import Int32, Int64
from .body import Body, DataVersion, always, always_new


class ExponentialRetryPolicy(Body, kw_only=True):
    initial: Int64 = always(5_000)
    max: Int64 = always(7_200_000)
    multiplier: Int64 = always(2)


class CustomizedRetryPolicy(Body, kw_only=True):
    next: list[Int64] = always_new(list)  # milliseconds before each redelivery


class GroupRetryPolicy(Body, kw_only=True):
    customized_retry_policy: CustomizedRetryPolicy | None = None
    exponential_retry_policy: ExponentialRetryPolicy | None = None
    type: str = always("CUSTOMIZED")  # or EXPONENTIAL


class SimpleSubscriptionData(Body, kw_only=True):
    expression: str | None = None
    expression_type: str | None = None
    topic: str | None = None
    version: Int64 = always(0)


class SubscriptionGroupConfig(Body, kw_only=True):
    attributes: dict[str, str] = always_new(dict)
    broker_id: Int64 = always(0)
    consume_broadcast_enable: bool = always(True)
    consume_enable: bool = always(True)
    consume_from_min_enable: bool = always(True)
    consume_message_orderly: bool = always(False)
    consume_timeout_minute: Int32 = always(15)
    group_name: str = ""
    group_retry_policy: GroupRetryPolicy = always_new(GroupRetryPolicy)
    group_sys_flag: Int32 = always(0)
    notify_consumer_ids_changed_enable: bool = always(True)
    retry_max_times: Int32 = always(16)
    retry_queue_nums: Int32 = always(1)
    subscription_data_set: list[SimpleSubscriptionData] | None = None
    which_broker_when_consume_slowly: Int64 = always(1)


class SubscriptionGroupList(Body, kw_only=True):
    group_config_list: list[SubscriptionGroupConfig] = always_new(list)


class SubscriptionGroupWrapper(Body, kw_only=True):
    data_version: DataVersion = always_new(DataVersion)
    forbidden_table: dict[str, dict[str, Int32]] = always_new(dict)  # by group and topic, bits of what is not allowed
    subscription_group_table: dict[str, SubscriptionGroupConfig] = always_new(dict)


class GroupForbidden(Body, kw_only=True):
    group: str | None = None
    readable: bool | None = None
    topic: str | None = None


class GroupList(Body, kw_only=True):
    group_list: list[str] = always_new(list)


class UserInfo(Body, kw_only=True):
    """A request may leave out what it does not change."""

    old_password_valid: bool | None = None  # ours tell it while a password is replaced
    password: str | None = None
    user_status: str | None = None  # enable, disable
    user_type: str | None = None  # Super, Normal
    username: str | None = None


class PolicyEntryInfo(Body, kw_only=True):
    actions: list[str] | None = None  # All, Pub, Sub, Create, Update, Delete, Get, List
    decision: str | None = None  # Allow, Deny
    resource: str | None = None  # Topic:T, Group:prefix*, Cluster:*
    source_ips: list[str] | None = None


class PolicyInfo(Body, kw_only=True):
    entries: list[PolicyEntryInfo] = always_new(list)
    policy_type: str | None = None  # Custom, Default


class AclInfo(Body, kw_only=True):
    policies: list[PolicyInfo] | None = None
    subject: str | None = None
