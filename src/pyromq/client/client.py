"""The front door of the SDK: `connect` gives a `Client`, which makes producers and consumers over shared connections.

async with pyromq.connect("127.0.0.1:9876") as client:
    async with client.producer() as producer:
        await producer.send("orders", {"id": 1})
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar, Unpack

from ..ambient import Clock, Random, SystemClock, system_random
from ..model.message_trace import MessageTrace
from ..model.names import TRACE_TOPIC
from ..transport.client import Connect
from .arguments import read_begin
from .config import CREDENTIAL_VARIABLES, ClientConfig, credentials, name_servers
from .connect.background import Lifecycle, first_ended, sigterm
from .connect.broker_requests import BrokerRequests
from .connect.session import Session
from .connect.tls_choice import from_environment
from .consume.options import ConsumeOptions, PullOptions
from .consume.pull_consumer import PullConsumer
from .consume.push_consumer import PushConsumer
from .errors import Error, NotSupported
from .handle.handlers import Handler
from .keywords import ClientSettings, ConsumeSettings, PullSettings, SimpleSettings
from .middleware import Middleware, check_middleware
from .pop.options import SimpleOptions
from .pop.simple_consumer import SimpleConsumer
from .produce.batches import Batching
from .produce.outgoing import Packing
from .produce.producer import DEFAULT_GROUP, Producer
from .produce.sending import SendPolicy
from .subscription import Filter
from .tracing.trace_writer import Tracer, find_traces
from .values import Codec

F = TypeVar("F", bound=Handler)


def connect(
    namesrv: str | Iterable[str] | None = None,
    *,
    middleware: Sequence[Middleware] = (),
    **settings: Unpack[ClientSettings],
) -> Client:
    """Return a client of the cluster behind these name servers (else PYROMQ_NAMESRV, NAMESRV_ADDR, 127.0.0.1:9876).

    `endpoints="host:8081"` in their place: over the gRPC protocol of RocketMQ 5, to a broker of ours or a proxy.
    Nothing is opened before `async with`. `middleware` stands around all its sends and handlers, the first outermost.
    Further settings are those of `ClientConfig`; keys and TLS that are not given are the environment's
    (PYROMQ_ACCESS_KEY, PYROMQ_TLS and their like).
    """
    found: dict[str, Any] = {**settings}
    if found.keys().isdisjoint(CREDENTIAL_VARIABLES):
        found |= credentials()
    if "tls" not in found:
        found["tls"] = from_environment().settings()
    if found.get("endpoints"):
        if namesrv is not None:
            raise Error("namesrv and endpoints are two ways to a cluster", hint="Give one of them")
        namesrv = found["endpoints"]
    return Client(ClientConfig(name_servers=name_servers(namesrv), **found), middleware=middleware)


class Client(Lifecycle):
    """Makes producers and consumers, which share its connections. Use it as `async with`.

    Belongs to one event loop. Leaving the block stops what the client made: consumers first, then producers.
    """

    def __init__(
        self,
        config: ClientConfig,
        *,
        clock: Clock | None = None,
        rng: Random | None = None,
        connect: Connect | None = None,
        middleware: Sequence[Middleware] = (),
        make_consumer: Callable[..., PushConsumer] = PushConsumer,
    ) -> None:
        """`make_consumer`: for the test fixtures, whose consumers stop on a clock that stands."""
        self._middleware = check_middleware(middleware)
        self._make_consumer = make_consumer
        self._requests = BrokerRequests()
        clock, rng = clock or SystemClock(), rng or system_random()
        self._members: Callable[[], Session] | None = None
        if config.endpoints:
            if config.trace_topic is not None:
                raise NotSupported("traces are not written over gRPC", hint="Leave out trace=")
            from .grpc.members import GrpcMembers  # not at the top: few use it, and protobuf takes its time

            self._members = GrpcMembers(config, clock, rng).new_session
        self.session = (
            Session(config, clock=clock, rng=rng, handlers=self._requests.handlers(), connect=connect)
            if self._members is None
            else self._members()
        )
        self._tracer = None if config.trace_topic is None else Tracer(self.session, config.trace_topic)
        self._producers, self._consumers = self._requests.producers, self._requests.consumers
        self._to_start: list[PushConsumer] = []
        self._is_started = False

    @property
    def client_id(self) -> str:
        """Return the name by which brokers know this client."""
        return self.session.client_id

    @property
    def running_handlers(self) -> int:
        """Return how many messages the handlers of this client are busy with."""
        consuming = sum(each.running for each in self._consumers if isinstance(each, PushConsumer))
        return consuming + sum(each.transactions.checking for each in self._producers)

    async def start(self) -> None:
        """Open the client, and start the consumers that `subscribe` has declared."""
        self.session.start()
        if self._tracer is not None:
            self._tracer.start()
        self._is_started = True
        try:
            for consumer in self._to_start:
                await consumer.start()
        except BaseException:  # nobody will call `stop` after a start that failed
            await self.stop()
            raise
        self._to_start.clear()

    async def stop(self) -> None:
        """Stop the consumers, then the producers, and close all connections."""
        for consumer in self._consumers:
            await consumer.stop()
        for producer in self._producers:
            await producer.stop()
        if self._tracer is not None:
            await self._tracer.stop()
        await self.session.stop()

    def _session_of_member(self) -> Session:
        """Return the session of a new producer or consumer: over gRPC each has one of its own."""
        return self.session if self._members is None else self._members()

    def producer(
        self,
        group: str = DEFAULT_GROUP,
        *,
        policy: SendPolicy | None = None,
        packing: Packing | None = None,
        batching: Batching | None = None,
        middleware: Sequence[Middleware] = (),
        codec: Codec | None = None,
    ) -> Producer:
        """Make a producer. `policy` has its retries and time-outs, `packing` compression and sizes.

        With `batching` sends that come at about the same time share a request. `middleware` stands inside the client's.
        `codec` makes bodies of values, in place of the client's.
        """
        replies, around = self._requests.replies, (*self._middleware, *check_middleware(middleware))
        session = self._session_of_member()
        if self._members is not None:
            packing = replace(packing or Packing(), compression=None)  # the protocol knows gzip alone
        producer = Producer(
            session,
            group,
            policy,
            packing,
            replies,
            self._tracer,
            batching=batching,
            middleware=around,
            codec=codec,
        )
        self._producers.append(producer)
        if self._members is not None:
            session.answer_orphans(producer)  # type: ignore[attr-defined]
        return producer

    def push_consumer(
        self,
        /,
        topic: str | Mapping[str, Filter],
        handler: Handler,
        *,
        group: str,
        filter: Filter | None = None,
        middleware: Sequence[Middleware] = (),
        **options: Unpack[ConsumeSettings],
    ) -> PushConsumer:
        """Make a consumer whose messages come to the handler; start it, or use `async with`.

        Further options are those of `ConsumeOptions`. `middleware` stands inside the client's.
        """
        wanted = {topic: Filter() if filter is None else filter} if isinstance(topic, str) else topic
        around = (*self._middleware, *check_middleware(middleware))
        how = ConsumeOptions(**read_begin(options, self.session.clock.now_ms()))
        if self._members is not None:
            how = replace(how, mode="pop")  # the protocol has no other way
        session = self._session_of_member()
        consumer = self._make_consumer(session, group, wanted, handler, how, self._tracer, around)
        self._consumers.append(consumer)
        if self._members is not None:
            session.presence.on_trial = consumer.try_now  # type: ignore[attr-defined]
        return consumer

    def subscribe(
        self,
        /,
        topic: str,
        *,
        group: str,
        filter: Filter | None = None,
        middleware: Sequence[Middleware] = (),
        **options: Unpack[ConsumeSettings],
    ) -> Callable[[F], F]:
        """Return a decorator: its function handles the topic's messages from `start` (or `async with`) on."""
        if self._is_started:
            raise Error("this client runs already", hint="Use push_consumer(...), or subscribe before `async with`")

        def declare(handler: F) -> F:
            consumer = self.push_consumer(topic, handler, group=group, filter=filter, middleware=middleware, **options)
            self._to_start.append(consumer)
            return handler

        return declare

    async def wait(self) -> None:
        """Return on SIGTERM, or when a push consumer has ended; raise what killed it, if something did."""
        consumers = [each for each in self._consumers if isinstance(each, PushConsumer)]
        if not consumers:
            raise Error("this client has no push consumer to wait for", hint="Declare one by subscribe(...)")
        with sigterm() as terminated:
            await first_ended([*(each.wait() for each in consumers), terminated.wait()])

    def pull_consumer(
        self, /, group: str, *, filter: Filter | None = None, **options: Unpack[PullSettings]
    ) -> PullConsumer:
        """Make a consumer that is polled for messages. Further options are those of `PullOptions`."""
        wanted = Filter() if filter is None else filter
        how = PullOptions(**read_begin(options, self.session.clock.now_ms()))
        if self._members is not None:
            raise NotSupported("pull consumers are not served over gRPC", hint="Use simple_consumer(...)")
        consumer = PullConsumer(self.session, group, wanted, how, self._tracer)
        self._consumers.append(consumer)
        return consumer

    def simple_consumer(
        self,
        /,
        topic: str | Mapping[str, Filter],
        *,
        group: str,
        filter: Filter | None = None,
        **options: Unpack[SimpleSettings],
    ) -> SimpleConsumer:
        """Make a consumer that is asked for messages, each of which is acknowledged; start it, or use `async with`.

        Further options are those of `SimpleOptions`.
        """
        wanted = {topic: Filter() if filter is None else filter} if isinstance(topic, str) else topic
        how = read_begin(options, self.session.clock.now_ms())
        how.pop("begin_ms", None)  # the options refuse such a begin
        consumer = SimpleConsumer(self._session_of_member(), group, wanted, SimpleOptions(**how), self._tracer)
        self._consumers.append(consumer)
        return consumer

    async def traces(self, word: str, *, trace_topic: str | None = None) -> list[MessageTrace]:
        """Return what clients traced of the message with this id, or of the messages with this key."""
        return await find_traces(self.session, trace_topic or self.session.config.trace_topic or TRACE_TOPIC, word)
