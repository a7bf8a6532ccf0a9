"""Names of topics and groups: which are allowed, and which belong to the system.

Brokers and clients check by the same rules, so that a name which one accepts is never refused by the other.
"""

from __future__ import annotations

import re

RETRY_PREFIX = "%RETRY%"
DLQ_PREFIX = "%DLQ%"
SYSTEM_PREFIX = "rmq_sys_"
SYSTEM_GROUP_PREFIX = "CID_RMQ_SYS_"
REPLY_SUFFIX = "_REPLY_TOPIC"

AUTO_CREATE_TOPIC = "TBW102"  # topics that are made by a send inherit from it
SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
TIMER_TOPIC = "rmq_sys_wheel_timer"
HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
OP_HALF_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
ROCKSDB_HALF_TOPIC = "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC"
ROCKSDB_OP_HALF_TOPIC = "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC"
CHECKS_EXHAUSTED_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"
SELF_TEST_TOPIC = "SELF_TEST_TOPIC"
BENCHMARK_TOPIC = "BenchmarkTest"
OFFSET_MOVED_TOPIC = "OFFSET_MOVED_EVENT"
CHECKPOINT_TOPIC = "CHECKPOINT_TOPIC"
TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"
REVIVE_PREFIX = "rmq_sys_REVIVE_LOG_"
POP_JOURNAL_TOPIC = "rmq_sys_pyromq_pop"  # what happens to young check points, as entries of our own

STATE_TOPIC = "rmq_sys_PYROMQ_STATE"  # changes of an elected set's tables, in the order in which its master made them

# Nobody may send to these: the broker parks messages there, and a stranger's would be taken for its own.
NO_SEND_TOPICS = frozenset(
    (
        SCHEDULE_TOPIC,
        HALF_TOPIC,
        OP_HALF_TOPIC,
        ROCKSDB_HALF_TOPIC,
        ROCKSDB_OP_HALF_TOPIC,
        CHECKS_EXHAUSTED_TOPIC,
        SELF_TEST_TOPIC,
        OFFSET_MOVED_TOPIC,
        TIMER_TOPIC,  # not in Java's list; a stranger's says no time there, and would be acked and nowhere
        STATE_TOPIC,  # ours alone: what a stranger sent there would be taken for a change of a table
    )
)

# System topics of every broker; those that carry a cluster's or a broker's name come on top.
SYSTEM_TOPICS = NO_SEND_TOPICS | {AUTO_CREATE_TOPIC, BENCHMARK_TOPIC, TRACE_TOPIC, CHECKPOINT_TOPIC}

SYSTEM_GROUPS = (
    "TOOLS_CONSUMER",
    "FILTERSRV_CONSUMER",
    "SELF_TEST_C_GROUP",
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_OWNER",
    "CID_RMQ_SYS_TRANS",
)

MAX_TOPIC = 127
MAX_RETRY_TOPIC = 255
MAX_GROUP = 120  # leaves room for the prefix and, with pop, the topic behind it
MAX_LABEL = 255

_ALLOWED = re.compile(r"[%|a-zA-Z0-9_-]+")
_CHARACTERS = "letters, digits and % | _ -"


def retry_topic(group: str) -> str:
    return RETRY_PREFIX + group


def dlq_topic(group: str) -> str:
    return DLQ_PREFIX + group


def is_retry(topic: str) -> bool:
    return topic.startswith(RETRY_PREFIX)


def is_sendable(topic: str) -> bool:
    """Return whether a client may send to it. Not to where pops are written down: brokers obey what they find there."""
    return topic not in NO_SEND_TOPICS and not topic.startswith(REVIVE_PREFIX) and topic != POP_JOURNAL_TOPIC


def is_system_topic(topic: str) -> bool:
    """Return whether it is a system topic by name alone; a broker adds the names from its own configuration."""
    return topic in SYSTEM_TOPICS or topic.startswith(SYSTEM_PREFIX)


def is_system_group(group: str) -> bool:
    return group in SYSTEM_GROUPS or group.startswith(SYSTEM_GROUP_PREFIX)


def topic_fault(topic: str) -> str | None:
    """Return what is wrong with a topic's name, None if nothing."""
    longest = MAX_RETRY_TOPIC if topic.startswith((RETRY_PREFIX, DLQ_PREFIX)) else MAX_TOPIC
    return _fault("topic", topic, longest)


def group_fault(group: str) -> str | None:
    return _fault("group", group, MAX_GROUP)


def label_fault(what: str, text: str) -> str | None:
    """Return what is wrong with a client's id, which may hold nearly anything, or with a group that need not exist."""
    if len(text) > MAX_LABEL:
        return f"the {what} {text[:64] + '...'!r} has {len(text)} characters, at most {MAX_LABEL} are allowed"
    return None if text.isprintable() else f"the {what} {text!r} has characters that cannot be printed"


def _fault(what: str, name: str, longest: int) -> str | None:
    if not name.strip():
        return f"the {what} name is empty"
    shown = name if len(name) <= 64 else name[:64] + "..."
    if not _ALLOWED.fullmatch(name):
        return f"the {what} name {shown!r} may hold only {_CHARACTERS}"
    if len(name) > longest:
        return f"the {what} name {shown!r} has {len(name)} characters, at most {longest} are allowed"
    return None
