"""The API as a program uses it that knows its document alone; figures that nobody can tell are unknown, not 0."""

from __future__ import annotations

from typing import Any

import httpx

from pyromq.protocol.requests import RequestCode
from tests.client.world import World
from tests.dashboard.running import CLUSTER, PROGRAM, Dashboard


async def fill(world: World) -> None:
    await world.create_topic("orders")
    await world.create_group("billing")
    async with world.client() as client, client.producer() as producer:
        for number in range(40):
            await producer.send("orders", f"m{number}")
    where = {"consumerGroup": "billing", "topic": "orders", "queueId": "0", "commitOffset": "1"}
    await world.ask(world.brokers["broker-a"].address, RequestCode.UPDATE_CONSUMER_OFFSET, b"", **where)


async def test_a_stranger_finds_its_way_by_the_document(world: World, dashboard: Dashboard) -> None:
    await fill(world)
    await dashboard.until("/topics", lambda found: [row["kept"]["value"] for row in found["rows"]] == [40])
    newest = (await dashboard.figures("/messages", topic="orders"))["rows"][0]["id"]
    values = {"cluster": CLUSTER, "name": "", "client": "nobody", "topic": "orders", "id": newest}
    async with dashboard.program() as program:
        document = (await program.get("/api/v1/openapi.json")).json()
        assert document["openapi"].startswith("3.1")
        answered = set()
        for path, methods in document["paths"].items():
            if "get" not in methods or "results" in path:
                continue  # test_actions.py posts them
            if "application/json" not in methods["get"]["responses"]["200"]["content"]:
                continue  # test_served.py reads them
            values["name"] = "billing" if "groups" in path else "orders"
            answer = await program.get(path.format(**values))
            if "stack" in path:
                assert answer.status_code == 404
                assert answer.headers["content-type"] == "application/problem+json"
                continue
            assert answer.status_code == 200, answer.text
            schema = methods["get"]["responses"]["200"]["content"]["application/json"]["schema"]
            check(answer.json(), schema, document["components"]["schemas"], path)
            answered.add(methods["get"]["operationId"])
    assert {
        "overview",
        "topics",
        "topic",
        "groups",
        "group",
        "brokers",
        "clients",
        "doctor",
        "messages",
        "message",
    } <= answered


def check(value: Any, schema: dict[str, Any], known: dict[str, Any], place: str) -> None:
    """Fail where a value is not what its schema says."""
    if "$ref" in schema:
        schema = known[schema["$ref"].rpartition("/")[2]]
    if "anyOf" in schema:
        assert any(_fits(value, one, known) for one in schema["anyOf"]), (place, value, schema)
        return
    kinds: dict[str, Any] = {
        "object": dict,
        "array": list,
        "string": str,
        "integer": int,
        "number": (int, float),
        "null": type(None),
    }
    kind = schema.get("type")
    assert kind is None or (kind == "boolean" and isinstance(value, bool)) or isinstance(value, kinds[kind]), (
        place,
        value,
        schema,
    )
    for name in schema.get("required", ()):
        assert name in value, (place, name)
    if isinstance(value, dict):
        for name, one in value.items():
            if name in schema.get("properties", {}):
                check(one, schema["properties"][name], known, f"{place}.{name}")
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        for one in value:
            check(one, schema["items"], known, f"{place}[]")


def _fits(value: Any, schema: dict[str, Any], known: dict[str, Any]) -> bool:
    try:
        check(value, schema, known, "")
    except (AssertionError, KeyError, TypeError):
        return False
    return True


async def test_lag_is_that_of_the_command_and_lists_are_filtered_and_sorted(world: World, dashboard: Dashboard) -> None:
    await fill(world)
    for name in ("orders-eu", "orders-us", "mail"):
        await world.create_topic(name)
    row = await dashboard.until("/groups", lambda found: found["rows"] and found["rows"][0]["lag"]["value"] == 39)
    assert row["rows"][0]["name"] == "billing"
    assert row["rows"][0]["state"] == "offline"
    group = await dashboard.figures("/groups/billing")
    assert [one["lag"] for one in group["queues"]] == [9, 10, 10, 10]
    assert "nobody consumes" in group["topics"][0]["advice"]
    await dashboard.until("/topics", lambda found: found["total"] == 4)
    names = [one["name"] for one in (await dashboard.figures("/topics", q="ORD", sort="-name"))["rows"]]
    assert names == ["orders-us", "orders-eu", "orders"]
    page = await dashboard.figures("/topics", sort="name", per_page="3", page="2")
    assert ([one["name"] for one in page["rows"]], page["pages"], page["found"]) == (["orders-us"], 2, 4)


async def test_a_broker_that_is_away_is_named_and_its_figures_are_unknown(world: World, dashboard: Dashboard) -> None:
    await fill(world)
    await dashboard.until("/topics", lambda found: found["rows"])
    await world.stop_broker()
    found = await dashboard.until("/topics", lambda found: "unknown" in str(found["rows"][0]["kept"]["value"]))
    row = found["rows"][0]
    assert row["name"] == "orders"
    assert row["kept"]["missing"][0].startswith("broker-a: ")
    overview = await dashboard.figures("")
    assert any("broker-a does not answer" in one["text"] for one in overview["findings"])
    assert isinstance(overview["in_per_second"]["value"]["unknown"], str)


async def test_what_cannot_be_answered_says_why(world: World, dashboard: Dashboard) -> None:
    await fill(world)
    await dashboard.until("/topics", lambda found: found["rows"])
    async with dashboard.program() as program:
        near = await program.get(f"/api/v1/{CLUSTER}/topics/ordres")
        assert (near.status_code, "Closest: 'orders'" in near.json()["detail"]) == (404, True)
        wrong = await program.get(f"/api/v1/{CLUSTER}/topics", params={"page": "many"})
        assert (wrong.status_code, "page" in wrong.json()["detail"]) == (400, True)
        assert (await program.get("/api/v1/elsewhere/topics")).status_code == 404
        assert (await program.get(f"/api/v1/{CLUSTER}/nothing")).headers["content-type"] == "application/problem+json"
    async with httpx.AsyncClient(base_url=dashboard.address) as stranger:
        assert (await stranger.get(f"/api/v1/{CLUSTER}/topics")).status_code == 401
        cookie = {"cookie": f"pyromq_session={PROGRAM}"}
        assert (await stranger.get(f"/api/v1/{CLUSTER}/topics", headers=cookie)).status_code == 401
