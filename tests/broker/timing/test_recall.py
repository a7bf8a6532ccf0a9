"""Recall of a message that waits (request 370), and what may be asked about it: answers as Java gave them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from pyromq.model.codes import ResponseCode
from pyromq.model.recall_handle import BadHandle, RecallHandle, decode_handle
from pyromq.protocol.command import Command
from pyromq.protocol.requests import RequestCode
from pyromq.testing.clock import ManualClock
from pyromq.testing.simulated_disk import SimulatedDisk
from tests.broker.test_recorded_exchanges import EXCHANGES
from tests.broker.virtual import START_MS, Virtual, properties, virtual_broker

TIMER = "rmq_sys_wheel_timer"
ON: dict[str, Any] = {"recall_message_enable": True}


async def timed(life: Virtual, body: str, seconds: int) -> str:
    pairs = {"TIMER_DELAY_SEC": str(seconds), "UNIQ_KEY": f"id-{body}"}
    return (await life.send(body=body.encode(), properties=pairs)).fields["recallHandle"]


async def recall(life: Virtual, handle: str, topic: str = "T") -> Command:
    return await life.call(RequestCode.RECALL_MESSAGE, producerGroup="P", topic=topic, recallHandle=handle)


async def test_a_recalled_message_is_not_delivered(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path, **ON) as life:
        handle = await timed(life, "a", 10)
        await timed(life, "b", 10)
        await life.advance(3)
        answer = await recall(life, handle)
        assert (answer.code, answer.fields) == (0, {"msgId": "id-a", "MSG_REGION": "DefaultRegion"})
        await life.advance(20)
        assert life.bodies("T") == ["b"]
        assert life.broker.timing.timer_store.waiting == 0


async def test_the_marker_is_the_one_that_java_stores(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path, **ON) as life:
        await recall(life, await timed(life, "a", 10))
        marker = life.stored(TIMER)[1]
        assert marker.body == b"0"
        assert properties(marker) == {
            "TAGS": "_RECALL_TAG_",
            "TIMER_DEL_UNIQKEY": "id-a",
            "UNIQ_KEY": "id-a",
            "TIMER_DELIVER_MS": str(START_MS + 9001),
            "TIMER_OUT_MS": str(START_MS + 9000),
            "BORN_TIMESTAMP": str(START_MS),
            "PGROUP": "P",
            "REAL_TOPIC": "T",
            "REAL_QID": "0",
        }


@pytest.mark.parametrize("how", ["stop", "kill"])
async def test_a_recall_holds_over_a_restart(tmp_path: Path, how: str) -> None:
    clock = ManualClock(START_MS)
    disk = SimulatedDisk(now_ms=clock.now_ms)
    async with virtual_broker(tmp_path, disk, clock, killed=how == "kill", **ON) as life:
        handle = await timed(life, "a", 10)
        await timed(life, "b", 10)
        assert (await recall(life, handle)).code == 0
    async with virtual_broker(tmp_path, disk.kill() if how == "kill" else disk, clock, **ON) as life:
        await life.advance(20)
        assert life.bodies("T") == ["b"]


def waits(life: Virtual) -> tuple[dict[str, int], int]:
    assert life.broker.timing.timers is not None
    return life.broker.timing.timers.counts.by_topic(), life.broker.timing.timer_store.waiting


async def test_a_second_recall_takes_nothing_more_from_the_count(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path, **ON) as life:
        first, second, *_ = [await timed(life, body, 40) for body in "abcd"]
        await timed(life, "e", 60)
        twice = [await recall(life, first) for _ in range(2)]
        assert twice[0].fields == twice[1].fields == {"msgId": "id-a", "MSG_REGION": "DefaultRegion"}
        assert [one.code for one in await asyncio.gather(recall(life, second), recall(life, second))] == [0, 0]
        await life.advance(1)
        assert waits(life) == ({"T": 3}, 3)
        await life.advance(45)
        assert (life.bodies("T"), waits(life)) == (["c", "d"], ({"T": 1}, 1))


@pytest.mark.parametrize("how", ["stop", "kill"])
async def test_nor_does_it_after_a_restart(tmp_path: Path, how: str) -> None:
    clock = ManualClock(START_MS)
    disk = SimulatedDisk(now_ms=clock.now_ms)
    async with virtual_broker(tmp_path, disk, clock, killed=how == "kill", **ON) as life:
        handle = await timed(life, "a", 40)
        await timed(life, "b", 40)
        assert (await recall(life, handle)).code == 0
        await life.advance(3)
    async with virtual_broker(tmp_path, disk.kill() if how == "kill" else disk, clock, **ON) as life:
        assert (await recall(life, handle)).code == 0
        await life.advance(1)
        assert waits(life) == ({"T": 1}, 1)
        await life.advance(45)
        assert (life.bodies("T"), waits(life)) == (["b"], ({}, 0))


async def test_markers_that_another_broker_left_twice_and_for_nothing_are_forgotten_with_their_slot(
    tmp_path: Path,
) -> None:
    """Without an index nobody knows them before: when their slot has come, the count is right again."""
    async with virtual_broker(tmp_path, index_enabled=False, **ON) as life:
        handle = await timed(life, "a", 10)
        for body in "bcde":
            await timed(life, body, 40)
        await life.advance(1)
        await recall(life, handle)
        marker = life.stored(TIMER)[-1]
        life.broker.intake.put(replace(marker, physical_offset=0), lambda outcome: None)
        life.broker.intake.flush()
        await recall(life, RecallHandle("T", "broker-a", START_MS + 10_000, "nobody").encode())
        await life.advance(20)
        assert (life.bodies("T"), waits(life)) == ([], ({"T": 4}, 4))


async def test_what_does_not_say_where_it_belongs_leaves_the_count_too(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path, **ON) as life:
        await timed(life, "a", 10)
        bad = life.stored(TIMER)[0]
        bad = replace(
            bad, physical_offset=0, properties=bytes(bad.properties).replace(b"REAL_QID\x010", b"REAL_QID\x01x")
        )
        life.broker.intake.put(bad, lambda outcome: None)
        life.broker.intake.flush()
        await life.advance(1)
        assert waits(life) == ({"T": 2}, 2)
        await life.advance(20)
        assert (life.bodies("T"), waits(life)) == (["a"], ({}, 0))


async def test_until_the_last_moment(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path, **ON) as life:
        handle = await timed(life, "a", 10)
        await life.advance(9)
        assert (await recall(life, handle)).code == 0
        await life.advance(5)
        assert life.bodies("T") == []


async def test_a_recalled_message_that_rolls_on_the_way(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path, timer_roll_window_slot=60, **ON) as life:
        handle = await timed(life, "a", 300)
        await timed(life, "b", 300)
        await life.advance(100)
        assert (await recall(life, handle)).code == 0
        await life.advance(300)
        assert life.bodies("T") == ["b"]


@pytest.mark.parametrize(
    ("handle", "topic", "code", "words"),
    [
        (
            RecallHandle("T", "broker-a", START_MS, "U").encode(),
            "T",
            604,
            "timestamp invalid: the message was due 0 ms",
        ),
        (RecallHandle("T", "broker-a", START_MS + 259_200_000, "U").encode(), "T", 604, "beyond timerMaxDelaySec"),
        (RecallHandle("T", "broker-b", START_MS + 5_000, "U").encode(), "T", 604, "the message is at broker-b"),
        (RecallHandle("X", "broker-a", START_MS + 5_000, "U").encode(), "T", 604, "topic not match"),
        ("bad", "T", 604, "recall handle is invalid"),
        ("bad", "Nowhere", 17, "the topic[Nowhere] not exist"),
    ],
)
async def test_refusals_have_javas_codes(tmp_path: Path, handle: str, topic: str, code: int, words: str) -> None:
    async with virtual_broker(tmp_path, **ON) as life:
        await life.send()
        refused = await recall(life, handle, topic)
        assert refused.code == code
        assert words in str(refused.remark)
        assert refused.fields["MSG_REGION"] == "DefaultRegion"


async def test_it_is_off_by_default(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path) as life:
        refused = await recall(life, await timed(life, "a", 10))
        assert refused.code == ResponseCode.NO_PERMISSION
        assert "recallMessageEnable" in str(refused.remark)


def test_handles_are_read_as_java_writes_them() -> None:
    recorded = "djEgR29sZGVuRGVsYXkgYnJva2VyLWEgMTc5NDc2OTEyODAwMSBDMDAwMDIwMjQwNzM0RTBFMkYyQTRDMkI4Njk5MDExMg=="
    handle = decode_handle(recorded)
    assert handle == ("GoldenDelay", "broker-a", 1794769128001, "C000020240734E0E2F2A4C2B86990112")
    assert handle.encode() == recorded
    assert decode_handle(recorded.rstrip("=")) == handle
    for text in ("", "x", "djI=", "v1 T b 1 U", "\u00e9"):
        with pytest.raises(BadHandle):
            decode_handle(text)


async def test_java_asks_for_check_point_and_counts(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path, **ON) as life:
        await timed(life, "a", 10)
        await timed(life, "b", 20)
        await life.advance(12)
        metrics = json.loads(bytes((await life.call(RequestCode.GET_TIMER_METRICS)).body))
        assert metrics["timingCount"]["T"]["count"] == 1
        check = bytes((await life.call(RequestCode.GET_TIMER_CHECK_POINT)).body)
        assert len(check) == 56
        assert int.from_bytes(check[16:24], "big") == 2
        assert (await life.call(RequestCode.SWITCH_TIMER_ENGINE, E_T="F")).code == 0
        refused = await life.call(RequestCode.SWITCH_TIMER_ENGINE, E_T="R")
        assert refused.code == ResponseCode.INVALID_PARAMETER


async def test_inspection_shows_what_waits_and_the_runtime_how_far_behind(tmp_path: Path) -> None:
    async with virtual_broker(tmp_path, **ON) as life:
        await timed(life, "a", 10)
        await timed(life, "b", 20)
        await life.send(properties={"DELAY": "3"})
        await life.advance(1)
        found = json.loads(bytes((await life.call(RequestCode.INSPECT)).body))["parked"]
        assert found == {
            "delay level 3": 1,
            "timer, topic T": 2,
            "timer, all topics": 2,
            "timer, ms to the next": 9000,
        }
        runtime = json.loads(bytes((await life.call(RequestCode.GET_BROKER_RUNTIME_INFO)).body))["table"]
        assert (runtime["timerReadBehind"], runtime["timerOffsetBehind"]) == ("0", "0")
        life.clock.step_wall(60)
        runtime = json.loads(bytes((await life.call(RequestCode.GET_BROKER_RUNTIME_INFO)).body))["table"]
        assert runtime["timerReadBehind"] == "51000"


async def test_the_recorded_recalls_get_the_recorded_answers(tmp_path: Path) -> None:
    """At the time of each handle, with the switch as it was then."""
    asked = 0
    for number, (request, response) in enumerate(EXCHANGES[RequestCode.RECALL_MESSAGE]):
        fields = request["header"].get("extFields") or {}
        if not fields or response["code"] == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            continue  # an empty request; a name server
        handle = fields["recallHandle"]
        now = START_MS if handle == "bad" else decode_handle(handle).time_ms - 1500
        on = response["code"] != ResponseCode.NO_PERMISSION
        async with virtual_broker(tmp_path / str(number), clock=ManualClock(now), recall_message_enable=on) as life:
            await life.send(topic="GoldenDelay")
            answer = await life.call(RequestCode.RECALL_MESSAGE, **fields)
            assert (answer.code, answer.fields) == (response["code"], response["header"]["extFields"])
            asked += 1
    assert asked >= 6
