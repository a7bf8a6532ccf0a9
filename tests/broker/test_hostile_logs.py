"""Every request with hostile names in all of its fields, to a broker and a name server: what they log is harmless."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyromq import logs
from pyromq.ambient import SystemClock, seeded_random
from pyromq.errors import CallFailed
from pyromq.protocol.command import Command
from pyromq.protocol.requests import ROWS, RequestCode
from pyromq.transport.client import RemotingClient
from tests.client.world import World
from tests.hostile import ESCAPED, HOSTILE, IN_JSON, check_harmless

_OF_PLACES = ["topic", "brokerName", "brokerAddr", "clusterName", "haServerAddr", "namespace", "key", "value"]
_OF_CLIENTS = ["consumerGroup", "producerGroup", "group", "clientID", "clientId", "subscription", "expressionType"]
_OF_MESSAGES = ["a", "b", "c", "e", "i", "defaultTopic", "properties", "msgId", "originMsgId", "topicFilterType"]
NAMES = [*_OF_PLACES, *_OF_CLIENTS, *_OF_MESSAGES]
HEARTBEAT = {
    "clientID": HOSTILE,
    "producerDataSet": [{"groupName": HOSTILE}],
    "consumerDataSet": [
        {
            "groupName": HOSTILE,
            "consumeType": "CONSUME_PASSIVELY",
            "messageModel": "CLUSTERING",
            "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
            "subscriptionDataSet": [{"topic": HOSTILE, "subString": HOSTILE, "tagsSet": [HOSTILE]}],
        }
    ],
}
WAIT_S = 0.3


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    root = logging.getLogger("pyromq")
    before = (root.handlers[:], root.level, root.propagate)
    stream = io.StringIO()
    logs.configure("debug", "text", stream)
    yield stream
    root.handlers[:], root.level, root.propagate = before


async def ask_everything(client: RemotingClient, address: str) -> None:
    """Numbers are read first by some, so they are good in one round and hostile in the other."""
    bodies = (json.dumps(HEARTBEAT).encode(), HOSTILE.encode(), f'{{"{IN_JSON}":"{IN_JSON}"}}'.encode(), b"")
    for number, body in enumerate(bodies):
        others = {} if number else dict.fromkeys(("queueId", "offset", "brokerId", "timestamp", "sysFlag"), HOSTILE)
        fields = dict.fromkeys(NAMES, HOSTILE) | others
        asked = [
            client.call(address, Command(code=code, fields=dict(fields), body=body, remark=HOSTILE), WAIT_S)
            for code in ROWS
        ]
        for found in await asyncio.gather(*asked, return_exceptions=True):
            assert isinstance(found, Command | CallFailed), found


async def test_whatever_is_asked_no_escape_and_no_forged_line_reaches_the_log(tmp_path: Path, log: io.StringIO) -> None:
    world = World(tmp_path)
    client = RemotingClient(clock=SystemClock(), rng=seeded_random(1))
    try:
        names = await world.start_name_server()
        broker = await world.start_broker()
        for address in (names, broker.address):
            await ask_everything(client, address)
        alive = await world.ask(broker.address, RequestCode.GET_BROKER_RUNTIME_INFO)
    finally:
        await client.close()
        await world.close()
    assert alive.code == 0
    check_harmless(log.getvalue())
    assert ESCAPED in log.getvalue().replace("u001b", "x1b")
