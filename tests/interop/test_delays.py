"""Delay levels on real time with clients nobody here wrote: none early, each once, in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .conftest import OwnCluster
from .peers import cpp, go, java, node
from .timed import cluster, delivered, send_timed
from .waiting import eventually

pytestmark = pytest.mark.interop

BODIES = ["a", "b", "c"]
SMALL = {"go": go, "cpp": cpp, "node": node}


@pytest.fixture(scope="module")
def quick(home: Callable[[str], Path]) -> Iterator[OwnCluster]:
    with cluster(home, "delays") as running:
        yield running


@pytest.mark.parametrize("version", ["5.5.0", "4.9.8"])
def test_java(quick: OwnCluster, java_client: Callable[..., java.Client], version: str) -> None:
    topic = quick.new_topic()
    client = java_client(version)
    late = send_timed(client, quick.servers, topic, ["late"], level=2)
    soon = send_timed(client, quick.servers, topic, ["soon"], level=1)
    highest = send_timed(client, quick.servers, topic, ["highest"], level=99)
    held = delivered(quick.broker.address, topic, 3)
    assert [one.body for one in held] == ["soon", "late", "highest"]
    for one, sent, seconds in zip(held, (soon, late, highest), (1, 2, 3), strict=True):
        assert one.store_ms - sent[0]["sent"] >= seconds * 1000
    with client.consuming("push", quick.servers, topic, f"G_{topic}") as consumer:
        eventually(lambda: sorted(consumer.bodies()) == ["highest", "late", "soon"], "all three were consumed")


@pytest.mark.parametrize("language", list(SMALL))
def test_other_languages(
    quick: OwnCluster, request: pytest.FixtureRequest, home: Callable[[str], Path], language: str
) -> None:
    request.getfixturevalue(f"{language}_peer")
    topic = quick.new_topic(1)
    peer = SMALL[language]
    peer.client.delay(quick.servers, topic, 1, BODIES, home=home(language))
    held = delivered(quick.broker.address, topic, len(BODIES))
    assert [one.body for one in held] == BODIES
    assert {one.properties["DELAY"] for one in held} == {"1"}
    got = peer.client.consume(quick.servers, topic, f"G_{language}", "*", len(BODIES), home=home(language))
    assert sorted(one["body"] for one in got) == BODIES
