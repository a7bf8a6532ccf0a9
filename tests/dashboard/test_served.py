"""Files and streams of events: who gets them, what they are, and that they end."""

from __future__ import annotations

import json

import httpx

from pyromq.dashboard.web.answers.streams import MOST_OF_ONE
from tests.client.world import World
from tests.dashboard.running import CLUSTER, Dashboard
from tests.dashboard.test_api import fill
from tests.dashboard.test_guard import OWN, log_in


async def test_definitions_are_a_file_that_apply_reads(world: World, dashboard: Dashboard) -> None:
    await fill(world)
    async with dashboard.program() as program:
        answer = await program.get(f"/api/v1/{CLUSTER}/definitions")
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"] == f'attachment; filename="{CLUSTER}.json"'
    found = answer.json()
    assert ("orders" in found["topics"], "billing" in found["groups"]) == (True, True)
    async with httpx.AsyncClient(base_url=dashboard.address) as client:
        await log_in(client, dashboard)
        assert (await client.get(f"/c/{CLUSTER}/definitions")).json() == found
        assert f"/c/{CLUSTER}/definitions" in (await client.get(f"/c/{CLUSTER}/topics")).text
    await world.stop_broker()
    async with dashboard.program() as program:
        answer = await program.get(f"/api/v1/{CLUSTER}/definitions")
        assert (answer.status_code, answer.headers["content-type"]) == (502, "application/problem+json")


async def test_events_come_until_the_session_ends(world: World, dashboard: Dashboard) -> None:
    async with httpx.AsyncClient(base_url=dashboard.address, timeout=60) as client:
        await log_in(client, dashboard)
        token = (await client.get("/api")).text.partition('name="form_token" value="')[2].partition('"')[0]
        numbers: list[int] = []
        async with client.stream("GET", f"/api/v1/{CLUSTER}/snapshots") as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            async for line in answer.aiter_lines():  # ends by itself: the session is over
                if line.startswith("data: "):
                    numbers.append(json.loads(line.removeprefix("data: "))["number"])
                if len(numbers) == 3:
                    assert (await client.post("/logout", data={"form_token": token}, headers=OWN)).status_code == 303
        assert numbers == sorted(set(numbers))
        assert len(numbers) >= 3


async def test_one_program_has_so_many_streams(world: World, dashboard: Dashboard) -> None:
    path = f"/api/v1/{CLUSTER}/snapshots"
    async with dashboard.program() as program:
        requests = [program.build_request("GET", path) for _ in range(MOST_OF_ONE)]
        opened = [await program.send(request, stream=True) for request in requests]
        assert (await program.get(path)).status_code == 422
        await opened[0].aclose()
        while (again := await program.send(program.build_request("GET", path), stream=True)).status_code == 422:
            await again.aclose()  # that one has gone is noticed with the next event
        for one in (*opened[1:], again):
            await one.aclose()
