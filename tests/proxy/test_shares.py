"""How many calls of each kind may run at once, and that the kinds do not take each other's places."""

from __future__ import annotations

import asyncio
from pathlib import Path

from pyromq.protocol.grpc.v2 import Code
from pyromq.proxy.methods import CallShares, methods
from tests.proxy.calling import endpoint
from tests.proxy.test_receive import ack, elements, messages, receive, wish


async def test_receives_that_wait_take_no_place_of_acks(tmp_path: Path) -> None:
    async with endpoint(tmp_path) as grpc:
        grpc.topic("T")
        stream = await grpc.consumer("g", "T")
        await grpc.send("T", b"one")
        (message,) = messages(await receive(grpc))
        grpc.methods = methods(grpc.services, CallShares(most=1, most_waiting=2))
        waiting = [grpc.begin(wish()) for _ in range(2)]
        await grpc.clock.settle()
        refused, done = grpc.begin(wish())
        await done
        assert [one.status.code for one in elements(refused)] == [Code.TOO_MANY_REQUESTS]
        assert (await ack(grpc, message)).status.code == Code.OK
        for _, task in waiting:
            task.cancel()
        await asyncio.gather(*(task for _, task in waiting), return_exceptions=True)
        await stream.cancel()
