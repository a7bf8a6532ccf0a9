"""Messages found and opened by the API: order, pages, times, words, places; what is hidden; hostile bodies."""

from __future__ import annotations

import html
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from pyromq.client.produce.sending import SendResult
from tests.client.world import World
from tests.dashboard.running import CLUSTER, Dashboard, running_dashboard
from tests.dashboard.test_guard import log_in

HOSTILE = {
    "script": b"<script>alert(1)</script>",
    "breaks out": b'{"a": "</script></pre><script>alert(1)</script>"}',
    "drawing": b"<svg onload=alert(1)><image href='http://evil.example/x'/></svg>",
    "template": b"{{ 7 * 7 }} {% for x in y %} ${7*7}",
    "no text": b"\xff\xfe\x00\x80" * 50,
    "turned round": "price \u202e000.1\u202c \x1b[31m\x07".encode(),
    "deep": b"[" * 5_000 + b"]" * 5_000,
    "blown up": b"[" * 60 + b"1," * 30_000 + b"1" + b"]" * 60,
}


async def send(world: World, topic: str, values: list[Any], **settings: Any) -> list[SendResult]:
    async with world.client() as client, client.producer() as producer:
        return [await producer.send(topic, value, **settings) for value in values]


async def seen(dashboard: Dashboard, topic: str) -> None:
    await dashboard.until("/topics", lambda found: topic in [row["name"] for row in found["rows"]])


async def test_the_newest_of_all_queues_come_first_and_pages_stay(world: World, dashboard: Dashboard) -> None:
    await world.create_topic("orders", queues=3)
    sent = [one.message_id for one in await send(world, "orders", [f"m{number}" for number in range(50)])]
    await seen(dashboard, "orders")
    first = await dashboard.figures("/messages", topic="orders", per_page="20")
    assert (first["by"], first["brokers"], first["in_range"]) == ("time", ["broker-a"], 50)
    await send(world, "orders", ["too late"])
    rows, cursor = first["rows"], first["cursor"]
    while cursor:
        page = await dashboard.figures("/messages", topic="orders", per_page="20", cursor=cursor)
        rows, cursor = rows + page["rows"], page["cursor"]
    assert sorted(row["id"] for row in rows) == sorted(sent)
    order = [(row["stored_ms"], row["broker"], row["queue"], row["offset"]) for row in rows]
    assert order == sorted(order, reverse=True)
    assert {row["body"] for row in rows} == {f"m{number}" for number in range(50)}
    newest = await dashboard.figures("/messages", topic="orders", per_page="1")
    assert newest["rows"][0]["body"] == "too late"


async def test_times_are_understood_and_shown(world: World, dashboard: Dashboard) -> None:
    await world.create_topic("orders")
    await send(world, "orders", ["a", "b", "c"])
    await seen(dashboard, "orders")
    found = await dashboard.figures("/messages", topic="orders")
    times = sorted(row["stored_ms"] for row in found["rows"])
    within = await dashboard.figures(
        "/messages", **{"topic": "orders", "from": str(times[0]), "to": str(times[-1] + 1)}
    )
    assert (len(within["rows"]), within["from_ms"], within["to_ms"]) == (3, times[0], times[-1] + 1)
    before = await dashboard.figures("/messages", topic="orders", to=str(times[0]))
    assert (before["rows"], before["brokers"]) == ([], ["broker-a"])
    recent = await dashboard.figures("/messages", **{"topic": "orders", "from": "-2h"})
    assert (len(recent["rows"]), recent["from_ms"] < times[0]) == (3, True)
    async with dashboard.program() as program:
        for query, word in (
            ({"from": "yesterdy"}, "'yesterdy' is no time: write yesterday 00:00"),
            ({"from": "now", "to": "-1h"}, "not after from"),
            ({"cursor": "nonsense"}, "cursor"),
            ({"cursor": "W10="}, "cursor"),
            ({"offset": "x"}, "offset"),
        ):
            answer = await program.get(f"/api/v1/{CLUSTER}/messages", params={"topic": "orders", **query})
            assert (answer.status_code, word in answer.json()["detail"]) == (400, True), answer.text
        assert (await program.get(f"/api/v1/{CLUSTER}/messages", params={"topic": "ordres"})).status_code == 404
    async with httpx.AsyncClient(base_url=dashboard.address) as client:
        await log_in(client, dashboard)
        page = (await client.get(f"/c/{CLUSTER}/messages", params={"topic": "orders", "to": str(times[0])})).text
        assert "No message" in page
        assert "messages on broker-a were looked through" in page
        assert "<tbody>" not in page


async def test_a_message_is_found_by_key_by_id_and_by_place(world: World, dashboard: Dashboard) -> None:
    await world.create_topic("orders")
    await world.create_topic("mail")
    (sent,) = await send(world, "orders", ["wanted"], keys=["order-4711", "k2"], tag="paid")
    await send(world, "mail", ["other"], keys=["order-4711"])
    await seen(dashboard, "mail")
    for word in ("order-4711", "k2", sent.message_id, sent.offset_message_id):
        found = await dashboard.figures("/messages", topic="orders", key=word)
        assert [row["id"] for row in found["rows"]] == [sent.message_id], word
    everywhere = await dashboard.figures("/messages", key="order-4711")
    assert {row["topic"] for row in everywhere["rows"]} == {"orders", "mail"}
    place = {"topic": "orders", "queue": str(sent.queue.queue_id), "offset": str(sent.queue_offset)}
    assert [row["id"] for row in (await dashboard.figures("/messages", **place))["rows"]] == [sent.message_id]
    empty = await dashboard.figures("/messages", **(place | {"offset": "77"}))
    assert (empty["rows"], empty["first"], empty["end"]) == ([], 0, 1)
    async with httpx.AsyncClient(base_url=dashboard.address) as client:
        await log_in(client, dashboard)
        for word in (sent.message_id, sent.offset_message_id, "k2"):
            answer = await client.get(f"/c/{CLUSTER}/search", params={"q": word})
            assert answer.headers["location"] == f"/c/{CLUSTER}/messages/orders/{sent.message_id}"
        several = (await client.get(f"/c/{CLUSTER}/search", params={"q": "order-4711"})).text
        assert several.count("/messages/orders/") == several.count("/messages/mail/") == 1
        assert "No message has it" in (await client.get(f"/c/{CLUSTER}/search", params={"q": "nothing"})).text
    one = await dashboard.figures(f"/messages/orders/{sent.message_id}")
    assert (one["life"]["state"], one["tags"], one["place"]["broker"]) == ("ready", "paid", "broker-a")
    assert [event["what"] for event in one["history"]] == ["stored"]
    assert one["properties"]["KEYS"] == "order-4711 k2"


async def test_a_broker_that_is_away_may_have_the_message(world: World, dashboard: Dashboard) -> None:
    await world.start_broker("broker-b")
    await world.create_topic("orders")
    sent = await send(world, "orders", [f"m{number}" for number in range(16)])
    await dashboard.until("/topics", lambda found: [len(row["brokers"]) for row in found["rows"]] == [2])
    whole = await dashboard.figures("/messages", topic="orders", per_page="4")
    of_b = next(one.message_id for one in sent if one.queue.broker_name == "broker-b")
    await world.stop_broker("broker-b")
    await dashboard.until("/brokers", lambda found: any(row["fault"] for row in found["rows"]))
    found = await dashboard.figures("/messages", topic="orders")
    assert {row["broker"] for row in found["rows"]} == {"broker-a"}
    assert found["brokers"] == ["broker-a"]
    assert found["missing"][0].startswith("broker-b: ")
    by_id = await dashboard.figures("/messages", topic="orders", key=of_b)
    assert (by_id["rows"], by_id["missing"][0].startswith("broker-b: ")) == ([], True)
    on = await dashboard.figures("/messages", topic="orders", cursor=whole["cursor"])
    assert on["missing"][0].startswith("broker-b: ")
    assert on["cursor"], "what broker-b has left is still to come"
    async with dashboard.program() as program:
        answer = await program.get(f"/api/v1/{CLUSTER}/messages/orders/{of_b}")
        assert answer.status_code == 404
        assert "broker-a" in answer.json()["detail"]
        assert "the message may be there" in answer.json()["detail"]


async def test_hidden_bodies_are_nowhere(world: World, tmp_path: Path) -> None:
    from pyromq.dashboard.web.site import SiteLimits

    await world.create_topic("orders")
    (sent,) = await send(world, "orders", [b'{"card": "4000-secret"}'], keys=["k1"])
    own = tmp_path / "hiding"
    own.mkdir()
    async with running_dashboard(world, own, limits=SiteLimits(hide_bodies=True)) as dashboard:
        await seen(dashboard, "orders")
        base = f"/messages/orders/{sent.message_id}"
        answers = {}
        async with httpx.AsyncClient(base_url=dashboard.address, follow_redirects=True) as client:
            await log_in(client, dashboard)
            paths = ("/messages?topic=orders", "/messages?key=k1", base, f"{base}?body=text", f"{base}?body=hex")
            for path in (
                *paths,
                f"{base}/body",
                "/search?q=k1",
                f"/messages?topic=orders&queue={sent.queue.queue_id}&offset=0",
            ):
                answers[path] = await client.get(f"/c/{CLUSTER}{path}")
                assert answers[path].status_code == (403 if path.endswith("/body") else 200), path
        async with dashboard.program() as program:
            for path in (*paths, f"{base}/body"):
                answers[f"api {path}"] = await program.get(f"/api/v1/{CLUSTER}{path}")
        assert answers[f"api {base}/body"].status_code == 403
        assert "--hide-bodies" in answers[f"api {base}/body"].json()["detail"]
        assert answers[f"api {base}"].json()["body"] is None
        for path, answer in answers.items():
            assert "4000-secret" not in html.unescape(answer.text), path
            assert b"4000-secret".hex(" ")[:20] not in answer.text, path
        assert "shows nobody the bodies" in answers[base].text


@pytest.mark.parametrize("name", HOSTILE)
async def test_hostile_bodies_and_properties_are_shown_as_text(world: World, dashboard: Dashboard, name: str) -> None:
    body = HOSTILE[name]
    await world.create_topic("orders")
    props = {"bad": "<img src=x onerror=alert(1)>\u202e", "n": "v"}
    (sent,) = await send(world, "orders", [body], props=props, keys=["<script>k</script>"])
    await seen(dashboard, "orders")
    async with httpx.AsyncClient(base_url=dashboard.address) as client:
        await log_in(client, dashboard)
        path = f"/c/{CLUSTER}/messages/orders/{sent.message_id}"
        for kind in ("", "json", "text", "hex"):
            answer = await client.get(path, params={"body": kind})
            assert answer.status_code == 200
            assert len(answer.text) < 1 << 20
            assert answer.text.count("<script") == 1  # the page's own
            assert "<img" not in answer.text
            assert "<image" not in answer.text
            assert not {"\u202e", "\x1b", "\x07"} & set(answer.text)
            assert "\\u202e" in answer.text
        listed = (await client.get(f"/c/{CLUSTER}/messages?topic=orders")).text
        assert (listed.count("<script"), "\u202e" in listed) == (1, False)
        file = await client.get(f"{path}/body")
        assert file.content == body
        assert file.headers["content-type"] == "application/octet-stream"
        assert file.headers["content-disposition"].startswith("attachment")
    found = (await dashboard.figures(f"/messages/orders/{sent.message_id}"))["body"]
    kinds = {"breaks out": "json", "no text": "hex"}
    assert found["kind"] == kinds.get(name, "text")
    assert len(found["text"]) <= 5 * (1 << 16)


async def test_a_large_body_is_cut_on_the_page_and_whole_as_a_file(world: World, dashboard: Dashboard) -> None:
    body = json.dumps({"text": "ä" * 1_900_000}, ensure_ascii=False).encode()
    assert len(body) > 3_800_000
    await world.create_topic("orders")
    (sent,) = await send(world, "orders", [body])
    await seen(dashboard, "orders")
    base = f"/messages/orders/{sent.message_id}"
    found = (await dashboard.figures(base))["body"]
    assert (found["kind"], found["size"], 65_530 < found["shown"] <= 65_536) == ("text", len(body), True)
    assert body.decode().startswith(found["text"])
    assert len((await dashboard.figures("/messages", topic="orders"))["rows"][0]["body"]) <= 80
    async with dashboard.program() as program:
        assert (await program.get(f"/api/v1/{CLUSTER}{base}/body")).content == body
