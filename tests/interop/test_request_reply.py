"""Request and reply of real clients on our broker: pushed to whoever asked, late, in vain, and kept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import OwnCluster
from .peers import go, java
from .waiting import eventually

pytestmark = pytest.mark.interop

GetClient = Callable[..., java.Client]
HEADERS = {"5.5.0": False, "4.9.8": True}
REPLIES = "DefaultCluster_REPLY_TOPIC"


@pytest.mark.parametrize("replier", HEADERS)
@pytest.mark.parametrize("requester", HEADERS)
def test_an_answer_comes_back(requester: str, replier: str, java_client: GetClient, own: OwnCluster) -> None:
    asking = java_client(requester, binary_headers=HEADERS[requester])
    answering = java_client(replier, binary_headers=HEADERS[replier])
    topic = own.new_topic(queues=2)
    bodies = [f"question {number}" for number in range(10)]
    with answering.answering(own.servers, topic, f"GID_{topic}") as replies:
        assert asking.request(own.servers, topic, bodies) == [f"re: {body}" for body in bodies]
        # Whoever asked has the last answer before he has confirmed it, and may be gone by then: nine are sure.
        told = "whoever answered is told that it arrived"
        eventually(lambda: replies.outcomes()[:9] == ["SEND_OK"] * 9, told, seen=replies.outcomes)


@pytest.mark.parametrize("version", HEADERS)
def test_nobody_answers_in_time(version: str, java_client: GetClient, own: OwnCluster) -> None:
    client = java_client(version, binary_headers=HEADERS[version])
    topic = own.new_topic(queues=1)
    assert client.request(own.servers, topic, ["nobody is there"], limit_ms=500) == ["timed out"]
    with client.answering(own.servers, topic, f"GID_{topic}", after_ms=300) as replies:
        eventually(replies.outcomes, "the late answer to the first has left")
        asked = client.request(own.servers, topic, ["silence", "question"], limit_ms=2000)
        assert asked == ["timed out", "re: question"]


def test_whoever_asked_is_gone(java_client: GetClient, own: OwnCluster, home: Callable[[str], Path]) -> None:
    """The answer is kept all the same, and its sender is told why it was not pushed."""
    client = java_client("5.5.0")
    topic = own.new_topic(queues=1)
    asker = java.Client("5.5.0", home("asker"))
    client.send_by("sync", own.servers, topic, ["silence"])
    assert asker.request(own.servers, topic, ["and gone"], limit_ms=1000) == ["timed out"]
    asker.kill()
    kept = len(replies_to(client, own, "and gone"))
    with client.answering(own.servers, topic, f"GID_{topic}") as replies:
        (outcome,) = eventually(replies.outcomes, "the answer has left")
        assert "still failed" in outcome
    # Clients try a send that was refused again: it may be kept more than once.
    assert len(replies_to(client, own, "and gone")) > kept


def replies_to(client: java.Client, own: OwnCluster, body: str) -> list[str]:
    wanted = {"servers": own.servers, "topic": REPLIES, "group": f"GID_look_{body.replace(' ', '_')}", "tags": "*"}
    return [one["body"] for one in client.do("pull", **wanted) if one["body"] == f"re: {body}"]


def test_go_asks_and_java_answers(
    go_peer: None, java_client: GetClient, own: OwnCluster, home: Callable[[str], Path]
) -> None:
    topic = own.new_topic(queues=1)
    with java_client("5.5.0").answering(own.servers, topic, f"GID_{topic}"):
        answers = go.client.request(own.servers, topic, ["one", "silence", "two"], 3000, home=home("go"))
    # Its first heartbeat comes up to a second after its start: nobody knows yet where the first answer is to go.
    assert answers[1:] == ["timed out", "re: two"]
