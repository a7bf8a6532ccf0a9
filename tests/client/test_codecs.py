"""Codecs over sockets, on our broker or Apache's: what one client encodes another one decodes."""

from __future__ import annotations

from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp

import pyromq
from tests.client.world import Servers, turns_until
from tests.codecs.shop import ORDER_1, ORDER_2, OldOrder, Order


async def test_protobuf_and_avro_come_as_they_were_sent(world: Servers) -> None:
    await world.create_topic("stamps", 1)
    await world.create_topic("orders", 1)
    got: list[Any] = []

    async def stamp(value: Timestamp) -> None:
        got.append(value.seconds)

    def order(value: Order) -> None:
        got.append(value)

    avro = pyromq.Avro({Order: ORDER_2}, known=[ORDER_1])
    async with (
        world.client(codec=pyromq.Protobuf()) as client,
        client.push_consumer("stamps", stamp, group="stamps", begin="first"),
        client.push_consumer("orders", order, group="orders", begin="first", codec=avro),
        world.client(instance="sender") as sender,
        sender.producer(codec=pyromq.Avro({OldOrder: ORDER_1})) as producer,
    ):
        await producer.send("stamps", Timestamp(seconds=7), codec=pyromq.Protobuf())
        await producer.send("stamps", Timestamp(), codec=pyromq.Protobuf())
        await producer.send("orders", OldOrder(3, "half"))
        await turns_until(lambda: len(got) == 3)
    assert sorted(got, key=repr) == [0, 7, Order(3, "unknown")]
