"""A Java controller's answers to Java brokers, recorded over a failover (tests/golden/ha): ours are the same bytes."""

from __future__ import annotations

import base64
import re
from pathlib import Path
from typing import Any

from pyromq.protocol.command import Command
from pyromq.protocol.headers.namesrv import BrokerHeartbeat
from pyromq.protocol.headers.replication import GetReplicaInfo
from pyromq.protocol.requests import RequestCode as Code
from pyromq.testing.virtual_time import VirtualClock, run_virtually
from tests.controller.world import CLUSTER, NAME, Talk, World
from tests.golden_ha import lines
from tests.wire import FrameDecoder

BROKER_OF = {1: 1, 4: 2, 1516: 1}  # by connection; the last one is of broker 1 after its restart
ADDRESSES = {1: "198.51.100.1:30911", 2: "198.51.100.2:31911"}


class Brokers:
    """The recorded brokers' connections to our controller."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.talks: dict[int, Talk] = {}

    async def heard(self, connection: int) -> Talk:
        """The connection, over which the broker was heard just now."""
        if connection not in self.talks:
            self.talks[connection] = await self.world.talk()
        replica = BROKER_OF[connection]
        heartbeat = BrokerHeartbeat(
            cluster_name=CLUSTER,
            broker_name=NAME,
            broker_addr=ADDRESSES[replica],
            broker_id=replica,
            heartbeat_timeout_mills=3_600_000,
        )
        assert (await self.talks[connection].ask(Code.BROKER_HEARTBEAT, heartbeat)).code == 0
        return self.talks[connection]

    def kill(self, connection: int) -> None:
        self.talks.pop(connection).close()


def decoded(row: dict[str, Any]) -> Command:
    (command,) = FrameDecoder().feed(base64.b64decode(row["frame_b64"]))
    return command


def test_every_recorded_answer_of_a_failover(tmp_path: Path) -> None:
    rows = [row for row in lines("controller-failover-frames") if 1001 <= row.get("requestCode", 0) <= 1013]

    async def run(clock: VirtualClock) -> None:
        world = World(clock, tmp_path, controller_dleger_group="group1")
        await world.start()
        brokers = Brokers(world)
        asked: dict[int, Command] = {}
        compared = 0
        for row in rows:
            if row["requestCode"] == Code.NOTIFY_BROKER_ROLE_CHANGED:
                brokers.kill(1)
                await clock.sleep(6)
            if row["name"] != "controller":
                continue
            if row["kind"] == "request":
                asked[row["conn"]] = decoded(row)
                continue
            again = Command(Code.CONTROLLER_GET_REPLICA_INFO, fields=GetReplicaInfo(broker_name=NAME).to_fields())
            request = asked.pop(row["conn"], again)  # equal questions were recorded once
            if request.code == Code.CONTROLLER_GET_METADATA_INFO:
                continue  # addresses of the controllers themselves
            expected = decoded(row)
            talk = await brokers.heard(row["conn"])
            answer = await talk.ask_command(request)
            assert (answer.code, answer.remark, answer.fields) == (expected.code, expected.remark, expected.fields)
            # Java writes ids as bare keys here, over which its own mqadmin stumbles (electMaster); ours are quoted.
            assert bytes(answer.body) == re.sub(rb"{(\d+):", rb'{"\1":', bytes(expected.body))
            compared += 1
        assert compared >= 15
        await world.close()

    run_virtually(run)
