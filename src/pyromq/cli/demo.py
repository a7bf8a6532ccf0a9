"""`pyromq demo`: shows on this machine what works today, step by step, and cleans up after itself.

Real processes and real sockets on loopback, data in a temporary folder. Each step is a coroutine that gets the `Stage`;
later work adds steps to `STEPS`. Anything unexpected ends the demo with an error, so that a green demo means something.
"""

from __future__ import annotations

import asyncio
import re
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from ..ambient import Clock, SystemClock, system_random
from ..errors import CallRefused, PyroError
from ..model.codes import RequestCode, ResponseCode
from ..model.topic import Perm
from ..protocol.bodies.body import decode_body
from ..protocol.bodies.registration import RegisterBrokerBody, encode_registration
from ..protocol.bodies.route import ClusterInfo, TopicRouteData
from ..protocol.bodies.topics import TopicConfig, TopicConfigAndMappingSerializeWrapper
from ..protocol.command import Command
from ..protocol.headers.header import Header
from ..protocol.headers.namesrv import GetRouteInfo, RegisterBroker, UnregisterBroker
from ..transport import loop
from ..transport.client import Client

CLUSTER = "DemoCluster"
TOPICS = {"orders": 8, "payments": 4}
CALL_S = 5.0
START_S = 20.0
SILENCE_MS = 1_000  # at last broker-b asks to be forgotten after this long without a heartbeat


@dataclass
class Stage:
    """What the steps share."""

    console: Console
    clock: Clock
    client: Client
    folder: Path
    closing: AsyncExitStack
    namesrv: str = ""
    brokers: dict[str, str] = field(default_factory=dict)

    async def ask(self, code: RequestCode, header: Header | None = None, body: bytes = b"") -> bytes:
        """A request to the name server. CallRefused for any answer but success."""
        fields = {} if header is None else header.to_fields()
        response = await self.client.call(self.namesrv, Command(code=code, fields=fields, body=body), CALL_S)
        if response.code != ResponseCode.SUCCESS:
            raise CallRefused(response.code, response.remark, self.namesrv)
        return bytes(response.body)

    def say(self, text: str) -> None:
        self.console.print(f"[bold cyan]>[/] {text}")


async def start_name_server(stage: Stage) -> None:
    """A process of its own on a free loopback port, as an operator would start it."""
    arguments = {
        "--listen": "127.0.0.1:0",
        "--kv-config-path": str(stage.folder / "kvConfig.json"),
        "--scan-not-active-broker-interval": "200",
        "--log-level": "error",
    }
    words = [word for pair in arguments.items() for word in pair]
    process = await stage.closing.enter_async_context(_running(stage.clock, "namesrv", *words))
    stage.namesrv = await _ready_address(process, stage.clock)
    stage.say(f"name server is up at {stage.namesrv}, process {process.pid}")


async def register_brokers(stage: Stage) -> None:
    """Two simulated brokers register over the socket, exactly as RocketMQ's do."""
    for number, name in enumerate(("broker-a", "broker-b")):
        address = f"127.0.0.1:{10911 + 100 * number}"
        await _register(stage, name, address)
        stage.brokers[name] = address
    stage.say(f"registered {' and '.join(stage.brokers)} with topics {', '.join(TOPICS)}")


async def show_routes(stage: Stage) -> None:
    """What a client that asks for each topic is told."""
    table = Table(title="routes", title_justify="left")
    for heading in ("topic", "cluster", "broker", "address", "queues", "permission"):
        table.add_column(heading, no_wrap=True)
    for topic in TOPICS:
        route = await _route(stage, topic)
        queues = {one.broker_name: one for one in route.queue_datas}
        for broker in sorted(route.broker_datas, key=lambda one: one.broker_name):
            here = queues[broker.broker_name]
            count = f"{here.read_queue_nums} / {here.write_queue_nums}"
            master = broker.broker_addrs[0]
            table.add_row(topic, broker.cluster, broker.broker_name, master, count, _permission(here.perm))
    stage.console.print(table)
    info = decode_body(ClusterInfo, await stage.ask(RequestCode.GET_BROKER_CLUSTER_INFO))
    sizes = [f"{name} ({len(brokers)} brokers)" for name, brokers in info.cluster_addr_table.items()]
    stage.say(f"clusters: {', '.join(sizes)}")


async def lose_brokers(stage: Stage) -> None:
    """One broker says good-bye, the other falls silent: the routes follow both."""
    leaving = UnregisterBroker(
        broker_name="broker-a", broker_addr=stage.brokers["broker-a"], cluster_name=CLUSTER, broker_id=0
    )
    await stage.ask(RequestCode.UNREGISTER_BROKER, leaving)
    await _until(stage, {"broker-b"})
    stage.say("broker-a unregistered; orders is now on broker-b alone")
    await _register(stage, "broker-b", stage.brokers["broker-b"], silence_ms=SILENCE_MS)
    await _until(stage, set())
    stage.say(f"broker-b sent no heartbeat for {SILENCE_MS / 1000:g} s and expired; no broker is left")


STEPS: list[Callable[[Stage], Awaitable[None]]] = [start_name_server, register_brokers, show_routes, lose_brokers]


@click.command()
def demo() -> None:
    """Show on this machine what works today, and clean up."""
    loop.run(run_steps())


async def run_steps() -> None:
    """Every step in order. Whatever happens, what was started is stopped and the folder removed."""
    clock, console = SystemClock(), Console()
    with tempfile.TemporaryDirectory(prefix="pyromq-demo-") as folder:
        async with AsyncExitStack() as closing:
            client = await closing.enter_async_context(Client(clock=clock, rng=system_random()))
            stage = Stage(console, clock, client, Path(folder), closing)
            for step in STEPS:
                await step(stage)
        console.print("[bold cyan]>[/] everything is stopped and removed. Next: [bold]make test[/], README.md")


async def _register(stage: Stage, name: str, address: str, silence_ms: int | None = None) -> None:
    """`silence_ms`: how long the name server is to wait for the next heartbeat, if not its usual 120 s."""
    table = {
        topic: TopicConfig(topic_name=topic, read_queue_nums=queues, write_queue_nums=queues)
        for topic, queues in TOPICS.items()
    }
    wrapper = TopicConfigAndMappingSerializeWrapper(topic_config_table=table)
    header = RegisterBroker(
        broker_name=name,
        broker_addr=address,
        cluster_name=CLUSTER,
        broker_id=0,
        heartbeat_timeout_millis=silence_ms,
    )
    body = encode_registration(RegisterBrokerBody(topic_config_serialize_wrapper=wrapper))
    await stage.ask(RequestCode.REGISTER_BROKER, header, body)


async def _route(stage: Stage, topic: str) -> TopicRouteData:
    body = await stage.ask(
        RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRouteInfo(topic=topic, accept_standard_json_only=True)
    )
    return decode_body(TopicRouteData, body)


async def _until(stage: Stage, brokers: set[str]) -> None:
    """Ask until the route of `orders` names exactly these brokers."""
    async with _patience(stage.clock, f"the route of orders to name {brokers or 'no broker'}"):
        while await _brokers_of_orders(stage) != brokers:
            await stage.clock.sleep(0.1)


async def _brokers_of_orders(stage: Stage) -> set[str]:
    try:
        route = await _route(stage, "orders")
    except CallRefused as refusal:
        if refusal.code != ResponseCode.TOPIC_NOT_EXIST:
            raise
        return set()
    return {one.broker_name for one in route.broker_datas}


async def _ready_address(process: asyncio.subprocess.Process, clock: Clock) -> str:
    """The address in the name server's ready line."""
    assert process.stdout is not None
    async with _patience(clock, "the name server's ready line"):
        line = (await process.stdout.readline()).decode()
    found = re.search(r"(127\.0\.0\.1:\d+)", line)
    if found is None:
        raise PyroError(f"the name server did not come up; it said {line.strip()!r}")
    return found.group(1)


@asynccontextmanager
async def _patience(clock: Clock, waited_for: str) -> AsyncIterator[None]:
    try:
        async with clock.timeout(START_S):
            yield
    except TimeoutError:
        raise PyroError(f"waited {START_S:g} s in vain for {waited_for}") from None


@asynccontextmanager
async def _running(clock: Clock, *arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """`pyromq` with these arguments until the end of the block, then SIGTERM, which it must heed with exit code 0."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "pyromq", *arguments), stdout=asyncio.subprocess.PIPE
    )
    try:
        yield process
    except BaseException:
        await _end(process, clock)
        raise  # what went wrong matters more than how the process ended
    code = await _end(process, clock)
    if code != 0:
        raise PyroError(f"process {process.pid} was to end with exit code 0 after SIGTERM, not with {code}")


async def _end(process: asyncio.subprocess.Process, clock: Clock) -> int:
    if process.returncode is None:
        process.send_signal(signal.SIGTERM)
    try:
        async with clock.timeout(START_S):
            return await process.wait()
    except TimeoutError:
        process.kill()
        return await process.wait()


def _permission(perm: int) -> str:
    return ", ".join(word for bit, word in ((Perm.READ, "read"), (Perm.WRITE, "write")) if perm & bit)
