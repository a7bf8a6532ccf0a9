"""`Depends`: what functions provide to handlers, once per message, cleaned up behind it, replaced in tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

import pytest

import pyromq
from pyromq.app.depends import Depends
from pyromq.client.errors import Error
from pyromq.errors import ConfigError
from pyromq.testing.broker import RmqBroker
from pyromq.testing.client import RmqClient

calls: list[str] = []


def config() -> str:
    calls.append("config")
    return "dev"


def plain_session(msg: pyromq.Received, config: str = Depends(config)) -> Iterator[str]:
    calls.append(f"open {msg.body.decode()}")
    try:
        yield f"session of {config}"
    except ValueError:
        calls.append("rolled back")
        raise
    finally:
        calls.append("closed")


async def session(msg: pyromq.Received, config: str = Depends(config)) -> AsyncIterator[str]:
    calls.append(f"open {msg.body.decode()}")
    try:
        yield f"session of {config}"
    except ValueError:
        calls.append("rolled back")
        raise
    finally:
        calls.append("closed")


async def user(session: str = Depends(session)) -> str:
    return f"user in {session}"


@pytest.fixture(autouse=True)
async def topics(rmq_broker: RmqBroker) -> None:
    calls.clear()
    for name in ("orders", "invoices"):
        await rmq_broker.create_topic(name)


async def run(app: pyromq.App, broker: RmqBroker, client: RmqClient, *values: str) -> list[bytes]:
    async with app.on(await broker.client()):
        for value in values:
            await client.send("orders", value)
            await broker.settle()
    return [each.body for each in broker.messages("invoices")]


async def test_a_handler_gets_what_functions_provide_once_per_message(
    rmq_broker: RmqBroker, rmq_client: RmqClient
) -> None:
    app = pyromq.App()

    @app.subscriber("orders", group="g")
    @app.publisher("invoices")
    async def bill(
        order: str, db: str = Depends(session), who: str = Depends(user), where: str = Depends(config), copies: int = 1
    ) -> str:
        calls.append("handled")
        return f"{order}: {db}, {who}, {where}, {copies}"

    sent = await run(app, rmq_broker, rmq_client, "1", "2")
    assert sent == [b"%d: session of dev, user in session of dev, dev, 1" % each for each in (1, 2)]
    assert calls == ["config", "open 1", "handled", "closed", "config", "open 2", "handled", "closed"]


@pytest.mark.parametrize("provider", [plain_session, contextmanager(plain_session)])
async def test_a_plain_handler_gets_what_plain_functions_provide(
    rmq_broker: RmqBroker, rmq_client: RmqClient, provider: Any
) -> None:
    app = pyromq.App()

    @app.subscriber("orders", group="g")
    @app.publisher("invoices")
    def bill(order: str, db: str = Depends(provider), where: str = Depends(config)) -> str:
        calls.append("handled")
        return f"{order}: {db}, {where}"

    assert await run(app, rmq_broker, rmq_client, "1") == [b"1: session of dev, dev"]
    assert calls == ["config", "open 1", "handled", "closed"]


class CalledSession:
    async def __call__(self, msg: pyromq.Received, config: str = Depends(config)) -> AsyncIterator[str]:
        async with asynccontextmanager(session)(msg, config) as made:
            yield made


@pytest.mark.parametrize(
    "provider", [session, plain_session, asynccontextmanager(session), contextmanager(plain_session), CalledSession()]
)
async def test_a_handler_that_fails_is_seen_by_the_generator_and_retried(
    rmq_broker: RmqBroker, rmq_client: RmqClient, provider: Any
) -> None:
    app = pyromq.App()

    @app.subscriber("orders", group="g")
    async def bill(msg: pyromq.Received, db: str = Depends(provider)) -> None:
        assert db == "session of dev"
        if msg.attempt == 1:
            raise ValueError("not yet")

    async with app.on(await rmq_broker.client()):
        await rmq_client.send("orders", "1")
        await rmq_broker.settle()
        assert calls == ["config", "open 1", "rolled back", "closed"]
        await rmq_broker.clock.advance(10)
    assert calls[4:] == ["config", "open 1", "closed"]


def swallowing(session: str = Depends(plain_session)) -> Iterator[str]:
    with suppress(ValueError):
        yield session


async def swallowing_too(session: str = Depends(session)) -> AsyncIterator[str]:
    with suppress(ValueError):
        yield session


@pytest.mark.parametrize("provider", [swallowing, swallowing_too, contextmanager(swallowing)])
@pytest.mark.parametrize("is_blocking", [False, True])
async def test_a_generator_that_swallows_the_exception_does_not_ack_the_message(
    rmq_broker: RmqBroker, rmq_client: RmqClient, provider: Any, is_blocking: bool
) -> None:
    app = pyromq.App()

    async def bill(order: str, db: str = Depends(provider)) -> None:
        raise ValueError("not now")

    def bill_blocking(order: str, db: str = Depends(swallowing)) -> None:
        raise ValueError("not now")

    app.subscriber("orders", group="g", retry=pyromq.Retry(times=0))(bill_blocking if is_blocking else bill)
    await run(app, rmq_broker, rmq_client, "1")
    assert [each.body for each in rmq_broker.messages("%DLQ%g")] == [b"1"]
    assert calls == ["config", "open 1", "rolled back", "closed"]  # the one around it sees it too


async def test_a_test_puts_another_function_in_its_place(rmq_broker: RmqBroker, rmq_client: RmqClient) -> None:
    app = pyromq.App()

    @app.subscriber("orders", group="g")
    @app.publisher("invoices")
    async def bill(order: str, who: str = Depends(user)) -> str:
        return who

    app.overrides[config] = lambda: "test"
    assert await run(app, rmq_broker, rmq_client, "1") == [b"user in session of test"]
    assert calls == ["open 1", "closed"]


def nobody_knows(number: int) -> int:
    return number


def in_a_circle(number: int = 0) -> int:
    return number


in_a_circle.__defaults__ = (Depends(in_a_circle),)


@pytest.mark.parametrize(
    ("provider", "is_plain", "words"),
    [
        (session, True, r"Depends\(session\) is async, and its handler is a plain function"),
        (nobody_knows, False, "takes number, which nobody provides"),
        (in_a_circle, False, "depends on itself"),
    ],
)
async def test_what_cannot_be_provided_is_an_error_at_the_start(
    rmq_broker: RmqBroker, provider: Any, is_plain: bool, words: str
) -> None:
    app = pyromq.App()

    async def bill(order: str, found: Any = Depends(provider)) -> None: ...  # noqa: B008

    def bill_plain(order: str, found: Any = Depends(provider)) -> None: ...  # noqa: B008

    app.subscriber("orders", group="g")(bill_plain if is_plain else bill)
    with pytest.raises(ConfigError, match=words):
        app.check()
    with pytest.raises(Error, match=words):
        await app.start(await rmq_broker.client())


def test_a_type_hint_of_a_provider_that_cannot_be_read_is_one_line() -> None:
    app = pyromq.App()

    def rate(found: Missing = 1) -> int:  # type: ignore[name-defined]  # noqa: F821
        return found  # type: ignore[no-any-return]

    async def bill(order: str, found: int = Depends(rate)) -> None: ...

    app.subscriber("orders", group="g")(bill)
    with pytest.raises(ConfigError, match=r"a type hint of .*rate.* cannot be read: name 'Missing' is not defined"):
        app.check()


async def test_a_batch_handler_has_no_dependencies(rmq_broker: RmqBroker) -> None:
    app = pyromq.App()

    @app.subscriber("orders", group="g", max_batch=8)
    async def bill(orders: list[str], where: str = Depends(config)) -> None: ...

    with pytest.raises(ConfigError, match="is a batch handler, and Depends"):
        app.check()
    with pytest.raises(Error, match="is a batch handler, and Depends"):
        await app.start(await rmq_broker.client())


@pytest.mark.parametrize(("declared", "provider"), [(5, 3), (config, 3), (5, config)])
def test_only_functions_are_put_in_the_place_of_functions(declared: Any, provider: Any) -> None:
    app = pyromq.App()
    with pytest.raises(Error, match="overrides takes two functions"):
        app.overrides[declared] = provider
    with pytest.raises(Error, match="overrides takes two functions"):
        app.overrides.update({declared: provider})
    assert not app.overrides
