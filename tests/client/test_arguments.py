"""Arguments of the wrong kind: an error of the SDK that says which, and no fault from inside. Nothing is sent."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from pyromq.app.app import App
from pyromq.client import sync
from pyromq.client.client import connect
from pyromq.client.core.allocation import AverageByCircle
from pyromq.client.core.process_queue import FlowLimits
from pyromq.client.core.retry import RetryLater
from pyromq.client.errors import BadMessage, Error
from pyromq.client.handle.handlers import arguments_of
from pyromq.client.middleware import HandleNext, Middleware, check_middleware
from pyromq.client.produce.outgoing import Packing
from pyromq.client.produce.producer import Producer
from pyromq.client.produce.sending import SendPolicy
from pyromq.client.received import Received
from pyromq.client.subscription import sql, tag
from pyromq.errors import ConfigError
from pyromq.middleware.idempotence import Idempotence
from pyromq.model.group import ConsumeFromWhere
from pyromq.protocol.compression import Compression
from pyromq.protocol.requests import RequestCode
from pyromq.transport.tls import ClientTls
from tests.client.cluster import Cluster


def handle(msg: object) -> None:
    """Never called."""


@pytest.mark.parametrize("namespace", ["", "ns"])
@pytest.mark.parametrize("topic", [None, 5, ["T"]])
async def test_a_topic_that_is_no_string(cluster: Cluster, namespace: str, topic: Any) -> None:
    broker = cluster.broker("a", T=1)
    client = await cluster.client(namespace=namespace)
    async with client.producer("shop") as producer, client.pull_consumer("g") as consumer:
        for work in (producer.send(topic, "x"), producer.send_many(topic, "x"), producer.send_oneway(topic, "x")):
            with pytest.raises(BadMessage, match=r"the topic is .*, and not a string"):
                await work
        with pytest.raises(Error, match="is no name of a topic"):
            await consumer.queues(topic)
        with pytest.raises(Error, match="is no name of a topic"):
            producer.transaction_check(topic, handle)
        with pytest.raises(Error, match=r"the topic is .*, and not a string"):
            client.push_consumer(topic, handle, group="p")
    assert not broker.requests(RequestCode.SEND_MESSAGE_V2)


WRONG: list[tuple[str, Callable[[Producer], Any]]] = [
    ("what to recall is 'handle'", lambda producer: producer.recall("handle")),  # type: ignore[arg-type]
    ("what to reply to is 'x'", lambda producer: producer.reply("x", "y")),  # type: ignore[arg-type]
    ("delay inf has no end", lambda producer: producer.send("T", "x", delay=math.inf)),
    ("timeout inf has no end", lambda producer: producer.request("T", "x", timeout=math.inf)),
    ("check_after inf", lambda producer: producer.transaction("T", "x", check_after=math.inf).__aenter__()),
    ("delay: '3' is no number of seconds. Give a number", lambda producer: producer.send("T", "x", delay="3")),  # type: ignore[arg-type]
    ("delay: True is no number of seconds. Give a number", lambda producer: producer.send("T", "x", delay=True)),
    ("timeout: '3' is no number of seconds", lambda producer: producer.request("T", "x", timeout="3")),  # type: ignore[arg-type]
    ("timeout=0 leaves no time for a reply. Write", lambda producer: producer.request("T", "x", timeout=0)),
    ("queue is 3, and not a function", lambda producer: producer.send("T", "x", queue=3)),  # type: ignore[arg-type]
    (
        "the function given as queue returned None, and none of the queues",
        lambda producer: producer.send("T", "x", queue=lambda queues: None),  # type: ignore[arg-type, return-value]
    ),
    ("send_many takes a list of values, and not one str", lambda producer: producer.send_many("T", "abc")),
    ("send_many takes a list of values, and not one dict", lambda producer: producer.send_many("T", {"id": 1})),
    ("what to send is 5, and not a list", lambda producer: producer.send_many("T", 5)),  # type: ignore[arg-type]
    ("property 'a' has no value", lambda producer: producer.send_many("T", ["x"], props={"a": ""})),
    ("property 'a' has no value", lambda producer: producer.send_oneway("T", "x", props={"a": ""})),
    ("property 'a' has no value", lambda producer: producer.transaction("T", "x", props={"a": ""}).__aenter__()),
    ("property 'a' has no value", lambda producer: producer.request("T", "x", props={"a": ""})),
    ("order_key is 0, and", lambda producer: producer.send("T", "x", order_key=0)),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("said", "work"), WRONG)
async def test_what_a_producer_refuses(cluster: Cluster, said: str, work: Callable[[Producer], Any]) -> None:
    broker = cluster.broker("a", T=1)
    client = await cluster.client()
    async with client.producer() as producer:
        with pytest.raises(BadMessage, match=said):
            await work(producer)
    assert not broker.requests(RequestCode.SEND_MESSAGE_V2)


async def test_a_timeout_that_is_no_time(cluster: Cluster) -> None:
    client = await cluster.client()
    async with client.producer() as producer, client.pull_consumer("g") as consumer:
        with pytest.raises(Error, match="nan is no number of seconds"):
            await producer.send("T", "x", timeout=math.nan)
        with pytest.raises(Error, match="'5s' is no number of seconds"):
            await consumer.poll("5s")  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [0, -1, "3", True, timedelta(0), math.nan])
async def test_a_timeout_without_time_to_send_in(cluster: Cluster, wrong: Any) -> None:
    broker = cluster.broker("a", T=1)
    client = await cluster.client()
    async with client.producer() as producer:
        with pytest.raises(Error) as refusal:
            await producer.send("T", "x", timeout=wrong)
        assert str(refusal.value) == (
            f"timeout={wrong!r} is no number of seconds above 0. Write timeout=3, give a timedelta, or leave it out"
        )
        await producer.send("T", "x", timeout=timedelta(seconds=3))
        with pytest.raises(Error, match=r"^timeout=inf has no end. Write timeout=3"):
            await producer.send("T", "x", timeout=math.inf)
    assert len(broker.requests(RequestCode.SEND_MESSAGE_V2)) == 1


WRONG_PARTS: list[tuple[str, Callable[[], Any]]] = [
    ("retries=-1 is no whole number of 0 or more. Write retries=2", lambda: SendPolicy(retries=-1)),
    ("retries='3' is no whole number", lambda: SendPolicy(retries="3")),  # type: ignore[arg-type]
    ("timeout_s=0 is no number of seconds above 0. Write timeout_s=30", lambda: SendPolicy(timeout_s=0)),
    ("timeout_s='3' is no number of seconds above 0", lambda: SendPolicy(timeout_s="3")),  # type: ignore[arg-type]
    (
        "compression='zstd' is no kind of compression. Give one of .*pyromq.Compression.ZSTD, or None",
        lambda: Packing(compression="zstd"),  # type: ignore[arg-type]
    ),
    ("compression=2 is no kind of compression", lambda: Packing(compression=2)),  # type: ignore[arg-type]
    ("compress_over_bytes=-1 is no whole number of 0 or more", lambda: Packing(compress_over_bytes=-1)),
    ("max_message_bytes=0 is no whole number of 1 or more. Write .*4194304", lambda: Packing(max_message_bytes=0)),
    ("level is '5', and not a whole number. Write level=5", lambda: Packing(level="5")),  # type: ignore[arg-type]
    ("level=50 is no whole number of -1 to 9", lambda: Packing(level=50)),
    ("level=23 is no whole number of .* to 22", lambda: Packing(level=23, compression=Compression.ZSTD)),
]


@pytest.mark.parametrize(("said", "make"), WRONG_PARTS)
def test_what_a_policy_and_a_packing_refuse(said: str, make: Callable[[], Any]) -> None:
    with pytest.raises(Error, match=said):
        make()


@pytest.mark.parametrize("wrong", [{"retries": 3}, {}, 3])
@pytest.mark.parametrize(("name", "kind"), [("policy", "SendPolicy"), ("packing", "Packing"), ("batching", "Batching")])
async def test_a_part_of_a_producer_that_is_something_else(cluster: Cluster, name: str, kind: str, wrong: Any) -> None:
    client = await cluster.client()
    for make in (client.producer, sync.connect("127.0.0.1:1").producer):
        with pytest.raises(Error) as refusal:
            make(**{name: wrong})
        said = f"{name} is {wrong!r}, and not a pyromq.{kind}. Write {name}=pyromq.{kind}("
        assert str(refusal.value).startswith(said)


@pytest.mark.parametrize("wrong", ["x", -1, None, True, math.nan])
def test_a_retry_after_no_time(wrong: Any) -> None:
    with pytest.raises(ValueError, match=r"RetryLater\(.*\): a number of seconds is needed, 0 or more") as refusal:
        RetryLater(wrong)
    assert repr(wrong) in str(refusal.value)


@pytest.mark.parametrize("wrong", [5, b"127.0.0.1:9876", ["127.0.0.1:9876", 5]])
def test_name_servers_that_are_no_text(wrong: Any) -> None:
    for make in (connect, sync.connect):
        with pytest.raises(ConfigError, match=r"namesrv = .*: the addresses of name servers are needed") as refusal:
            make(wrong)
        assert repr(wrong) in str(refusal.value)


@pytest.mark.parametrize("wrong", ["http://127.0.0.1:9876", "tcp://127.0.0.1:9876", "127.0.0.1:9876/x"])
def test_a_url_is_no_address(wrong: str) -> None:
    for make in (connect, sync.connect):
        with pytest.raises(ConfigError, match=r"is no address: write host:port, such as 127.0.0.1:9876") as refusal:
            make(wrong)
        assert repr(wrong) in str(refusal.value)


@pytest.mark.parametrize("name", ["call_timeout_s", "heartbeat_s", "route_refresh_s", "trouble_pause_s"])
@pytest.mark.parametrize("wrong", [None, 0, -1, "3", True, math.nan, math.inf])
def test_a_time_of_a_client_is_a_number_of_seconds(name: str, wrong: Any) -> None:
    settings: dict[str, Any] = {name: wrong}
    with pytest.raises(ConfigError, match=f"{name} = {wrong!r}: a number of seconds above 0 is needed"):
        connect("127.0.0.1:1", **settings)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"tls": True}, r"tls = True: write tls=pyromq.ClientTls\(\), or leave it out"),
        ({"trace": 5}, "trace = 5: True, False or the name of a topic is needed"),
        ({"namespace": 5}, "namespace: a text is needed, and not a int"),
        ({"instance": None}, "instance: a text is needed, and not a NoneType"),
        ({"access_key": 5, "secret_key": 5}, "access_key: a text is needed"),
    ],
)
def test_a_setting_of_a_wrong_kind_is_named(settings: Any, said: str) -> None:
    for make in (connect, sync.connect):
        with pytest.raises(ConfigError, match=said):
            make("127.0.0.1:1", **settings)


def test_what_an_environment_does_not_have_is_not_given() -> None:
    connect("127.0.0.1:1", access_key=None, secret_key=None, security_token=None, namespace=None)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", ["none", False, None, 0])
def test_what_is_verified_is_said_by_its_name(wrong: Any) -> None:
    with pytest.raises(ConfigError, match=r"verify = .*: one of Verify.NONE, Verify.CA, Verify.FULL is needed"):
        ClientTls(verify=wrong)


@pytest.mark.parametrize("wrong", [0, -1, "9", None])
async def test_a_batch_has_a_size(cluster: Cluster, wrong: Any) -> None:
    cluster.broker("a", T=1)
    client = await cluster.client()
    async with client.producer() as producer:
        with pytest.raises(Error, match=r"max_batch_bytes=.* is no whole number of 1 or more"):
            await producer.send_many("T", ["x"], max_batch_bytes=wrong)


async def test_a_consumer_has_a_topic(cluster: Cluster) -> None:
    client = await cluster.client()
    with pytest.raises(Error, match=r"a consumer of no topic. Name one or more"):
        client.push_consumer({}, handle, group="g")


@pytest.mark.parametrize("wrong", [None, 5, "handle"])
async def test_a_handler_that_is_no_function(cluster: Cluster, wrong: Any) -> None:
    client = await cluster.client()
    for make in (
        lambda: client.push_consumer("T", wrong, group="g"),
        lambda: client.push_consumer("T", wrong, group="g", max_batch=2),
        lambda: sync.connect("127.0.0.1:1").push_consumer("T", wrong, group="g"),
    ):
        with pytest.raises(
            Error, match=r"the handler is .*, and not a function. Give one: a .*handler takes"
        ) as refusal:
            make()
        assert repr(wrong) in str(refusal.value)


@pytest.mark.parametrize("make", [sql, tag])
@pytest.mark.parametrize("wrong", [None, 5, ["a"]])
def test_a_filter_of_no_text(make: Callable[[Any], Any], wrong: Any) -> None:
    with pytest.raises(Error, match="is a string"):
        make(wrong)


@pytest.mark.parametrize("wrong", ["a", "", 5])
async def test_a_filter_that_is_none(cluster: Cluster, wrong: Any) -> None:
    client = await cluster.client()
    for make in (
        lambda: client.push_consumer("T", handle, group="g", filter=wrong),
        lambda: client.push_consumer({"T": wrong}, handle, group="g"),
        lambda: client.pull_consumer("g", filter=wrong),
    ):
        with pytest.raises(Error, match=r"the filter is .*, and not made by tag\(...\) or sql\(...\)"):
            make()


@pytest.mark.parametrize("wrong", [None, 5])
async def test_a_group_that_is_no_string(cluster: Cluster, wrong: Any) -> None:
    client = await cluster.client()
    for make in (
        lambda: client.producer(wrong),
        lambda: client.push_consumer("T", handle, group=wrong),
        lambda: client.pull_consumer(wrong),
    ):
        with pytest.raises(Error, match=r"the group is .*, and not a string"):
            make()


@pytest.mark.parametrize("begin", ["soon", "FIRST_OFFSET", "CONSUME_FROM_FIRST_OFFSET", None, 0])
async def test_a_place_to_begin_that_is_none(cluster: Cluster, begin: Any) -> None:
    client = await cluster.client()
    blocking = sync.connect("127.0.0.1:1")
    for make in (
        lambda: client.push_consumer("T", handle, group="g", begin=begin),
        lambda: client.pull_consumer("g", begin=begin),
        lambda: blocking.push_consumer("T", handle, group="g", begin=begin),
        lambda: blocking.subscribe("T", group="g", begin=begin)(handle),
        lambda: blocking.pull_consumer("g", begin=begin),
    ):
        with pytest.raises(
            Error, match=r"is no place to begin.*ConsumeFromWhere.*LAST_OFFSET, .*FIRST_OFFSET, TIMESTAMP"
        ):
            make()
    with pytest.raises(Error, match="begin_ms='noon' is no whole number"):
        client.pull_consumer("g", begin=ConsumeFromWhere.TIMESTAMP, begin_ms="noon")  # type: ignore[arg-type]


async def take_list(msgs: list[Received]) -> None:
    """Never called."""


async def take_both(orders: list[int], msgs: Sequence[Received]) -> None:
    """Never called."""


WRONG_OPTIONS: list[tuple[str, dict[str, Any]]] = [
    (r"retry is 3, and not a pyromq.Retry. Write retry=pyromq.Retry\(times=3\)", {"retry": 3}),
    ("timeout_s=0 is no number of seconds above 0. Write timeout_s=30", {"timeout_s": 0}),
    ("timeout_s=-1 is no number", {"timeout_s": -1}),
    ("timeout_s=nan is no number", {"timeout_s": math.nan}),
    ("timeout_s='5s' is no number", {"timeout_s": "5s"}),
    ("grace_s=-1 is no number of seconds of 0 or more", {"grace_s": -1}),
    ("concurrency=0 is no whole number of 1 or more", {"concurrency": 0}),
    ("concurrency='4' is no whole number", {"concurrency": "4"}),
    ("max_batch=2000 is no whole number of 1 to 1024. Write max_batch=20$", {"max_batch": 2000}),
    ("begin_ms=5 says nothing with begin=LAST_OFFSET. Give begin=pyromq.ConsumeFromWhere.TIMESTAMP", {"begin_ms": 5}),
    ("begin=TIMESTAMP does not say from which time on. Give begin_ms", {"begin": ConsumeFromWhere.TIMESTAMP}),
    (r"strategy='Average' cannot share out queues. Write strategy=pyromq.Average\(\)", {"strategy": "Average"}),
    (r"Write strategy=pyromq.AverageByCircle\(\)", {"strategy": AverageByCircle}),
]


@pytest.mark.parametrize(("said", "options"), WRONG_OPTIONS)
async def test_options_that_would_kill_a_consumer_later(cluster: Cluster, said: str, options: dict[str, Any]) -> None:
    client = await cluster.client()
    with pytest.raises(Error, match=said):
        client.push_consumer("T", handle, group="g", **options)
    if options.keys() <= {"begin", "begin_ms", "strategy"}:
        with pytest.raises(Error, match=said):
            client.pull_consumer("g", **options)
    with pytest.raises(Error, match=said):
        sync.connect("127.0.0.1:1").push_consumer("T", handle, group="g", **options)


@pytest.mark.parametrize("handler", [take_list, take_both])
async def test_a_handler_of_lists_needs_max_batch(cluster: Cluster, handler: Callable[..., Any]) -> None:
    client = await cluster.client()
    with pytest.raises(
        Error, match=r"takes a list of messages \(msgs\), and max_batch is not given. Write max_batch=32"
    ):
        client.push_consumer("T", handler, group="g")
    client.push_consumer("T", handler, group="g", max_batch=2)


def test_a_tag_is_one_tag() -> None:
    with pytest.raises(
        Error, match=r"tag\('a\|\|b'\): \|\| stands between tags and in none. Write tag\(\"a\", \"b\"\)"
    ):
        tag("a||b")
    assert tag("a", " b ").expression == "a || b"
    assert tag("*").expression == "*"


async def plain_yields(msg: Received) -> AsyncIterator[int]:
    yield 1


class CalledYields:
    def __call__(self, msg: Received) -> Iterator[int]:
        yield 1


def batch_yields(msgs: list[Received]) -> Iterator[Received]:
    yield from msgs


class YieldingLayer(Middleware):
    async def handle(self, messages: list[Received], call_next: HandleNext) -> AsyncIterator[Any]:  # type: ignore[override]
        yield await call_next(messages)


@pytest.mark.parametrize("handler", [plain_yields, partial(plain_yields), CalledYields(), batch_yields])
async def test_a_handler_with_a_yield_is_refused_where_it_is_given(cluster: Cluster, handler: Any) -> None:
    """A call of it makes a generator and runs nothing: every message would be acked unseen."""
    cluster.broker("a", T=1)
    client, app = connect(), App()
    producer = (await cluster.client()).producer("shop")
    for give in (
        lambda: client.push_consumer("T", handler, group="g"),
        lambda: client.push_consumer("T", handler, group="g", max_batch=4),
        lambda: client.subscribe("T", group="g")(handler),
        lambda: producer.transaction_check("T", handler),
        lambda: app.subscriber("T", group="g")(handler),
        lambda: app.publisher("T")(handler),
    ):
        with pytest.raises(Error, match="has a `yield`: it would never run"):
            give()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([YieldingLayer()], "has a `yield`: it would never run"),
        ([Idempotence], r"a middleware is .*, and not an object of a pyromq.Middleware. Write Idempotence\(\)"),
        ([5], "a middleware is 5, and not an object of a pyromq.Middleware"),
        (5, "middleware is 5, and not a list"),
    ],
)
async def test_middleware_that_is_none_is_refused_where_it_is_given(given: Any, said: str) -> None:
    client = connect()
    for give in (
        lambda: connect(middleware=given),
        lambda: client.producer(middleware=given),
        lambda: client.push_consumer("T", handle, group="g", middleware=given),
        lambda: client.subscribe("T", group="g", middleware=given)(handle),
        lambda: App(middleware=given),
    ):
        with pytest.raises(Error, match=said):
            give()


def test_middleware_of_any_iterable_counts() -> None:
    layer = Idempotence()
    assert check_middleware(each for each in [layer]) == (layer,)  # type: ignore[arg-type]


async def yielding_lifespan(app: App) -> AsyncIterator[None]:
    yield


async def awaited_lifespan(app: App) -> None: ...


@pytest.mark.parametrize("lifespan", [5, yielding_lifespan, awaited_lifespan])
def test_a_lifespan_that_is_no_context_manager_is_refused(lifespan: Any) -> None:
    with pytest.raises(Error, match=r"lifespan=.* is no function that returns an async context manager"):
        App(lifespan=lifespan)


async def by_keyword(*, msg: Received) -> None: ...


async def of_one(msg: Received) -> None: ...


async def of_three(order: dict[str, Any], msg: Received, more: int) -> None: ...


@pytest.mark.parametrize(
    ("handler", "options", "said"),
    [
        (by_keyword, {}, r"by_keyword .* takes msg by keyword only"),
        (of_three, {}, r"of_three .* takes 3 arguments"),
        (of_one, {"max_batch": 4}, r"of_one .* is a batch handler .*, and msg is .*Received.* and no list"),
        (of_one, {"limits": FlowLimits(bytes=-1)}, "bytes=-1 is no whole number of 1 or more"),
        (of_one, {"limits": 3}, "limits is 3, and not a pyromq.FlowLimits"),
    ],
)
def test_a_consumer_that_could_handle_nothing_is_refused(handler: Any, options: Any, said: str) -> None:
    with pytest.raises(Error, match=said):
        connect().push_consumer("T", handler, group="g", **options)


def test_a_handler_may_take_any_keywords_beside_its_message() -> None:
    async def handler(msg: Received, **more: Any) -> None: ...

    message: Any = object()
    assert arguments_of(handler)(message) == (message,)
