"""A cache of a database's rows that forgets what has changed, without Spark: the events of capture, handled by an App.

Each process with a cache has a group of its own, so that each hears all events. Here two events are sent as capture
sends them; in a shop they come from `pyromq cdc run`. Needs a cluster: `pyromq up`.
"""

from __future__ import annotations

import asyncio

import pyromq
from pyromq.cdc.events import KEY_PROPERTY, NUMBER_PROPERTY, Op, decode_event, encode_event, encode_key

TOPIC = "cdc-shop-items"
DATABASE = {1: "pen", 2: "ink"}
app = pyromq.App()
cache: dict[int, str] = {}
changed: dict[int, Op] = {}
done = asyncio.Event()


def name_of(item: int) -> str | None:
    """Read through the cache."""
    if item not in cache and item in DATABASE:
        cache[item] = DATABASE[item]
    return cache.get(item)


@app.subscriber(TOPIC, group="cache-of-shop-1", begin="first")
async def forget(msg: pyromq.Received) -> None:
    event = decode_event(msg.topic, msg.body, msg.properties)
    if event.key is None:
        return
    cache.pop(event.key["id"], None)
    changed[event.key["id"]] = event.op
    if len(changed) == 2:
        done.set()


async def change(producer: pyromq.Producer, number: int, op: Op, key: int, after: dict[str, object] | None) -> None:
    """Do to the topic what capture does when a row changes."""
    text = encode_key({"id": key}) or ""
    body = encode_event(op, None, after, {"db": "shop", "table": "items"}, 0)
    props = {KEY_PROPERTY: text, NUMBER_PROPERTY: str(number)}
    await producer.send(TOPIC, body, props=props, order_key=text)


async def main() -> None:
    print(f"items {name_of(1)} and {name_of(2)} are in the cache")
    DATABASE[1] = "pencil"
    del DATABASE[2]
    async with pyromq.connect() as client, client.producer() as producer:
        await change(producer, 1, Op.UPDATE, 1, {"id": 1, "name": "pencil"})
        await change(producer, 2, Op.DELETE, 2, None)
        async with app.on(client):
            await done.wait()
    words = ", ".join(f"{item} ({op.name.lower()})" for item, op in sorted(changed.items()))
    print(f"forgotten: {words}; items are now {name_of(1)} and {name_of(2)}")


if __name__ == "__main__":
    asyncio.run(main())
