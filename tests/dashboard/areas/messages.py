"""Messages: the list by time, by key and by place; one of them, with a body as JSON."""

from __future__ import annotations

from tests.client.world import World
from tests.dashboard.running import Dashboard
from tests.dashboard.test_api import fill

PATHS = (
    "/messages",
    "/messages?topic=orders",
    "/messages?key=order-4711",
    "/messages?topic=orders&key=nothing-has-it",
    "/messages?topic=orders&queue=1&offset=3",
    "/messages?topic=orders&from=-2h&to=now",
    "/messages/orders/order-4711",
    "/messages/orders/order-4711?body=hex",
)


async def prepare(world: World, dashboard: Dashboard) -> None:
    await fill(world)
    async with world.client() as client, client.producer() as producer:
        await producer.send(
            "orders", b'{"order": 4711, "lines": [{"sku": "a", "n": 2}]}', tag="paid", keys=["order-4711"]
        )
    await dashboard.until("/groups", lambda found: found["rows"])
