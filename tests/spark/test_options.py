"""Options: each is read, and a wrong one is told with name, value, what is allowed, and the nearest known name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pyromq.errors import ConfigError
from pyromq.spark.options import ReadOptions, Use, WriteOptions, check_read, declared, read_options, write_options
from pyromq.spark.read.offsets import Queue

NET = {"nameServer": "127.0.0.1:9876", "topic": "orders"}


def test_names_have_no_case() -> None:
    found = read_options({"NAMESERVER": "a:1;b:2", "topic": "x, y", "failondataloss": "FALSE"}, Use.BATCH)
    assert (found.name_server, found.topic, found.fail_on_data_loss) == (("a:1", "b:2"), ("x", "y"), False)


def test_places_and_times() -> None:
    given = NET | {"startingOffsets": '{"orders":{"a":{"0":5,"1":-2}}}', "endingTimestamp": "2026-01-01T00:00:00Z"}
    found = read_options(given, Use.BATCH)
    assert found.starting_offsets is not None
    assert found.starting_offsets.offsets == {Queue("orders", "a", 0): 5, Queue("orders", "a", 1): -2}
    assert found.ending_timestamp == 1_767_225_600_000
    times = read_options(NET | {"startingOffsetsByTimestamp": '{"orders":12,"x":{"a":{"1":7}}}'}, Use.STREAM)
    assert times.starting_times is not None
    assert times.starting_times.time_of(Queue("orders", "b", 3)) == 12
    assert times.starting_times.time_of(Queue("x", "a", 1)) == 7
    assert times.starting_times.time_of(Queue("x", "a", 2)) is None


@pytest.mark.parametrize(
    ("use", "given", "told"),
    [
        (
            Use.BATCH,
            NET | {"startingOffset": "earliest"},
            "startingOffset = 'earliest': there is no such option; did you mean startingOffsets?",
        ),
        (Use.BATCH, NET | {"subscribe": "a"}, "subscribe = 'a': that is Kafka's; here it is topic"),
        (Use.STREAM, {"kafka.bootstrap.servers": "a:1"}, "that is Kafka's; here it is nameServer"),
        (Use.BATCH, NET | {"failOnDataLoss": "no"}, "failOnDataLoss = 'no': allowed is true or false"),
        (Use.BATCH, NET | {"minPartitions": "0"}, "minPartitions = '0': allowed is a whole number of at least 1"),
        (
            Use.BATCH,
            NET | {"startingOffsets": "first"},
            "startingOffsets = 'first': allowed is earliest, latest, group or JSON",
        ),
        (Use.BATCH, NET | {"startingOffsets": '{"orders":{"a":{"0":-3}}}'}, "no offset is below -2"),
        (Use.BATCH, NET | {"startingOffsets": '{"orders":7}'}, "allowed is earliest, latest, group or JSON"),
        (Use.BATCH, NET | {"startingOffsets": "latest"}, "a batch read from there has nothing"),
        (Use.BATCH, NET | {"endingOffsets": "earliest"}, "endingOffsets = 'earliest': allowed is latest or JSON"),
        (
            Use.BATCH,
            NET | {"maxOffsetsPerTrigger": "5"},
            "maxOffsetsPerTrigger = '5': this option is for streams, not for batch reads",
        ),
        (Use.STREAM, NET | {"endingOffsets": "latest"}, "this option is for batch reads, not for streams"),
        (Use.STREAM, NET | {"maxTriggerDelay": "15"}, "allowed is a number and a unit"),
        (
            Use.STREAM,
            NET | {"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "5"},
            "more than maxOffsetsPerTrigger = 5",
        ),
        (Use.STREAM, NET | {"store": "s"}, "a stream needs nameServer"),
        (Use.BATCH, NET | {"startingOffsets": "group"}, "consumerGroup says which group"),
        (Use.BATCH, NET | {"tags": "a", "sql": "b > 1"}, "tags and sql: a broker filters by one of them"),
        (
            Use.BATCH,
            NET | {"startingTimestamp": "0", "startingOffsets": "earliest"},
            "startingOffsets and startingTimestamp: each says where to begin",
        ),
        (Use.BATCH, NET | {"startingTimestamp": "yesterday"}, "allowed is milliseconds since 1970"),
        (Use.BATCH, NET | {"topicPattern": "o.*"}, "topic and topicPattern: each says which messages"),
        (Use.BATCH, {"nameServer": "127.0.0.1:9876"}, "topic, topicPattern, assign: one of them is needed"),
        (Use.BATCH, {"nameServer": "127.0.0.1:9876", "topicPattern": "("}, "allowed is a regular expression"),
        (Use.BATCH, {"nameServer": "127.0.0.1:9876", "assign": '{"orders":[0]}'}, "allowed is JSON such as"),
        (
            Use.BATCH,
            {"nameServer": "nowhere", "topic": "x"},
            "nameServer = 'nowhere': allowed is host:port, such as 127.0.0.1:9876, several with ; between them",
        ),
        (Use.BATCH, {"nameServer": "a:1;nowhere", "topic": "x"}, "several with ; between them; 'nowhere' is none"),
        (
            Use.BATCH,
            NET | {"subscribepattern": "a"},
            "subscribePattern = 'a': that is Kafka's; here it is topicPattern",
        ),
        (Use.BATCH, {"topic": "x"}, "nameServer: it is needed"),
        (Use.BATCH, NET | {"path": "/tmp/x"}, "messages have no path"),
        (Use.BATCH, NET | {"producerGroup": "x"}, "producerGroup = 'x': this option is for writes"),
        (Use.BATCH, NET | {"tls.verify": "maybe"}, "tls.verify = 'maybe': allowed is full or ca or none"),
        (
            Use.BATCH,
            {"store": "s", "nameServer": "a:1"},
            "this option is for batch reads and streams and writes, not for reads of store files",
        ),
        (Use.BATCH, {"store": "s", "content": "all"}, "content = 'all': allowed is messages or damage"),
    ],
)
def test_a_wrong_option_is_told(use: Use, given: dict[str, str], told: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(told)):
        read_options(given, use)


def test_a_batch_read_of_files_and_of_brokers_at_once_says_what_to_leave_out() -> None:
    """Spark asks before it is known whether it is a batch read: the words were those for a stream."""
    with pytest.raises(ConfigError, match=r"nameServer = 'a:1': .*not for reads of store files; leave it out"):
        check_read({"store": "s", "nameServer": "a:1"})


def test_wrong_options_of_a_write() -> None:
    with pytest.raises(ConfigError, match="startingOffsets = 'earliest': this option is for reads"):
        write_options(NET | {"startingOffsets": "earliest"})
    with pytest.raises(ConfigError, match="sendOnce = 'yes': allowed is auto or required or off"):
        write_options(NET | {"sendOnce": "yes"})
    assert write_options(NET | {"checkpointLocation": "/x"}).topic == "orders"  # Spark hands it on


def test_the_page_has_every_option() -> None:
    page = (Path(__file__).parents[2] / "docs" / "spark.md").read_text("utf-8")
    missing = [
        one.name
        for kind in (ReadOptions, WriteOptions)
        for _, one in declared(kind).values()
        if f"`{one.name}`" not in page
    ]
    assert missing == []
