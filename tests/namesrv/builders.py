"""Registrations in few words, for the tests of the route table."""

from __future__ import annotations

from typing import Any

from pyromq.namesrv.registration import Registration
from pyromq.protocol.bodies.body import DataVersion
from pyromq.protocol.bodies.topics import TopicConfig, TopicQueueMappingInfo


def topics(*names: str, perm: int = 6, queues: int = 4, flag: int = 0) -> dict[str, TopicConfig]:
    return {
        name: TopicConfig(
            topic_name=name, read_queue_nums=queues, write_queue_nums=queues, perm=perm, topic_sys_flag=flag
        )
        for name in names
    }


def version(counter: int = 1, state: int = 0) -> DataVersion:
    return DataVersion(counter=counter, state_version=state, timestamp=1000)


def mapping(topic: str, broker_name: str, epoch: int = 1) -> TopicQueueMappingInfo:
    return TopicQueueMappingInfo(topic=topic, bname=broker_name, total_queues=2, epoch=epoch, curr_id_map={0: 0, 1: 1})


def registration(name: str = "broker-a", broker_id: int = 0, **other: Any) -> Registration:
    """A 5.x broker without acting-master mode and with two topics, unless said otherwise."""
    address = other.pop("address", f"{name}-{broker_id}:10911")
    facts: dict[str, Any] = {
        "cluster": "DefaultCluster",
        "channel": f"channel of {address}",
        "ha_address": address.replace(":10911", ":10912"),
        "acting_master": False,
        "version": version(),
        "topics": topics("TopicA", "TopicB"),
    }
    return Registration(broker_name=name, broker_id=broker_id, address=address, **(facts | other))
