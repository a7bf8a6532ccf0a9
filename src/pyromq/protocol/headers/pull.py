"""Pulling messages, and finding single ones."""

from __future__ import annotations

import msgspec

from .header import Header, Int32, Int64, TopicHeader


class PullMessage(TopicHeader, kw_only=True):
    consumer_group: str
    topic: str
    lite_topic: str | None = None
    queue_id: Int32
    queue_offset: Int64
    max_msg_nums: Int32
    sys_flag: Int32
    commit_offset: Int64
    suspend_timeout_millis: Int64
    subscription: str | None = None
    sub_version: Int64
    expression_type: str | None = None
    max_msg_bytes: Int32 | None = None
    request_source: Int32 | None = None
    proxy_froward_client_id: str | None = None  # misspelt on the wire


class PullMessageAnswer(Header, kw_only=True):
    """A refusal for lack of permission has only `forbidden_type`."""

    suggest_which_broker_id: Int64 | None = None
    next_begin_offset: Int64 | None = None
    min_offset: Int64 | None = None
    max_offset: Int64 | None = None
    offset_delta: Int64 | None = None
    topic_sys_flag: Int32 | None = None
    group_sys_flag: Int32 | None = None
    forbidden_type: Int32 | None = None


class QueryMessage(TopicHeader, kw_only=True):
    topic: str
    key: str
    max_num: Int32
    begin_timestamp: Int64
    end_timestamp: Int64
    index_type: str | None = None
    last_key: str | None = None
    # the key is a message's unique id
    unique_key_query: bool | None = msgspec.field(default=None, name="_UNIQUE_KEY_QUERY")


class QueryMessageAnswer(Header, kw_only=True):
    index_last_update_timestamp: Int64
    index_last_update_phyoffset: Int64


class ViewMessage(Header, kw_only=True):
    topic: str | None = None
    offset: Int64  # in the commit log


class QueryConsumeQueue(TopicHeader, kw_only=True):
    topic: str | None = None
    queue_id: Int32 = 0
    index: Int64 = 0
    count: Int32 = 0
    consumer_group: str | None = None
