"""Queues of a topic on two brokers, assigned by one of them: the route comes from a name server over a socket."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pyromq.model.codes import ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.requests import RequestCode
from tests.client.world import World


async def test_a_broker_assigns_the_queues_of_both(tmp_path: Path) -> None:
    world = World(tmp_path)
    try:
        await world.start_name_server()
        for name in ("broker-a", "broker-b"):
            await world.start_broker(name)
        await world.create_topic("T", queues=2)
        address = world.brokers["broker-a"].address
        async with world.client() as client:
            call = client.session.transport.call
            data = {"groupName": "G", "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING"}
            beat = {"clientID": "c0", "consumerDataSet": [data | {"consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET"}]}
            heard = await call(address, Command(code=RequestCode.HEART_BEAT, body=json.dumps(beat).encode()), 20)
            assert heard.code == ResponseCode.SUCCESS

            async def asked(topic: str) -> Any:
                wanted = {"topic": topic, "consumerGroup": "G", "clientId": "c0", "strategyName": "AVG"}
                body = json.dumps(wanted).encode()
                answer = await call(address, Command(code=RequestCode.QUERY_ASSIGNMENT, body=body), 20)
                return json.loads(bytes(answer.body)).get("messageQueueAssignments")

            queues = [one["messageQueue"] for one in await asked("T")]
            assert sorted((one["brokerName"], one["queueId"]) for one in queues) == [
                ("broker-a", 0),
                ("broker-a", 1),
                ("broker-b", 0),
                ("broker-b", 1),
            ]
            assert await asked("NoSuch") is None
    finally:
        await world.close()
