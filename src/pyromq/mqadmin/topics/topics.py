"""Topics: made, changed, deleted; their order."""

from __future__ import annotations

from ...admin import cluster, settings, topics
from ...model.topic import ORDER_TOPIC_CONFIG, Perm, TopicFlag
from ...protocol.bodies.body import decode_body
from ...protocol.bodies.topics import CreateTopicListRequestBody, TopicConfig
from ...protocol.headers.header import RpcHeader
from ...protocol.json import ANSWER_LIMITS
from ...protocol.requests import RequestCode
from ..command import Failed, Run, command
from ..files import read_file
from ..options import BROKER, BROKER_OR_CLUSTER, CLUSTER, TOPIC, UsageError
from ..printing import java_object

QUEUES = 8


@command("Create or change a topic", BROKER_OR_CLUSTER, TOPIC)
async def update_topic(run: Run) -> None:
    """[-a attributes=]   +key=value adds or alters, -key removes; several with commas
    [-o order=]           true: an order topic
    [-p perm=]            2 write, 4 read, 6 both
    [-r readQueueNums=]   queues to read, default 8
    [-s hasUnitSub=]      true: has unit subscriptions
    [-u unit=]            true: a unit topic
    [-w writeQueueNums=]  queues to write, default 8"""
    config = TopicConfig(
        topic_name=run["t"],
        read_queue_nums=run.number("r", QUEUES),
        write_queue_nums=run.number("w", QUEUES),
        perm=run.number("p", Perm.READ_WRITE),
        topic_sys_flag=TopicFlag.UNIT * run.truth("u") | TopicFlag.UNIT_SUB * run.truth("s"),
        order=run.truth("o"),
        attributes=attribute_map(run.get("a")),
    )
    if "b" in run:
        await _put_on_broker(run, run["b"], config)
    else:
        await _put_on_cluster(run, run["c"], config)
    run.say(topic_text(config))


async def _put_on_broker(run: Run, address: str, config: TopicConfig) -> None:
    await topics.put(run.calls, address, config, run.get("a") or None)
    if config.order:
        name = next((each.name for each in await cluster.brokers(run.calls) if each.address == address), None)
        if name is None:
            raise Failed(f"the name server knows no broker at {address}")
        order = f"{name}:{config.write_queue_nums}"
        await topics.put_order(run.calls, config.topic_name, {name: config.write_queue_nums})
        run.say(f"set broker orderConf. isOrder=true, orderConf=[{order}]")
    run.say(f"create topic to {address} success.")


async def _put_on_cluster(run: Run, name: str, config: TopicConfig) -> None:
    found = await run.cluster(name)
    for place in found:
        if place.is_master:
            await topics.put(run.calls, place.address, config, run.get("a") or None)
            run.say(f"create topic to {place.address} success.")
    if config.order:
        order = ";".join(f"{each}:{config.write_queue_nums}" for each in sorted({place.name for place in found}))
        await settings.kv_put(run.calls, ORDER_TOPIC_CONFIG, config.topic_name, order)
        run.say(f"set cluster orderConf. isOrder=true, orderConf=[{order}]")


def attribute_map(text: str) -> dict[str, str]:
    """Return `+key=value,-key` as a map, signs and all."""
    found = {}
    for part in filter(None, (each.strip() for each in text.split(","))):
        key, equals, value = part.partition("=")
        if not (key.startswith("+") and equals) and not (key.startswith("-") and not equals):
            raise UsageError(f"attributes {text}: +key=value adds or alters, -key removes; {part} is neither")
        found[key] = value
    return found


def topic_text(topic: TopicConfig) -> str:
    """Return TopicConfig's toString()."""
    perm = "".join(letter if topic.perm & bit else "-" for letter, bit in zip("RWX", (4, 2, 1), strict=True))
    names = "topicName, readQueueNums, writeQueueNums, perm, topicFilterType, topicSysFlag, order, attributes"
    return java_object(f"TopicConfig [{names}]", topic, perm=perm)


@command("Create or change the topics of a file", BROKER_OR_CLUSTER)
async def update_topic_list(run: Run) -> None:
    """-f filename=  file with a JSON list of topic settings, as exportMetadata writes each"""
    configs = decode_body(list[TopicConfig], read_file(run["f"]), ANSWER_LIMITS)
    if not configs:
        raise Failed(f"{run['f']} lists no topic")
    wanted = CreateTopicListRequestBody(topic_config_list=configs)
    said = "submit batch of topic config to {} success, please check the result later."
    await run.ask_each(await run.masters(), said, RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, RpcHeader(), wanted)


@command("Delete a topic on brokers and name servers", "-c clusterName=  its cluster", TOPIC)
async def delete_topic(run: Run) -> None:
    topic, name = run["t"], run["c"]
    for address in await run.masters():
        await topics.delete_in_broker(run.calls, address, topic)
    run.say(f"delete topic [{topic}] from cluster [{name}] success.")
    await topics.delete_in_name_servers(run.calls, topic, name)
    run.say(f"delete topic [{topic}] from NameServer success.")


@command("Change only the permission of a topic", BROKER, CLUSTER, TOPIC, "-p perm=  2 write, 4 read, 6 both")
async def update_topic_perm(run: Run) -> None:
    topic, perm = run["t"], run.number("p")
    route = await run.route_of(topic)
    first = route.queue_datas[0]
    config = TopicConfig(
        topic_name=topic,
        perm=perm,
        read_queue_nums=first.read_queue_nums,
        write_queue_nums=first.write_queue_nums,
        topic_sys_flag=first.topic_sys_flag,
    )
    if "b" not in run:
        for address in await run.masters():
            await topics.put(run.calls, address, config)
            run.say(f"update topic perm from {first.perm} to {perm} in {address} success.")
        return
    address = run["b"]
    name = next((each.broker_name for each in route.broker_datas if each.broker_addrs.get(0) == address), None)
    if name is None:
        raise Failed(f"updateTopicPerm error broker not exit or broker is not master!. ({address}, topic {topic})")
    old = next((each.perm for each in route.queue_datas if each.broker_name == name), 0)
    if old == perm:
        run.say("new perm equals to the old one!")
        return
    await topics.put(run.calls, address, config)
    run.say(f"update topic perm from {old} to {perm} in {address} success.")
    run.say(f"{topic_text(config)}.")


@command("Set, show or delete the order of a topic's queues", TOPIC)
async def update_order_conf(run: Run) -> None:
    """-m method=    put, get or delete
    [-v orderConf=]  brokerName:queues;brokerName:queues, for put"""
    topic, method = run["t"], run["m"]
    if method == "get":
        order = await settings.kv_get(run.calls, ORDER_TOPIC_CONFIG, topic)
        if order is None:
            raise Failed(f"topic {topic} has no order: updateOrderConf -m put gives it one")
        run.say(f"get orderConf success. topic=[{topic}], orderConf=[{order}] ")
    elif method == "put":
        if not run.get("v"):
            raise Failed("please set orderConf with option -v.")
        await settings.kv_put(run.calls, ORDER_TOPIC_CONFIG, topic, run["v"])
        run.say(f"update orderConf success. topic=[{topic}], orderConf=[{run['v']}]")
    elif method == "delete":
        await settings.kv_delete(run.calls, ORDER_TOPIC_CONFIG, topic)
        run.say(f"delete orderConf success. topic=[{topic}]")
    else:
        raise UsageError(f"-m {method}: put, get or delete")


async def clusters_of(run: Run, topic: str) -> list[str]:
    names = {broker.broker_name for broker in (await run.route_of(topic)).broker_datas}
    found = await cluster.info(run.calls)
    return sorted(name for name, members in found.cluster_addr_table.items() if names.intersection(members))
