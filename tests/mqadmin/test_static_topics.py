"""Static topics are made with the mapping that Java's tool makes, and grow without moving what is there."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from pyromq.model.codes import RequestCode as Code
from pyromq.mqadmin.command import Failed
from pyromq.mqadmin.static_topics import extended
from pyromq.protocol.bodies.body import encode_body
from pyromq.protocol.bodies.topics import TopicConfigAndQueueMapping, TopicQueueMappingDetail
from pyromq.protocol.json import parse_json
from pyromq.transport.dispatch import Reply

from .conftest import call
from .golden import GOLDEN, blocks
from .stand_in import StandIn, standing_in

UNKNOWN = Reply(17, remark="No topic in this broker. topic: GoldenStatic")


def owners(configs: dict[str, TopicConfigAndQueueMapping]) -> dict[str, list[int]]:
    found = {}
    for name, config in configs.items():
        assert config.mapping_detail is not None
        found[name] = sorted(config.mapping_detail.hosted_queues)
    return found


def test_queues_are_spread_and_stay_where_they_are() -> None:
    first = extended("T", {}, ["b", "a"], ["a", "b", "c"], 3, 1000)
    assert owners(first) == {"a": [0, 2], "b": [1], "c": []}
    assert {config.mapping_detail.epoch for config in first.values() if config.mapping_detail} == {1000}
    more = extended("T", first, ["a", "b", "c"], ["a", "b", "c"], 6, 1500)
    assert owners(more) == {"a": [0, 2], "b": [1, 4], "c": [3, 5]}
    assert more["c"].write_queue_nums == 2
    assert {config.mapping_detail.epoch for config in more.values() if config.mapping_detail} == {2000}
    with pytest.raises(Failed, match="has 6 queues already"):
        extended("T", more, ["a"], ["a"], 6, 5000)


def test_a_usual_topic_does_not_become_static() -> None:
    plain = TopicConfigAndQueueMapping(topic_name="T")
    with pytest.raises(Failed, match="of the usual kind"):
        extended("T", {"a": plain}, ["a"], ["a"], 4, 0)


def test_brokers_that_disagree_are_left_alone() -> None:
    hole = TopicConfigAndQueueMapping(topic_name="T", mapping_detail=TopicQueueMappingDetail(topic="T", bname="a"))
    known = extended("T", {"a": hole}, ["a"], ["a"], 2, 0)
    assert known["a"].mapping_detail is not None
    del known["a"].mapping_detail.hosted_queues[0]
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


def test_a_mapping_of_another_topic_is_refused(tmp_path: Path) -> None:
    (tmp_path / "map").write_bytes(encode_body(TopicQueueMappingDetail(topic="Other")))
    with standing_in(StandIn()) as apache:
        words = ("-n", apache.address, "-b", "broker-a", "-qn", "4", "-mf", str(tmp_path / "map"))
        shown = call("updateStaticTopic", *words, "-t", "T")
        unknown = call("updateStaticTopic", "-n", apache.address, "-b", "broker-x", "-qn", "4", "-t", "T")
    assert "is the mapping of Other, not of T" in shown.err
    assert "knows no master of broker-x" in unknown.err
