"""Names that popping gives to topics: where messages go that nobody acknowledged, and where check points wait. Pure.

A group's retry topic for popped messages is one per topic: `%RETRY%group_topic` (V1, the default) or
`%RETRY%group+topic` (V2, `enableRetryTopicV2`). V1 names of different pairs may be the same text, since groups and
topics may have a `_`.
"""

from __future__ import annotations

from .names import DLQ_PREFIX, POP_JOURNAL_TOPIC, RETRY_PREFIX, REVIVE_PREFIX
from .receipt import NORMAL, RETRY_V1, RETRY_V2

JOURNAL_TOPIC = POP_JOURNAL_TOPIC
REVIVE_GROUP = "CID_RMQ_SYS_REVIVE_GROUP"
V1, V2 = "_", "+"  # between group and topic


def retry_topic_v1(topic: str, group: str) -> str:
    return f"{RETRY_PREFIX}{group}{V1}{topic}"


def retry_topic_v2(topic: str, group: str) -> str:
    return f"{RETRY_PREFIX}{group}{V2}{topic}"


def retry_topic(topic: str, group: str, v2: bool = False) -> str:
    return retry_topic_v2(topic, group) if v2 else retry_topic_v1(topic, group)


def revive_topic(cluster: str) -> str:
    return REVIVE_PREFIX + cluster


def is_pop_retry(topic: str, group: str) -> bool:
    """Return whether it is a retry topic of popped messages of this group."""
    return topic.startswith((f"{RETRY_PREFIX}{group}{V2}", f"{RETRY_PREFIX}{group}{V1}"))


def normal_topic(topic: str, group: str) -> str:
    """Return the topic that a retry topic of this group belongs to; a topic that is none is returned as it is."""
    for mark in (V2, V1):
        prefix = f"{RETRY_PREFIX}{group}{mark}"
        if topic.startswith(prefix):
            return topic[len(prefix) :]
    return topic


def first_topic(held: str, named: str | None) -> str:
    """Return the topic that a message was sent to, which a group's retries or dead letters (`held`) have now.

    `named`: what its property RETRY_TOPIC says. Of one that was popped that is the retry topic that it died in.
    """
    for prefix in (RETRY_PREFIX, DLQ_PREFIX):
        if held.startswith(prefix):
            return normal_topic(named or held, held.removeprefix(prefix))
    return named or held


def retrying_group(retry: str, topic: str) -> str:
    """Return the group whose popped messages of this topic come again by this retry topic; "" if it is no such."""
    for mark in (V2, V1):
        if retry.startswith(RETRY_PREFIX) and retry.endswith(f"{mark}{topic}"):
            return retry[len(RETRY_PREFIX) : -len(topic) - 1]
    return ""


def retry_mark(topic: str, group: str) -> str:
    """Return what stands in receipts for the topic: normal, or a retry topic of the first or the second form."""
    if not topic.startswith(f"{RETRY_PREFIX}{group}"):
        return NORMAL
    mark = topic[len(RETRY_PREFIX) + len(group) : len(RETRY_PREFIX) + len(group) + 1]
    return {V1: RETRY_V1, V2: RETRY_V2}.get(mark, NORMAL)


def popped_topic(topic: str, group: str, mark: str) -> str:
    """Return the topic that a message with this mark was popped from, given the topic that was asked for."""
    if mark == RETRY_V1:
        return retry_topic_v1(topic, group)
    return retry_topic_v2(topic, group) if mark == RETRY_V2 else topic
