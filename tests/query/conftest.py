"""A cluster as processes for one file of tests: 300 messages of `orders`, the first 200 an hour older to the broker."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import pyromq
from tests.spark.servers import Servers


class Shop(NamedTuple):
    namesrv: str
    store: Path
    orders: int
    transferred: str  # address of the broker, which counts what it hands out


def price(number: int) -> float:
    return number * 1.5


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    servers = Servers(tmp_path_factory.mktemp("shop"))
    tags = random.Random(22)
    try:
        servers.start()
        with pyromq.sync.connect(servers.namesrv) as client, client.producer() as producer:
            for number in range(300):
                body = json.dumps({"price": price(number), "item": str(number % 3)}).encode()
                producer.send("orders", body, tag=tags.choice("abc"), keys=f"k{number}")
            producer.send("order-events", b"\xff\xfe", tag="odd")
            producer.send("order-events", "no json")
        yield Shop(servers.namesrv, servers.store(), 300, servers.brokers["broker-a"].address)
    finally:
        servers.close()
