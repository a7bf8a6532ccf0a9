"""The name server: simulated brokers register, clients are told the routes, which follow what becomes of brokers."""

from __future__ import annotations

from rich.table import Table

from ...errors import CallRefused
from ...model.codes import RequestCode, ResponseCode
from ...model.topic import Perm
from ...protocol.bodies.body import decode_body
from ...protocol.bodies.registration import RegisterBrokerBody, encode_registration
from ...protocol.bodies.route import ClusterInfo, TopicRouteData
from ...protocol.bodies.topics import TopicConfig, TopicConfigAndMappingSerializeWrapper
from ...protocol.headers.namesrv import GetRouteInfo, RegisterBroker, UnregisterBroker
from .stage import Stage, patience

CLUSTER = "DemoCluster"
TOPICS = {"orders": 8, "payments": 4}
SILENCE_MS = 1_000  # at last broker-b asks to be forgotten after this long without a heartbeat


async def start_name_server(stage: Stage) -> None:
    """A process of its own on a free loopback port, as an operator would start it."""
    options = {
        "--kv-config-path": str(stage.folder / "namesrv" / "kvConfig.json"),
        "--scan-not-active-broker-interval": "200",
    }
    daemon = await stage.start("namesrv", options)
    stage.namesrv = daemon.address
    stage.say(f"name server is up at {daemon.address}, process {daemon.process.pid}")


async def register_brokers(stage: Stage) -> None:
    """Two simulated brokers register over the socket, exactly as RocketMQ's do."""
    for number, name in enumerate(("broker-a", "broker-b")):
        stage.simulated[name] = f"127.0.0.1:{10911 + 100 * number}"
        await _register(stage, name)
    stage.say(f"registered {' and '.join(stage.simulated)} with topics {', '.join(TOPICS)}")


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
    answer = await stage.ask(stage.namesrv, RequestCode.GET_BROKER_CLUSTER_INFO)
    info = decode_body(ClusterInfo, answer.body)
    sizes = [f"{name} ({len(brokers)} brokers)" for name, brokers in info.cluster_addr_table.items()]
    stage.say(f"clusters: {', '.join(sizes)}")


async def lose_brokers(stage: Stage) -> None:
    """One broker says good-bye, the other falls silent: the routes follow both."""
    leaving = UnregisterBroker(
        broker_name="broker-a", broker_addr=stage.simulated["broker-a"], cluster_name=CLUSTER, broker_id=0
    )
    await stage.ask(stage.namesrv, RequestCode.UNREGISTER_BROKER, leaving)
    await until_route(stage, "orders", {"broker-b"})
    stage.say("broker-a unregistered; orders is now on broker-b alone")
    await _register(stage, "broker-b", silence_ms=SILENCE_MS)
    await until_route(stage, "orders", set())
    stage.say(f"broker-b sent no heartbeat for {SILENCE_MS / 1000:g} s and expired; no broker is left")


async def _route(stage: Stage, topic: str) -> TopicRouteData:
    header = GetRouteInfo(topic=topic, accept_standard_json_only=True)
    answer = await stage.ask(stage.namesrv, RequestCode.GET_ROUTEINFO_BY_TOPIC, header)
    return decode_body(TopicRouteData, answer.body)


async def until_route(stage: Stage, topic: str, brokers: set[str]) -> None:
    """Ask until the route of the topic names exactly these brokers."""
    async with patience(stage.clock, f"the route of {topic} to name {brokers or 'no broker'}"):
        while await _brokers_of(stage, topic) != brokers:
            await stage.clock.sleep(0.1)


async def _brokers_of(stage: Stage, topic: str) -> set[str]:
    try:
        route = await _route(stage, topic)
    except CallRefused as refusal:
        if refusal.code != ResponseCode.TOPIC_NOT_EXIST:
            raise
        return set()
    return {one.broker_name for one in route.broker_datas}


async def _register(stage: Stage, name: str, silence_ms: int | None = None) -> None:
    """`silence_ms`: how long the name server is to wait for the next heartbeat, if not its usual 120 s."""
    table = {
        topic: TopicConfig(topic_name=topic, read_queue_nums=queues, write_queue_nums=queues)
        for topic, queues in TOPICS.items()
    }
    wrapper = TopicConfigAndMappingSerializeWrapper(topic_config_table=table)
    header = RegisterBroker(
        broker_name=name,
        broker_addr=stage.simulated[name],
        cluster_name=CLUSTER,
        broker_id=0,
        heartbeat_timeout_millis=silence_ms,
    )
    body = encode_registration(RegisterBrokerBody(topic_config_serialize_wrapper=wrapper))
    await stage.ask(stage.namesrv, RequestCode.REGISTER_BROKER, header, body)


def _permission(perm: int) -> str:
    return ", ".join(word for bit, word in ((Perm.READ, "read"), (Perm.WRITE, "write")) if perm & bit)
