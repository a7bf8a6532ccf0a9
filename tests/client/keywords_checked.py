"""Calls that type checkers must take, and calls that they must refuse. Nobody runs this: `make lint` checks it.

Each refused line says the error that mypy and basedpyright have for it. One that a checker takes is itself an error
there (an unused ignore), so that wrong names and wrong types of keywords stay caught.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import assert_type

import pyromq
from pyromq.testing import RmqBroker, RmqClient


async def handle(msg: pyromq.Received) -> None: ...


def work(msg: pyromq.Received) -> None: ...


async def connecting() -> None:
    assert_type(pyromq.connect("a:1", namespace="n", call_timeout_s=1, trace="T"), pyromq.Client)
    pyromq.connect(call_timeout=1)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    pyromq.connect(call_timeout_s="1")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    pyromq.connect(codec=pyromq.Protobuf())
    pyromq.connect(codec=pyromq.Avro({dict: {"type": "record"}}, known=[{"type": "record"}]))
    pyromq.connect(codec="protobuf")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    pyromq.sync.connect("a:1", access_key="a", secret_key="b")
    pyromq.sync.connect(namspace="n")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


async def consuming(client: pyromq.Client, blocking: pyromq.sync.Client) -> None:
    options: pyromq.ConsumeSettings = {"concurrency": 4, "begin": "first"}
    client.push_consumer("T", handle, group="g", **options)
    client.push_consumer("T", handle, group="g", retry=pyromq.Retry(times=3), begin=datetime(2026, 1, 1))
    client.push_consumer("T", handle, group="g", retry=3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    client.push_consumer("T", handle, group="g", retrys=3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    client.push_consumer("T", handle, group="g", codec=pyromq.Json())
    client.push_consumer("T", handle, group="g", codec=pyromq.Json)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    client.subscribe("T", group="g", orderly=True, begin="-1h")(handle)
    client.subscribe("T", group="g", orderly="yes")(handle)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    client.subscribe("T", group="g", ordered=True)(handle)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    client.pull_consumer("g", auto_commit=False, begin=pyromq.ConsumeFromWhere.FIRST_OFFSET)
    client.pull_consumer("g", begin=1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    client.pull_consumer("g", concurrency=2)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    blocking.push_consumer("T", work, group="g", on_unreadable="skip")
    blocking.push_consumer("T", work, group="g", on_unreadable="raise")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    blocking.push_consumer("T", work, group="g", timeout=3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


async def serving() -> None:
    app = pyromq.App("a:1", namespace="n", producer_group="p")
    pyromq.App(namespace=1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    pyromq.App(name_space="n")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    app.subscriber("T", "U", group="g", max_batch=10)(handle)
    app.subscriber("T", group="g", max_batch="10")(handle)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    app.subscriber("T", group="g", batch=10)(handle)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    app.publisher("T", tag="a", delay=timedelta(hours=1))(handle)
    app.publisher("T", tags="a")(handle)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    app.publisher("T", tag=1)(handle)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    app.publisher("T", codec=pyromq.Protobuf())(handle)
    app.publisher("T", codec=3)(handle)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    pyromq.App(name="Shop", version=2)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    assert_type(app.asyncapi(), pyromq.AsyncApi)
    await app.publish("T", "x", delay_level=3)
    await app.publish("T", "x", delay_level="3")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


async def testing(rmq_broker: RmqBroker, rmq_client: RmqClient) -> None:
    assert_type(await rmq_broker.client(namespace="n"), pyromq.Client)
    assert_type(await rmq_client.send("T", "x", delay=5), pyromq.SendResult)
    await rmq_client.send("T", "x", dely=5)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
