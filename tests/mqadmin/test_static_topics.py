"""Static topics are made with the mapping that Java's tool makes, and grow without moving what is there."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from pyromq.mqadmin.command import Failed
from pyromq.mqadmin.topics.static_mapping import Configs, extended, mapping_of, moved, settle
from pyromq.protocol.bodies.body import encode_body
from pyromq.protocol.bodies.keyed import ByQueue, MessageQueue
from pyromq.protocol.bodies.offsets import TopicOffset, TopicStatsTable
from pyromq.protocol.bodies.topics import TopicConfigAndQueueMapping, TopicQueueMappingDetail
from pyromq.protocol.json import parse_json
from pyromq.protocol.requests import RequestCode as Code
from pyromq.transport.dispatch import Reply

from .conftest import call
from .golden import GOLDEN, blocks
from .stand_in import StandIn, standing_in

UNKNOWN = Reply(17, remark="No topic in this broker. topic: GoldenStatic")


def owners(configs: Configs) -> dict[str, list[int]]:
    """The logical queues that each broker has, its own and those that it gave away."""
    return {name: sorted(mapping_of(config).hosted_queues) for name, config in configs.items()}


def test_queues_are_spread_and_stay_where_they_are() -> None:
    first = extended("T", {}, ["b", "a"], ["a", "b", "c"], 3, 1000)
    assert owners(first) == {"a": [0, 2], "b": [1], "c": []}
    assert {mapping_of(config).epoch for config in first.values()} == {1000}
    more = extended("T", first, ["a", "b", "c"], ["a", "b", "c"], 6, 1500)
    assert owners(more) == {"a": [0, 2], "b": [1, 4], "c": [3, 5]}
    assert more["c"].write_queue_nums == 2
    assert {mapping_of(config).epoch for config in more.values()} == {2000}
    with pytest.raises(Failed, match="has 6 queues already"):
        extended("T", more, ["a"], ["a"], 6, 5000)


def test_as_few_queues_as_possible_are_moved() -> None:
    first = extended("T", {}, ["a"], ["a"], 5, 1000)
    move = moved("T", first, ["a", "b"], 1500)
    assert (move.takers, move.givers) == (("b",), ("a",))
    assert owners(move.configs) == {"a": [0, 1, 2, 3, 4], "b": [3, 4]}
    items = mapping_of(move.configs["b"]).hosted_queues[3]
    assert [(item.bname, item.queue_id, item.gen, item.logic_offset) for item in items] == [
        ("a", 3, 0, 0),
        ("b", 0, 1, -1),
    ]
    assert move.configs["b"].write_queue_nums == 2
    assert {mapping_of(config).epoch for config in move.configs.values()} == {2000}
    again = moved("T", move.configs, ["a", "b"], 3000)
    assert (again.takers, again.givers) == ((), ())


def test_all_queues_leave_a_broker_that_is_no_target() -> None:
    first = extended("T", {}, ["a", "b"], ["a", "b"], 4, 1000)
    move = moved("T", first, ["b", "c"], 2000)
    assert (move.takers, move.givers) == (("c",), ("a",))
    with pytest.raises(Failed, match="no static topic"):
        moved("T", {}, ["a"], 0)


@pytest.mark.parametrize(("end", "goes_on"), [(0, 10_000), (4_999, 10_000), (5_000, 20_000), (12_345, 20_000)])
def test_a_moved_queue_goes_on_at_a_round_offset(end: int, goes_on: int) -> None:
    (items,) = (mapping_of(config).hosted_queues[0] for config in [_moved_once()])
    settle(items, end)
    assert items[-1].logic_offset == goes_on


def _moved_once() -> TopicConfigAndQueueMapping:
    return moved("T", extended("T", {}, ["a"], ["a"], 1, 0), ["b"], 1).configs["b"]


def test_a_usual_topic_does_not_become_static() -> None:
    plain = TopicConfigAndQueueMapping(topic_name="T")
    with pytest.raises(Failed, match="of the usual kind"):
        extended("T", {"a": plain}, ["a"], ["a"], 4, 0)


def test_brokers_that_disagree_are_left_alone() -> None:
    hole = TopicConfigAndQueueMapping(topic_name="T", mapping_detail=TopicQueueMappingDetail(topic="T", bname="a"))
    known = extended("T", {"a": hole}, ["a"], ["a"], 2, 0)
    del mapping_of(known["a"]).hosted_queues[0]
    with pytest.raises(Failed, match="do not agree"):
        extended("T", known, ["a"], ["a"], 4, 0)


def test_the_request_of_the_recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (block,) = blocks("updateStaticTopic")
    answers = {Code.GET_TOPIC_CONFIG: UNKNOWN, Code.UPDATE_AND_CREATE_STATIC_TOPIC: Reply()}
    with standing_in(StandIn(answers)) as apache:
        shown = call(*(apache.address if word == "127.0.0.1:19876" else word for word in block.words))
        (fields, body) = next((fields, body) for code, fields, body in apache.asked if code == 513)
        again = call(*block.words[:1], "-n", apache.address, *block.words[3:], "-mf", _after(shown.out))
    path = r"\S*/GoldenStatic-\d+"
    assert re.sub(path, "FILE", shown.out) == re.sub(path, "FILE", block.printed)
    frame = next(
        frame
        for line in (GOLDEN / "frames" / "index.jsonl").read_text().splitlines()
        if (frame := json.loads(line))["code"] == 513 and frame["header"].get("extFields")
    )
    assert fields == frame["header"]["extFields"]
    ours, java = (parse_json(text.encode()) | {"epoch": 0} for text in (body, frame["body_text"]))
    assert ours == java
    assert (again.code, again.out) == (0, "")
    assert [code for code, *_ in apache.asked].count(513) == 2


def _after(printed: str) -> str:
    (path,) = re.findall(r"file (\S+\.after)", printed)
    return str(path)


def test_a_remapping_goes_step_by_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Taker, giver, then the taker with the offset at which the giver stopped."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (block,) = blocks("remappingStaticTopic")
    first = extended("GoldenStatic", {}, ["broker-a"], ["broker-a"], 1, 1000)["broker-a"]
    place = MessageQueue(topic="GoldenStatic", broker_name="broker-a", queue_id=0)
    stats = TopicStatsTable(offset_table=ByQueue({place: TopicOffset(max_offset=123)}))
    of_a = {
        Code.GET_TOPIC_CONFIG: Reply(body=encode_body(first)),
        Code.UPDATE_AND_CREATE_STATIC_TOPIC: Reply(),
        Code.GET_TOPIC_STATS_INFO: Reply(body=encode_body(stats)),
    }
    of_b = {Code.GET_TOPIC_CONFIG: UNKNOWN, Code.UPDATE_AND_CREATE_STATIC_TOPIC: Reply()}
    with standing_in(StandIn(of_a)) as a, standing_in(StandIn(of_b)) as b:
        a.others = {"broker-b": b.address}
        shown = call("remappingStaticTopic", "-n", a.address, "-t", "GoldenStatic", "-b", "broker-b")
    path = r"\S*/GoldenStatic-\d+"
    assert re.sub(path, "FILE", shown.out) == re.sub(path, "FILE", block.printed)
    to_a, to_b = ([parse_json(body.encode()) for code, _, body in each.asked if code == 513] for each in (a, b))
    assert [mapping["hostedQueues"]["0"][-1]["logicOffset"] for mapping in to_a] == [-1]
    assert [mapping["hostedQueues"]["0"][-1]["logicOffset"] for mapping in to_b] == [-1, 10_000]


def test_a_mapping_of_another_topic_is_refused(tmp_path: Path) -> None:
    (tmp_path / "map").write_bytes(encode_body(TopicQueueMappingDetail(topic="Other")))
    with standing_in(StandIn()) as apache:
        words = ("-n", apache.address, "-b", "broker-a", "-qn", "4", "-mf", str(tmp_path / "map"))
        shown = call("updateStaticTopic", *words, "-t", "T")
        unknown = call("updateStaticTopic", "-n", apache.address, "-b", "broker-x", "-qn", "4", "-t", "T")
    assert "is the mapping of Other, not of T" in shown.err
    assert "knows no master of broker-x" in unknown.err
