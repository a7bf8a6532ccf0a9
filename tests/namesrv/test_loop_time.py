"""No request holds the event loop of a name server for long: 1,000 topics on a broker of 2 queues each.

As in tests/broker/test_loop_time.py: over a socket, the CPU time of the longest callback, the least of some tries.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from pyromq.ambient import SystemClock
from pyromq.config import Loaded
from pyromq.namesrv.config import NamesrvConfig
from pyromq.namesrv.server import NameServer
from pyromq.protocol.bodies.registration import RegisterBrokerBody, encode_registration
from pyromq.protocol.bodies.topics import TopicConfig, TopicConfigAndMappingSerializeWrapper
from pyromq.protocol.command import Command
from pyromq.protocol.requests import RequestCode as Code
from pyromq.transport.client import RemotingClient
from pyromq.transport.dispatch import Dispatcher
from tests.loop_held import Held, held_loop
from tests.namesrv.world import at_once

TOPICS = 1_000
MOST_MS = 20.0
TRIES = 4

BROKER = {
    "brokerName": "broker-a",
    "brokerAddr": "10.0.0.1:10911",
    "clusterName": "c",
    "haServerAddr": "10.0.0.1:10912",
    "brokerId": "0",
}
KV = {"namespace": "n", "key": "k", "value": "v"}
QUESTIONS: dict[int, dict[str, str]] = {
    Code.REGISTER_BROKER: BROKER,
    Code.BROKER_HEARTBEAT: BROKER,
    Code.QUERY_DATA_VERSION: BROKER,
    Code.GET_BROKER_MEMBER_GROUP: BROKER,
    Code.GET_BROKER_CLUSTER_INFO: {},
    Code.WIPE_WRITE_PERM_OF_BROKER: BROKER,
    Code.ADD_WRITE_PERM_OF_BROKER: BROKER,
    Code.GET_ROUTEINFO_BY_TOPIC: {"topic": "topic-0007"},
    Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: {},
    Code.GET_TOPICS_BY_CLUSTER: {"cluster": "c"},
    Code.GET_SYSTEM_TOPIC_LIST_FROM_NS: {},
    Code.GET_UNIT_TOPIC_LIST: {},
    Code.GET_HAS_UNIT_SUB_TOPIC_LIST: {},
    Code.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: {},
    Code.PUT_KV_CONFIG: KV,
    Code.GET_KV_CONFIG: KV,
    Code.GET_KVLIST_BY_NAMESPACE: KV,
    Code.DELETE_KV_CONFIG: KV,
    Code.GET_NAMESRV_CONFIG: {},
    Code.REGISTER_TOPIC_IN_NAMESRV: {"topic": "topic-0007"},
    Code.DELETE_TOPIC_IN_NAMESRV: {"topic": "topic-0007"},
    Code.UPDATE_NAMESRV_CONFIG: {},
    Code.UNREGISTER_BROKER: BROKER,
}


def registration(version: int) -> bytes:
    topics = {
        (name := f"topic-{number:04}"): TopicConfig(topic_name=name, read_queue_nums=2, write_queue_nums=2)
        for number in range(TOPICS)
    }
    wrapper = TopicConfigAndMappingSerializeWrapper(topic_config_table=topics)
    wrapper.data_version.counter = version
    return encode_registration(RegisterBrokerBody(topic_config_serialize_wrapper=wrapper))


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[tuple[NameServer, str, RemotingClient]]:
    clock = SystemClock()
    config = NamesrvConfig(kv_config_path=folder / "kv.json", listen_port=0)
    namesrv = NameServer(Loaded(config), clock=clock, rng=random.Random(1), run_blocking=at_once)
    client = RemotingClient(clock=clock, rng=random.Random(2))
    try:
        yield namesrv, await namesrv.listen(), client
    finally:
        await client.close()
        await namesrv.stop()


async def longest_ms(client: RemotingClient, address: str, held: Held, code: int) -> tuple[float, str]:
    tries = []
    for number in range(TRIES):
        body = registration(number) if code == Code.REGISTER_BROKER else b""
        held.begin()
        answer = await client.call(address, Command(code=code, fields=dict(QUESTIONS[code]), body=body), 20)
        assert "bad header" not in (answer.remark or ""), (code, answer.remark)
        tries.append((held.longest_ms, held.what))
    return min(tries)


async def test_no_request_holds_the_loop_of_a_name_server(tmp_path: Path) -> None:
    async with running(tmp_path) as (namesrv, address, client):
        dispatcher = namesrv.server.service._dispatch
        assert isinstance(dispatcher, Dispatcher)
        assert QUESTIONS.keys() == dispatcher.handlers.keys()
        with held_loop() as held:
            found = {code: await longest_ms(client, address, held, code) for code in QUESTIONS}
    too_long = {int(code): f"{took:.1f} ms in {what}" for code, (took, what) in found.items() if took > MOST_MS}
    assert not too_long
