"""A daemon imports nothing once it is ready: without a free descriptor or memory, an import ends whatever needed it."""

from __future__ import annotations

import asyncio
import random
import re
import sys
from pathlib import Path

import pytest

from pyromq.ambient import SystemClock
from pyromq.kernel.choice import native_http2
from pyromq.protocol.command import Command
from pyromq.protocol.requests import RequestCode
from pyromq.transport.client import RemotingClient
from tests.machine.daemons import PATIENCE_S

TELLING = """
import sys

class Telling:
    def find_spec(self, name, path=None, target=None):
        print("IMPORTED", name, flush=True)

sys.meta_path.insert(0, Telling())
from pyromq.cli.main import main
main()
"""
ODD = b"{clientID:'c',producerDataSet:[{groupName:\"\\u00e4\"}],consumerDataSet:[],}"  # as fastjson reads it
ODD_TOPICS = (
    b"{topicConfigSerializeWrapper:{topicConfigTable:{},dataVersion:{counter:1,timestamp:1,}},filterServerList:[],}"
)
DAEMONS = {
    "namesrv": ("--listen", "127.0.0.1:0", "--kv-config-path", "{folder}/kv.json"),
    "up": ("--data", "{folder}", "--namesrv-port", "0", "--broker-port", "0"),
}


async def use(client: RemotingClient, *addresses: str) -> None:
    """The name server first, then the broker, if there is one."""

    async def call(address: str, code: int, fields: dict[str, str], body: bytes = b"") -> int:
        return (await client.call(address, Command(code=code, fields=fields, body=body), PATIENCE_S)).code

    put = {"namespace": "N", "key": "k", "value": "v"}
    assert await call(addresses[0], RequestCode.PUT_KV_CONFIG, put) == 0
    known = {"brokerName": "b", "brokerAddr": "127.0.0.1:1", "clusterName": "c", "haServerAddr": "", "brokerId": "0"}
    assert await call(addresses[0], RequestCode.REGISTER_BROKER, known, ODD_TOPICS) == 0
    for broker in addresses[1:]:
        made = {"topic": "T", "defaultTopic": "TBW102", "readQueueNums": "2", "writeQueueNums": "2", "perm": "6"}
        made |= {"topicFilterType": "SINGLE_TAG", "order": "false"}
        assert await call(broker, RequestCode.UPDATE_AND_CREATE_TOPIC, made) == 0
        assert await call(broker, RequestCode.HEART_BEAT, {}, ODD) == 0
        await call(broker, RequestCode.GET_BROKER_RUNTIME_INFO, {})


@pytest.mark.parametrize("daemon", DAEMONS)
async def test_nothing_is_imported_while_it_serves(tmp_path: Path, daemon: str) -> None:
    words = [word.format(folder=tmp_path) for word in DAEMONS[daemon]]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", TELLING, daemon, *words),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(PATIENCE_S):
            ready: list[str] = []
            before = ""
            while not ready:
                line = (await process.stdout.readline()).decode()
                before += line
                assert line, "it did not start"
                ready = re.findall(r"(?:ready on|Name server|, broker) (127\.0\.0\.1:\d+)", line)
        async with RemotingClient(clock=SystemClock(), rng=random.Random(1)) as client:
            await use(client, *ready)
    finally:
        process.terminate()
        rest, _ = await process.communicate()
    assert process.returncode == 0, rest.decode()
    assert re.findall(r"IMPORTED (\S+)", rest.decode()) == []
    is_twin = daemon == "up" and native_http2() is None
    assert ("IMPORTED h2\n" in before) == is_twin  # it takes 20 ms and a megabyte
