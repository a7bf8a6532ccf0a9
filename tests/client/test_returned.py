"""What a handler returns: of work that has not run, and of an exception that was not raised, no message is acked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from pyromq.app.app import App
from pyromq.app.depends import Depends
from pyromq.client.client import connect
from pyromq.client.core.retry import Reject, Retry, RetryLater
from pyromq.client.errors import Error
from pyromq.client.handle.attempts import HandlerRunner
from pyromq.client.handle.handlers import worker
from pyromq.client.middleware import HandleNext, Middleware, around_handling, check_middleware
from pyromq.client.received import Received
from pyromq.protocol.bodies.keyed import MessageQueue
from pyromq.testing.broker import RmqBroker
from pyromq.testing.client import RmqClient
from pyromq.testing.clock import ManualClock
from tests.client.messages import stored
from tests.client.test_push_consumer import FIRST, Seen, send
from tests.client.world import Servers

QUEUE = MessageQueue(broker_name="b", queue_id=0, topic="T")
done: list[str] = []


async def bill(msg: Received) -> None:
    done.append("billed")


made: list[Coroutine[Any, Any, None]] = []


def unawaited(msg: Received) -> Coroutine[Any, Any, None]:
    made.append(coroutine := bill(msg))
    return coroutine


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    done.clear()
    yield
    while made:
        made.pop().close()  # else Python says, sooner or later, that it was never awaited


@contextmanager
def plain_context(msg: Received) -> Iterator[None]:
    done.append("entered")
    yield


@asynccontextmanager
async def async_context(msg: Received) -> AsyncIterator[None]:
    done.append("entered")
    yield


def items(msg: Received) -> Iterator[int]:
    done.append("iterated")
    yield 1


async def async_items(msg: Received) -> AsyncIterator[int]:
    done.append("iterated")
    yield 1


async def forgets_await(msg: Received) -> Any:
    return unawaited(msg)


async def forgets_await_later(msg: Received) -> Any:
    await asyncio.sleep(0)
    return unawaited(msg)


async def returns_items(msg: Received) -> Any:
    return items(msg)


async def returns_async_items(msg: Received) -> Any:
    return async_items(msg)


async def returns_context(msg: Received) -> Any:
    return async_context(msg)


def returns_plain_context(msg: Received) -> Any:
    return plain_context(msg)


def returns_awaited_items(msg: Received) -> Any:
    return returns_items(msg)


async def returns_future(msg: Received) -> Any:
    return asyncio.get_running_loop().create_future()


pool = ThreadPoolExecutor(1)


def returns_pooled(msg: Received) -> Any:
    return pool.submit(len, "text")


class Called:
    async def __call__(self, msg: Received) -> Any:
        return unawaited(msg)


NOT_RUN: list[Any] = [
    forgets_await,
    forgets_await_later,
    returns_items,
    returns_async_items,
    returns_context,
    returns_plain_context,
    returns_awaited_items,
    returns_future,
    returns_pooled,
    Called(),
    partial(forgets_await),
]


async def outcome(handler: Any, *layers: Middleware, count: int = 1, is_batch: bool = False) -> Any:
    """Return the outcomes of messages, of one alone by itself."""
    handling = worker(handler, 1, is_batch)
    attempt = around_handling(HandlerRunner(handling, ManualClock(), 900.0), layers)
    outcomes = await attempt([Received(stored(offset), QUEUE) for offset in range(count)])
    handling.close()
    return outcomes if count > 1 else outcomes[0]


@pytest.mark.parametrize("handler", NOT_RUN)
@pytest.mark.parametrize("layers", [(), (Middleware(),)])
async def test_a_handler_that_returns_work_which_has_not_run_has_failed(
    handler: Any, layers: tuple[Middleware, ...]
) -> None:
    fault = await outcome(handler, *layers)
    assert isinstance(fault, TypeError)
    assert "which has not run or not ended: inside the handler, await it" in str(fault)
    assert done == []


async def test_its_message_becomes_a_dead_letter_and_the_log_says_why(
    world: Servers, caplog: pytest.LogCaptureFixture
) -> None:
    await world.create_topic("T", 1)
    await send(world, 1)
    seen = Seen()
    async with (
        world.client() as client,
        client.push_consumer("T", forgets_await, group="g", begin=FIRST, retry=Retry(times=0)),
        client.push_consumer("%DLQ%g", seen, group="undertaker", begin=FIRST),
    ):
        await seen.count(1)
    assert any("coroutine object bill" in each for each in caplog.messages)


def provided() -> int:
    return 1


async def needy(msg: Received, need: int = Depends(provided)) -> Any:
    return unawaited(msg)


def needy_in_thread(msg: Received, need: int = Depends(provided)) -> Any:
    return plain_context(msg)


@pytest.mark.parametrize("way", ["alone", "publishes", "replies"])
@pytest.mark.parametrize("handler", [forgets_await, returns_items, returns_plain_context, needy, needy_in_thread])
async def test_an_app_acks_no_such_message(
    rmq_broker: RmqBroker, rmq_client: RmqClient, handler: Any, way: str
) -> None:
    app = App()
    for topic in ("T", "results"):
        await rmq_broker.create_topic(topic)
    if way == "publishes":
        app.publisher("results")(handler)
    app.subscriber("T", group="g", retry=Retry(times=0), replies=way == "replies")(handler)
    async with app.on(rmq_client.client):
        await rmq_client.send("T", "x")
        await rmq_broker.settle()
        assert len(rmq_broker.messages("%DLQ%g")) == 1
    assert (done, rmq_broker.messages("results")) == ([], [])


@pytest.mark.parametrize("handler", [plain_context, async_context, partial(async_context)])
async def test_a_context_manager_is_refused_where_it_is_given(handler: Any) -> None:
    client, app = connect(), App()
    gives: list[Callable[[], Any]] = [
        lambda: client.push_consumer("T", handler, group="g"),
        lambda: client.subscribe("T", group="g")(handler),
        lambda: app.subscriber("T", group="g")(handler),
        lambda: app.publisher("T")(handler),
    ]
    for give in gives:
        with pytest.raises(
            Error, match=r"is a context manager by its decorator: it would never run.*Take the decorator"
        ):
            give()


class ContextLayer(Middleware):
    @asynccontextmanager
    async def handle(self, messages: list[Received], call_next: HandleNext) -> AsyncIterator[Any]:  # type: ignore[override]
        yield await call_next(messages)


def test_middleware_that_is_a_context_manager_is_refused() -> None:
    with pytest.raises(Error, match="it would never run"):
        check_middleware([ContextLayer()])


async def test_an_exception_that_is_returned_counts_as_raised() -> None:
    rejection = Reject("no credit")

    async def returns(msg: Received) -> Any:
        return rejection

    def returns_class(msg: Received) -> Any:
        return Reject

    async def returns_class_with_arguments(msg: Received) -> Any:
        return RetryLater

    assert await outcome(returns) is rejection
    assert isinstance(await outcome(returns_class), Reject)
    assert "missing 1 required positional argument: 'seconds'" in str(await outcome(returns_class_with_arguments))


@pytest.mark.parametrize("value", [False, 0, "", "text", {"a": 1}, [Reject("in a list")], int])
async def test_any_other_value_is_a_success(value: Any) -> None:
    async def returns(msg: Received) -> Any:
        return value

    assert await outcome(returns) is None


async def test_of_a_batch_only_exceptions_are_outcomes() -> None:
    async def returns_class(msgs: list[Received]) -> Any:
        return {msgs[0]: Reject, msgs[1]: None}

    async def returns_false(msgs: list[Received]) -> Any:
        return {msgs[0]: False}

    rejected, fine = await outcome(returns_class, count=2, is_batch=True)
    assert isinstance(rejected, Reject)
    assert fine is None
    for fault in await outcome(returns_false, count=2, is_batch=True):
        assert "returned False as a message's outcome, which is no exception" in str(fault)


class OddLayer(Middleware):
    def __init__(self, answer: Any) -> None:
        self.answer = answer

    async def handle(self, messages: list[Received], call_next: HandleNext) -> Any:
        await call_next(messages)
        return self.answer


@pytest.mark.parametrize("answer", [None, [True], [False], ["no"], [Reject], [], [None, None]])
async def test_what_middleware_returns_is_an_outcome_for_each_message(answer: Any) -> None:
    assert isinstance(await outcome(bill, OddLayer(answer)), TypeError)


@dataclass
class Picky:
    id: int

    def __post_init__(self) -> None:
        next(each for each in [1, 2] if each == self.id)


async def test_a_model_that_raises_stop_iteration_has_not_decoded_the_body() -> None:
    async def takes(order: Picky) -> None:
        done.append("taken")

    handling = worker(takes)
    message = Received(stored(0, body=b'{"id": 5}'), QUEUE)
    (fault,) = await HandlerRunner(handling, ManualClock(), 900.0)([message])
    assert isinstance(fault, StopIteration)
    assert message.undecodable is fault
    assert done == []


async def test_a_function_in_a_thread_that_raises_stop_iteration_has_failed() -> None:
    def takes(msg: Received) -> None:
        next(iter(()))

    fault = await outcome(takes)
    assert isinstance(fault, RuntimeError)
    assert isinstance(fault.__cause__, StopIteration)


class Biller:
    def __init__(self, database: Any) -> None:
        done.append("made")

    def __call__(self, msg: Received) -> None:
        done.append("billed")


async def test_a_class_is_no_handler() -> None:
    """A call of it makes an object and bills nobody."""
    app = App()
    gives: list[Callable[[], Any]] = [
        lambda: connect().push_consumer("T", Biller, group="g"),
        lambda: app.subscriber("T", group="g")(Biller),
    ]
    for give in gives:
        with pytest.raises(Error, match=r"the handler is the class Biller: .* Give an object of it, Biller\(\.\.\.\)"):
            give()
    assert await outcome(Biller("db")) is None
    assert done == ["made", "billed"]
