"""Tags on a running broker: hashes here, texts at the client, and looks that go deep where matches are rare."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyromq.broker.filters.filters import tag_codes
from pyromq.model.codes import ResponseCode
from pyromq.model.java_hash import java_hash
from tests.broker.running import Running, running_broker
from tests.wire import decode_messages


async def send(broker: Running, *tags: str) -> None:
    for tag in tags:
        assert (await broker.send(body=tag.encode() or b"-", properties={"TAGS": tag} if tag else "")).code == 0


async def got(broker: Running, tags: str) -> list[str]:
    answer = await broker.pull(tags=tags)
    return [message.body.decode() for message in decode_messages(bytes(answer.body))]


async def test_colliding_hashes_both_come_and_the_client_chooses(tmp_path: Path) -> None:
    assert java_hash("Aa") == java_hash("BB")
    async with running_broker(tmp_path / "store") as broker:
        await send(broker, "Aa", "BB", "Ab", "")
        assert await got(broker, "Aa") == ["Aa", "BB"]


@pytest.mark.parametrize(
    ("tags", "wanted"),
    [
        ("*", ["A", "B", "C", "-"]),
        ("", ["A", "B", "C", "-"]),
        ("A", ["A"]),
        ("A||C", ["A", "C"]),
        ("  A  ||  C  ", ["A", "C"]),
        ("A || || C", ["A", "C"]),
        ("D", []),
        ("a", []),
    ],
)
async def test_expressions_of_tags(tmp_path: Path, tags: str, wanted: list[str]) -> None:
    async with running_broker(tmp_path / "store") as broker:
        await send(broker, "A", "B", "C", "")
        assert await got(broker, tags) == wanted


def test_a_star_among_tags_means_all() -> None:
    assert tag_codes(["A", "*"]) is None
    assert tag_codes([" A ", ""]) == frozenset({java_hash("A")})


async def test_rare_matches_are_found_in_one_pull(tmp_path: Path) -> None:
    """Over the ends of queue files (1,000 entries here) and much deeper than Java's 800 entries."""
    async with running_broker(tmp_path / "store") as broker:
        for number in range(5):
            for _ in range(20):
                assert (await broker.send_batch([b"x"] * 50)).code == 0
            await send(broker, f"rare{number % 2}")
        answer = await broker.pull(tags="rare0")
        offsets = [message.queue_offset for message in decode_messages(bytes(answer.body))]
        assert (answer.code, offsets) == (ResponseCode.SUCCESS, [1000, 3002, 5004])
        assert answer.fields["nextBeginOffset"] == "5005"
        first = await broker.pull(tags="rare0", maxMsgNums=1)
        assert first.fields["nextBeginOffset"] == "1001"


async def test_the_depth_of_a_look_is_a_setting(tmp_path: Path) -> None:
    async with running_broker(tmp_path / "store", max_filter_message_size=16_000) as broker:
        for _ in range(20):
            await broker.send_batch([b"x"] * 50)
        answer = await broker.pull(tags="none")
        assert (answer.code, answer.fields["nextBeginOffset"]) == (ResponseCode.PULL_RETRY_IMMEDIATELY, "800")


async def test_a_size_limit_ends_a_deep_look_before_what_does_not_fit(tmp_path: Path) -> None:
    async with running_broker(tmp_path / "store") as broker:
        await send(broker, "A")
        for _ in range(20):
            await broker.send_batch([b"x"] * 50)
        await broker.send(body=bytes(1_500), properties={"TAGS": "A"})
        answer = await broker.pull(tags="A", maxMsgBytes=1_000)
        assert [message.queue_offset for message in decode_messages(bytes(answer.body))] == [0]
        assert answer.fields["nextBeginOffset"] == "1001"
