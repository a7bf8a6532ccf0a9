"""Topics and their routes: permission bits, flags, the names that belong to the system."""

from __future__ import annotations

MASTER_ID = 0  # of the replicas of a broker name; the others are slaves


class Perm:  # bits, as plain numbers: they are tested for each send and pull
    INHERIT = 1
    WRITE = 2
    READ = 4
    PRIORITY = 8
    READ_WRITE = READ | WRITE


PERMISSIONS = {"none": 0, "w": 2, "r": 4, "rw": 6}  # in words, for people


def permission(bits: int) -> str:
    """Return the word for what a topic may be used for, or the number where there is none."""
    return next((word for word, value in PERMISSIONS.items() if value == bits & Perm.READ_WRITE), str(bits))


class TopicFlag:
    """Bits of a topic's system flag: units are RocketMQ's word for data centres that share topics."""

    UNIT = 1
    UNIT_SUB = 2


ORDER_TOPIC_CONFIG = "ORDER_TOPIC_CONFIG"  # namespace of name servers: order topic to `broker-a:4;broker-b:4`
SYNC_BROKER_MEMBER_PREFIX = "rmq_sys_SYNC_BROKER_MEMBER_"
