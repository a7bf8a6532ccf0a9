"""Apps on the real broker in process: subscribers, publishers, replies, lifespan, middleware."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial, wraps
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import pyromq
from pyromq.app.loading import load_app, own_part
from pyromq.cli.main import cli
from pyromq.client.errors import Closed, Error
from pyromq.client.handle.handlers import Outcomes
from pyromq.client.middleware import HandleNext
from pyromq.errors import ConfigError
from pyromq.testing.broker import RmqBroker
from pyromq.testing.client import RmqClient


@dataclass
class Order:
    id: int


@pytest.fixture
async def topics(rmq_broker: RmqBroker) -> None:
    for name in ("orders", "invoices", "copies", "other"):
        await rmq_broker.create_topic(name)


def bodies(broker: RmqBroker, topic: str) -> list[bytes]:
    return [each.body for each in broker.messages(topic)]


@pytest.mark.usefixtures("topics")
@pytest.mark.parametrize("is_blocking", [False, True])
async def test_what_a_subscriber_returns_is_published(
    rmq_broker: RmqBroker, rmq_client: RmqClient, is_blocking: bool
) -> None:
    app = pyromq.App()

    async def bill(order: Order) -> dict[str, int] | None:
        return {"order": order.id} if order.id else None

    def bill_blocking(order: Order) -> dict[str, int] | None:
        return {"order": order.id} if order.id else None

    function = app.publisher("copies")(bill_blocking if is_blocking else bill)
    app.subscriber("orders", group="billing")(function)
    app.publisher("invoices", tag="new", keys=["k"])(function)  # above or below: both count
    async with app.on(await rmq_broker.client()):
        for number in (0, 7):
            await rmq_client.send("orders", Order(number))
        await rmq_broker.settle()
    (invoice,) = rmq_broker.messages("invoices")
    assert (invoice.body, invoice.tags, invoice.keys) == (b'{"order":7}', "new", ["k"])
    assert bodies(rmq_broker, "copies") == [b'{"order":7}']
    assert rmq_broker.lag("orders", "billing") == 0


@pytest.mark.usefixtures("topics")
async def test_what_a_plain_function_returns_is_awaited_before_it_is_published(
    rmq_broker: RmqBroker, rmq_client: RmqClient
) -> None:
    app = pyromq.App()

    async def bill(order: Order) -> dict[str, int]:
        await asyncio.sleep(0)
        return {"order": 6 // order.id}

    function = app.publisher("invoices")(lambda msg: bill(msg.decode(Order)))
    app.subscriber("orders", group="billing", retry=pyromq.Retry(times=0))(function)
    async with app.on(await rmq_broker.client()):
        for number in (0, 2):
            await rmq_client.send("orders", Order(number))
        await rmq_broker.settle()
    assert bodies(rmq_broker, "invoices") == [b'{"order":3}']
    assert [each.body for each in rmq_broker.messages("%DLQ%billing")] == [b'{"id":0}']


async def test_a_decorated_function_stays_itself() -> None:
    app = pyromq.App()

    @app.subscriber("orders", group="billing")
    @app.publisher("invoices")
    async def bill(order: Order) -> int:
        return order.id

    assert await bill(Order(3)) == 3


@pytest.mark.usefixtures("topics")
async def test_the_order_key_may_be_a_function_of_what_is_published(
    rmq_broker: RmqBroker, rmq_client: RmqClient
) -> None:
    app = pyromq.App()

    @app.subscriber("orders", group="billing")
    @app.publisher("invoices", order_key=lambda invoice: f"c{invoice['customer']}")
    @app.publisher("copies", order_key="one")
    async def bill(order: Order) -> dict[str, int]:
        return {"customer": order.id % 3}

    async with app.on(await rmq_broker.client()):
        for number in range(12):
            await rmq_client.send("orders", {"id": number})
        await rmq_broker.settle()
    invoices, copies = rmq_broker.messages("invoices"), rmq_broker.messages("copies")
    assert {each.properties["__SHARDINGKEY"] for each in invoices} == {"c0", "c1", "c2"}
    assert len({(each.body, each.queue_id) for each in invoices}) == 3
    assert {each.properties["__SHARDINGKEY"] for each in copies} == {"one"}


@pytest.mark.usefixtures("topics")
async def test_nothing_is_acked_before_its_result_is_published(rmq_broker: RmqBroker, rmq_client: RmqClient) -> None:
    app = pyromq.App()

    @app.subscriber("orders", group="billing")
    @app.publisher("invoices")
    async def bill(msg: pyromq.Received) -> bytes:
        return b"invoice" if msg.attempt > 1 else b""  # an empty body cannot be sent

    async with app.on(await rmq_broker.client()):
        await rmq_client.send("orders", b"x")
        await rmq_broker.settle()
        assert bodies(rmq_broker, "invoices") == []
        await rmq_broker.clock.advance(10)
    assert bodies(rmq_broker, "invoices") == [b"invoice"]


@pytest.mark.parametrize(
    ("topic", "arguments", "said"),
    [
        ("invoices", {"nosuch": 1}, "publisher to 'invoices': there is no 'nosuch'"),
        ("invoices", {"dealy": 1}, "there is no 'dealy'; did you mean delay?"),
        ("invoices", {"delay": "3"}, "delay: '3' is no number of seconds"),
        ("invoices", {"delay": 1, "delay_level": 2}, "are 2 ways to say when"),
        ("invoices", {"tag": 3}, "the tag is 3, and not a string"),
        ("invoices", {"keys": 5}, "keys is 5, and not strings"),
        ("invoices", {"timeout": 0}, "timeout=0 is no number of seconds above 0"),
        ("invoices", {"queue": 3}, "queue is 3, and not a function"),
        ("invoices", {"order_key": 3}, "order_key is 3, and not a string"),
        ("", {}, "publisher to '': the topic name is empty"),
        ("a b", {}, "the topic name 'a b' may hold only"),
        ("SCHEDULE_TOPIC_XXXX", {}, "is the broker's own: nobody may send to it"),
        (None, {}, "the topic is None, and not a string"),
    ],
)
async def test_a_publisher_whose_sends_would_all_be_refused_does_not_start(
    rmq_broker: RmqBroker, topic: Any, arguments: Any, said: str
) -> None:
    app = pyromq.App()

    @app.subscriber("orders", group="billing")
    @app.publisher(topic, **arguments)
    async def bill(order: Order) -> dict[str, int]:
        return {"order": order.id}

    with pytest.raises(ConfigError, match=re.escape(said)):
        app.check()
    with pytest.raises(ConfigError, match=re.escape(said)):
        await app.start(await rmq_broker.client())


async def test_a_publisher_of_a_function_that_nobody_calls_does_not_start(rmq_broker: RmqBroker) -> None:
    """The message would be acked, and nothing sent."""
    app = pyromq.App()

    def logged(function: Any) -> Any:
        @wraps(function)
        async def call(order: Order) -> Any:
            return await function(order)

        return call

    @app.subscriber("orders", group="billing")
    @logged
    @app.publisher("invoices")
    async def bill(order: Order) -> dict[str, int]:
        return {"order": order.id}

    said = r"publisher to 'invoices': .*bill.* is no subscriber, so nothing would be sent\. Write @app.subscriber above"
    with pytest.raises(ConfigError, match=said):
        app.check()
    with pytest.raises(ConfigError, match=said):
        await app.start(await rmq_broker.client())


async def test_nothing_is_declared_while_the_app_runs(rmq_broker: RmqBroker) -> None:
    app = pyromq.App()
    async with app.on(await rmq_broker.client()):
        for declare in (partial(app.subscriber, "orders", group="g"), partial(app.publisher, "invoices")):
            with pytest.raises(Error, match="this app runs already"):
                declare()
    app.subscriber("orders", group="g")


@pytest.mark.usefixtures("topics")
async def test_a_subscriber_may_answer_requests(rmq_broker: RmqBroker, rmq_client: RmqClient) -> None:
    app = pyromq.App()

    @app.subscriber("orders", group="adder", replies=True)
    async def add(number: int) -> int:
        return number + 1

    async with app.on(await rmq_broker.client()):
        reply = await rmq_client.producer.request("orders", 41)
    assert reply.decode(int) == 42


@pytest.mark.usefixtures("topics")
async def test_a_reply_that_nobody_waits_for_does_not_repeat_the_work(
    rmq_broker: RmqBroker, rmq_client: RmqClient, caplog: pytest.LogCaptureFixture
) -> None:
    app, begun = pyromq.App(), []

    @app.subscriber("orders", group="adder", replies=True)
    async def add(number: int) -> int:
        begun.append(number)
        await rmq_broker.clock.sleep(2)
        return number + 1

    async def ask() -> None:
        with pytest.raises(pyromq.TimedOut):
            await rmq_client.producer.request("orders", 41, timeout=1)

    async with app.on(await rmq_broker.client()):
        asked = asyncio.create_task(ask())
        await rmq_client.send("orders", 5)  # asks for nothing
        await rmq_broker.clock.advance(60)
        await asked
        assert sorted(begun) == [5, 41]
        assert rmq_broker.lag("orders", "adder") == 0
    warned = [each for each in caplog.messages if "reply" in each]
    assert any("a reply was not delivered, and its message is done" in each for each in warned)
    assert any("its message asks for no reply" in each for each in warned)


@pytest.mark.usefixtures("topics")
async def test_a_reply_that_cannot_be_sent_as_it_is_fails_its_message(
    rmq_broker: RmqBroker, rmq_client: RmqClient
) -> None:
    app = pyromq.App()

    @app.subscriber("orders", group="adder", replies=True)
    async def add(msg: pyromq.Received) -> bytes:
        return b"three" if msg.attempt > 1 else b""  # an empty body cannot be sent

    async with app.on(await rmq_broker.client()):
        asked = asyncio.create_task(rmq_client.producer.request("orders", "1 + 2", timeout=60))
        await rmq_broker.settle()
        await rmq_broker.clock.advance(10)
        assert (await asked).body == b"three"


@pytest.mark.usefixtures("topics")
async def test_lifespan_and_middleware_stand_around_the_handlers(rmq_broker: RmqBroker, rmq_client: RmqClient) -> None:
    events: list[str] = []

    class Noting(pyromq.Middleware):
        async def handle(self, messages: list[pyromq.Received], call_next: HandleNext) -> Outcomes:
            events.append("before")
            outcomes = await call_next(messages)
            events.append("after")
            return outcomes

    @asynccontextmanager
    async def lifespan(app: pyromq.App) -> AsyncIterator[None]:
        await app.publish("other", b"hello")
        events.append("open")
        yield
        events.append("closed")

    app = pyromq.App(middleware=[Noting()], lifespan=lifespan)

    @app.subscriber("orders", "other", group="g", begin=pyromq.ConsumeFromWhere.FIRST_OFFSET, concurrency=1)
    async def handle(msg: pyromq.Received) -> None:
        events.append(msg.topic)

    for _ in range(2):  # it may run again
        events.clear()
        async with app.on(await rmq_broker.client()):
            await rmq_broker.settle()
        assert events == ["open", "before", "other", "after", "closed"]
    with pytest.raises(Closed, match="does not run"):
        await app.publish("other", b"x")


@pytest.mark.usefixtures("topics")
async def test_what_a_start_opened_is_closed_if_it_fails(rmq_broker: RmqBroker) -> None:
    closed: list[bool] = []

    @asynccontextmanager
    async def lifespan(app: pyromq.App) -> AsyncIterator[None]:
        try:
            yield
        finally:
            closed.append(True)

    app = pyromq.App(lifespan=lifespan)

    @app.subscriber("orders", group="a")
    async def good(msg: pyromq.Received) -> None: ...

    @app.subscriber("orders", group="not a name")
    async def bad(msg: pyromq.Received) -> None: ...

    client = await rmq_broker.client()
    with pytest.raises(Error, match="not a name"):
        await app.start(client)
    assert closed == [True]
    with pytest.raises(Closed):
        _ = app.producer
    assert client.running_handlers == 0


@pytest.mark.usefixtures("topics")
async def test_wait_ends_with_the_event_and_raises_what_killed_a_consumer(rmq_broker: RmqBroker) -> None:
    app = pyromq.App()

    @app.subscriber("orders", group="a")
    async def handle(msg: pyromq.Received) -> None: ...

    async with app.on(await rmq_broker.client()):
        stop = asyncio.Event()
        stop.set()
        await app.wait(stop)
        with pytest.raises(Error, match="runs already"):
            await app.start()
        app._running().consumers[0]._died(RuntimeError("a fault of ours"))
        with pytest.raises(Error, match="a fault of ours"):
            await app.wait()


@pytest.mark.usefixtures("topics")
async def test_each_app_is_asked_about_its_own_transactions(rmq_broker: RmqBroker) -> None:
    """Whatever other apps and producers are there: the name is the producer group."""
    shop, bank = pyromq.App(name="Web shop"), pyromq.App(name="service", producer_group="bank")
    strangers = [(await rmq_broker.client()).producer() for _ in range(5)]
    for each in strangers:
        await each.start()
        await each.send("other", b"x")
    clients = [await rmq_broker.client(), await rmq_broker.client()]
    async with shop.on(clients[0]), bank.on(clients[1]):
        assert (shop.name, shop.producer.group, bank.producer.group) == ("Web shop", "Web_shop", "bank")
        shop.producer.transaction_check("orders", lambda msg: True)
        bank.producer.transaction_check("orders", lambda msg: False)
        for number in range(10):
            async with shop.producer.transaction("orders", str(number)) as transaction:
                transaction.leave_open()
        await rmq_broker.clock.advance(minutes=2)
    assert sorted(bodies(rmq_broker, "orders")) == [b"%d" % number for number in range(10)]


@pytest.mark.usefixtures("topics")
async def test_an_app_without_a_name_has_no_transactions(rmq_broker: RmqBroker) -> None:
    app = pyromq.App()
    async with app.on(await rmq_broker.client()):
        with pytest.raises(Error, match=r'or App\(name="shop"\)'):
            app.producer.transaction_check("orders", lambda msg: True)


def test_what_cannot_be_is_refused_at_its_declaration() -> None:
    app = pyromq.App()
    app.subscriber("orders", group="a")(print)
    with pytest.raises(Error, match="has a subscriber in this app already"):
        app.subscriber("other", group="a")
    with pytest.raises(Error, match="without a topic"):
        app.subscriber(group="b")
    with pytest.raises(ConfigError, match=r"App\(\.\.\.\): .*'a b'.*Choose another producer group"):
        pyromq.App(producer_group="a b").check()


async def test_a_batch_handler_cannot_publish_by_returning(rmq_broker: RmqBroker) -> None:
    app = pyromq.App()

    @app.subscriber("orders", group="a", max_batch=4)
    @app.publisher("invoices")
    async def handle(messages: list[pyromq.Received]) -> None: ...

    with pytest.raises(Error, match="names the messages that failed"):
        await app.start(await rmq_broker.client())


# --- finding it -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("shop", "like shop:app"),
        ("shop:", "like shop:app"),
        ("nothere:app", "there is no module 'nothere'"),
        ("../shop_a:app", "is no module's name"),
        (".shop_a:app", "is no module's name"),
        ("shop_a.:app", "is no module's name"),
        ("/tmp/shop_a:app", "its folder as --dir"),
        ("shop_a.py:app", "there is no module 'shop_a.py'"),
        ("shop_a:ap", "Did you mean shop_a:app"),
        ("shop_a:number", "is a int, not a pyromq.App"),
        ("shop_b:app", "has no pyromq.App at all"),
    ],
)
def test_an_app_that_cannot_be_found_says_why(target: str, words: str, tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "shop_a.py").write_text("import pyromq\napp = pyromq.App()\nnumber = 3\n")
    (tmp_path / "shop_b.py").write_text("")
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("shop_a", "shop_b"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    with pytest.raises(ConfigError, match=words):
        load_app(target, tmp_path)


def test_a_module_that_fails_comes_through_with_its_own_fault(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "shop_c.py").write_text("import a_package_that_is_not_installed")
    with pytest.raises(ModuleNotFoundError, match="a_package_that_is_not_installed"):
        load_app("shop_c:app", tmp_path)


@pytest.mark.parametrize(
    ("source", "first", "last"),
    [
        ("import pyromq\n\ndef make(:\n", ", line 3", "SyntaxError: invalid syntax"),
        ("def make():\n    return 1 / 0\n\napp = make()\n", ", line 4, in <module>", "division by zero"),
    ],
)
def test_a_module_s_fault_is_shown_from_its_own_lines_on(
    source: str, first: str, last: str, tmp_path: Path, monkeypatch: Any
) -> None:
    """Not with the frames of those who imported it."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "shop_d.py").write_text(source)
    with pytest.raises((SyntaxError, ZeroDivisionError)) as failed:
        load_app("shop_d:app", tmp_path)
    lines = own_part(failed.value).splitlines()
    (place, *_) = [line for line in lines if line.startswith("  File ")]
    assert place == f'  File "{tmp_path / "shop_d.py"}"{first}'
    assert last in lines[-1]
    done = CliRunner().invoke(cli, ["run", "shop_d:app", "--dir", str(tmp_path)])
    assert done.exit_code == 1
    assert done.stderr.startswith("pyromq: shop_d:app cannot be imported\n")
    assert place in done.stderr
    assert "click" not in done.stderr


def test_the_page_s_code_runs(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "app.md").read_text("utf-8")
    service, provided, test = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (tmp_path / "shop.py").write_text(service)
    (tmp_path / "provided.py").write_text(provided)
    checks = "import provided, shop\nshop.app.check()\nprovided.app.check()\n"
    (tmp_path / "test_it.py").write_text(checks + test)
    command = [sys.executable, "-m", "pytest", "-q", "--rootdir", str(tmp_path), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert "1 passed" in done.stdout, done.stdout + done.stderr
