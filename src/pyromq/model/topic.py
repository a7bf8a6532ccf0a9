"""Topics and their routes: permission bits, flags, the names that belong to the system."""

from __future__ import annotations

from collections.abc import Mapping

from .wire_text import whole_number

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


def parse_order(topic: str, text: str) -> dict[str, int]:
    """Return, by broker, how many queues an order topic has. ValueError for what is not like `broker-a:4;broker-b:4`.

    What cannot be read is never left out: keys would move to the queues that remain.
    """
    found: dict[str, int] = {}
    for part in filter(None, (part.strip() for part in text.split(";"))):
        name, _, number = part.partition(":")
        count = whole_number(number.strip())
        if not name.strip() or name.strip() in found or count is None:
            raise ValueError(
                f"the name servers' {ORDER_TOPIC_CONFIG} of {topic} is {text[:100]!r}, and {part[:100]!r} in it is not "
                "BROKER:QUEUES, each broker once, as in broker-a:4;broker-b:4"
            )
        found[name.strip()] = count
    return found


def order_text(queues: Mapping[str, int]) -> str:
    """Return what `parse_order` reads, without brokers that have no queue."""
    return ";".join(f"{name}:{count}" for name, count in queues.items() if count)
