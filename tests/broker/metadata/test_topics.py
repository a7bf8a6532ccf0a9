"""The topic table: Java's file, Java's rules of inheritance, and a version that moves with every change."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from pyromq.broker.config import BrokerConfig
from pyromq.broker.metadata.topics import Topics, system_topics
from pyromq.model.topic import Perm
from pyromq.protocol.bodies.body import encode_body
from pyromq.protocol.bodies.topics import TopicConfig
from pyromq.store.files.disk import read_whole
from pyromq.store.tables.json_tables import JsonTable, TableDamaged
from pyromq.testing.simulated_disk import SimulatedDisk

GOLDEN = Path(__file__).parents[2] / "golden" / "store-clean.tar.gz"
NAME = "config/topics.json"


def topics_on(disk: SimulatedDisk, config: BrokerConfig | None = None) -> tuple[Topics, JsonTable]:
    table = JsonTable(disk, NAME)
    return Topics(
        table, lambda: 1_700_000_000_000, system_topics(config or BrokerConfig(broker_name="broker-a"))
    ), table


def golden_table(name: str) -> bytes:
    with tarfile.open(GOLDEN) as archive:
        member = archive.extractfile(f"store/{name}")
        assert member is not None
        return member.read()


def put_file(disk: SimulatedDisk, name: str, content: bytes) -> None:
    table = JsonTable(disk, name)
    for section, value in json.loads(content).items():
        table.replace(section, value)
    table.save()


def test_a_new_broker_has_the_system_topics_that_java_creates(disk: SimulatedDisk) -> None:
    java = json.loads(golden_table(NAME))["topicConfigTable"]
    topics, _ = topics_on(disk, BrokerConfig(broker_name="broker-a", trace_topic_enable=True))
    ours = {name: (one.perm, one.read_queue_nums, one.write_queue_nums) for name, one in topics.all().items()}
    theirs = {
        name: (one["perm"], one["readQueueNums"], one["writeQueueNums"])
        for name, one in java.items()
        if not name.startswith(("Golden", "%"))
    }
    assert ours == theirs


def test_java_s_table_is_taken_over_with_its_version_and_written_again_in_its_form(disk: SimulatedDisk) -> None:
    content = golden_table(NAME)
    put_file(disk, NAME, content)
    topics, table = topics_on(disk)
    assert topics.version.counter == 31
    fifo = topics.find("GoldenFifo")
    assert fifo is not None
    assert (fifo.order, fifo.attributes) == (True, {"message.type": "FIFO"})
    table.save()
    assert json.loads(read_whole(disk, NAME)) == json.loads(content)


def test_what_is_put_survives_a_restart(disk: SimulatedDisk) -> None:
    topics, table = topics_on(disk)
    topics.put(TopicConfig(topic_name="T", read_queue_nums=3, write_queue_nums=3, attributes={"message.type": "FIFO"}))
    topics.delete("BenchmarkTest")
    table.save()
    again, _ = topics_on(disk)
    assert again.find("T") == topics.find("T")
    assert again.version.counter == topics.version.counter + 1  # the missing system topic is made again
    assert "BenchmarkTest" in again


def test_every_change_moves_the_version_and_is_told_and_an_equal_value_is_none(disk: SimulatedDisk) -> None:
    topics, _ = topics_on(disk)
    told: list[tuple[str, bool]] = []
    topics.watch(lambda name: told.append((name, name in topics)))
    before = topics.version.counter
    assert topics.put(TopicConfig(topic_name="T"))
    assert not topics.put(TopicConfig(topic_name="T"))
    assert topics.delete("T")
    assert not topics.delete("T")
    assert told == [("T", True), ("T", False)]
    assert topics.version.counter == before + 2


@pytest.mark.parametrize(("asked", "given"), [(4, 4), (8, 8), (20, 8), (0, 0), (-3, 0)])
def test_a_topic_inherits_queues_up_to_the_parent_s(disk: SimulatedDisk, asked: int, given: int) -> None:
    topics, _ = topics_on(disk)
    made = topics.inherit("T", "TBW102", asked)
    assert made is not None
    assert (made.read_queue_nums, made.write_queue_nums, made.perm) == (given, given, Perm.READ_WRITE)


def test_only_a_parent_that_passes_itself_on_makes_topics(disk: SimulatedDisk) -> None:
    topics, _ = topics_on(disk)
    assert topics.inherit("T", "BenchmarkTest", 4) is None
    assert topics.inherit("T", "Missing", 4) is None
    assert "T" not in topics


def test_without_auto_creation_there_is_no_parent(disk: SimulatedDisk) -> None:
    topics, _ = topics_on(disk, BrokerConfig(broker_name="broker-a", auto_create_topic_enable=False))
    assert topics.inherit("T", "TBW102", 4) is None


def test_an_existing_topic_is_never_made_again(disk: SimulatedDisk) -> None:
    topics, _ = topics_on(disk)
    mine = TopicConfig(topic_name="T", read_queue_nums=2, write_queue_nums=2)
    topics.put(mine)
    assert topics.inherit("T", "TBW102", 8) == mine
    assert topics.ensure("T", 1) == mine


def test_system_topics_are_known_by_name_and_by_configuration(disk: SimulatedDisk) -> None:
    topics, _ = topics_on(disk)
    for name in ("TBW102", "broker-a", "DefaultCluster", "DefaultCluster_REPLY_TOPIC", "rmq_sys_anything"):
        assert topics.is_system(name), name
    assert not topics.is_system("Orders")
    assert "SCHEDULE_TOPIC_XXXX" in topics.system_names()


def test_a_table_that_cannot_be_read_stops_the_start_and_names_the_topic(disk: SimulatedDisk) -> None:
    put_file(disk, NAME, b'{"topicConfigTable":{"T":{"perm":"all"}}}')
    with pytest.raises(TableDamaged, match=r"topic T in config/topics.json"):
        topics_on(disk)
    put_file(disk, NAME, b'{"topicConfigTable":{"T":7}}')
    with pytest.raises(TableDamaged, match=r"topic T in config/topics.json"):
        topics_on(disk)


def test_pages_go_through_all_names_in_order(disk: SimulatedDisk) -> None:
    topics, _ = topics_on(disk)
    seen: list[str] = []
    version = encode_body(topics.version).decode()
    while page := topics.page(version, len(seen), 4):
        seen += page
    assert seen == sorted(topics.all())
