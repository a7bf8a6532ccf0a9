"""Broadcast on our broker: every member gets everything and remembers by itself how far it is. Java's and ours."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pyromq

from . import wire
from .conftest import OwnCluster
from .peers import java
from .waiting import eventually

pytestmark = pytest.mark.interop

HEADERS = {"5.5.0": False, "4.9.8": True}
ALL_OFFSETS = 43


async def ours(own: OwnCluster, topic: str, group: str, folder: Path, count: int) -> list[str]:
    """What a member of ours gets, once so many have come."""
    bodies: list[str] = []
    enough = asyncio.Event()

    async def handle(message: pyromq.Received) -> None:
        bodies.append(bytes(message.body).decode())
        if len(bodies) >= count:
            enough.set()

    first = pyromq.ConsumeFromWhere.FIRST_OFFSET
    options: dict[str, Any] = {"group": group, "broadcast": True, "begin": first, "offsets_folder": folder}
    async with (
        pyromq.connect(own.servers, instance="ours") as client,
        client.push_consumer(topic, handle, **options),
        asyncio.timeout(60),
    ):
        await enough.wait()
    return bodies


@pytest.mark.parametrize("version", HEADERS)
def test_members_of_java_and_ours_remember_by_themselves(
    version: str, java_client: Callable[..., java.Client], own: OwnCluster, tmp_path: Path
) -> None:
    client = java_client(version, binary_headers=HEADERS[version])
    topic = own.new_topic(queues=2)
    group = f"GID_{topic}"
    early, later = [f"early {number}" for number in range(10)], [f"later {number}" for number in range(10)]
    client.send_by("sync", own.servers, topic, early)
    with client.consuming("broadcast", own.servers, topic, group) as first:
        eventually(lambda: len(first.bodies()) >= 10, "Java's member has all")
        assert sorted(asyncio.run(ours(own, topic, group, tmp_path, 10))) == early
    client.send_by("sync", own.servers, topic, later)
    with client.consuming("broadcast", own.servers, topic, group) as second:
        eventually(lambda: len(second.bodies()) >= 10, "Java's member goes on")
        assert sorted(second.bodies()) == later, "where it was: nothing a second time"
    assert sorted(asyncio.run(ours(own, topic, group, tmp_path, 10))) == later
    assert sorted(first.bodies()) == early
    kept = wire.ask(own.broker.address, ALL_OFFSETS)
    assert kept.code == 0
    committed = kept.body.partition(b'"offsetTable":')[2].partition(b'"pullOffsetTable":')[0]
    assert f"{topic}@{group}".encode() not in committed, "the broker keeps no offsets that the group has committed"
