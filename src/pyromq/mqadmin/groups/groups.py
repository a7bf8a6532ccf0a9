"""Consumer groups: made, changed, deleted; their settings and their way of consuming."""

from __future__ import annotations

from ...admin import cluster, groups, topics
from ...model.group import MessageRequestMode
from ...model.names import dlq_topic, retry_topic
from ...protocol.bodies.body import decode_body
from ...protocol.bodies.groups import GroupRetryPolicy, SubscriptionGroupConfig, SubscriptionGroupList
from ...protocol.bodies.heartbeat import SetMessageRequestModeRequestBody
from ...protocol.json import ANSWER_LIMITS
from ...protocol.requests import RequestCode
from ..command import Failed, Run, command
from ..files import read_file
from ..options import BROKER, BROKER_OR_CLUSTER, CLUSTER, UsageError
from ..printing import fields_of, java, java_object
from ..topics.topics import attribute_map

GROUP = "-g groupName=  the group"
# The settings of a group in the order in which Java declares them.
DECLARED = """
    groupName consumeEnable consumeFromMinEnable consumeBroadcastEnable consumeMessageOrderly retryQueueNums
    retryMaxTimes groupRetryPolicy brokerId whichBrokerWhenConsumeSlowly notifyConsumerIdsChangedEnable groupSysFlag
    consumeTimeoutMinute subscriptionDataSet attributes
"""


@command("Create or change a consumer group", BROKER, CLUSTER, GROUP)
async def update_sub_group(run: Run) -> None:
    """[-a notifyConsumerIdsChanged=]   true: members are told when others come or go, default true
    [- attributes=]                     +key=value adds or alters, -key removes; several with commas
    [-d consumeBroadcastEnable=]        true: broadcasting is allowed, default false
    [-i brokerId=]                      id of the broker to read from, default 0
    [-m consumeFromMinEnable=]          true: may start at the least offset, default false
    [-o consumeMessageOrderly=]         true: an orderly group
    [-p groupRetryPolicy=]              when to deliver again, as JSON
    [-q retryQueueNums=]                queues of its retry topic, default 1
    [-r retryMaxTimes=]                 deliveries again before the dead letter topic, default 16
    [-s consumeEnable=]                 false: may not consume
    [-w whichBrokerWhenConsumeSlowly=]  id of the broker for slow readers, default 1"""
    config = SubscriptionGroupConfig(
        group_name=run["g"],
        attributes=attribute_map(run.get("attributes")),
        notify_consumer_ids_changed_enable=run.truth("a", True),
        consume_broadcast_enable=run.truth("d"),
        consume_from_min_enable=run.truth("m"),
        consume_message_orderly=run.truth("o"),
        consume_enable=run.truth("s", True),
        broker_id=run.number("i", 0),
        retry_queue_nums=run.number("q", 1),
        retry_max_times=run.number("r", 16),
        which_broker_when_consume_slowly=run.number("w", 1),
    )
    if "p" in run:
        config.group_retry_policy = decode_body(GroupRetryPolicy, run["p"].encode())
    for address in await run.masters():
        await groups.put(run.calls, address, config, config.attributes)
        run.say(f"create subscription group to {address} success.")
    settings = ", ".join(f"{name}={text}" for name, text in _settings(config).items())
    run.say(f"SubscriptionGroupConfig{{{settings}}}")


def _settings(group: SubscriptionGroupConfig) -> dict[str, str]:
    values = fields_of(group) | {"groupRetryPolicy": _policy_text(group.group_retry_policy)}
    return {name: java(values[name]) for name in DECLARED.split()}


def _policy_text(policy: GroupRetryPolicy) -> str:
    custom, doubling = policy.customized_retry_policy, policy.exponential_retry_policy
    return java_object(
        "GroupRetryPolicy{type, exponentialRetryPolicy, customizedRetryPolicy}",
        policy,
        exponentialRetryPolicy=doubling and java_object("ExponentialRetryPolicy{initial, max, multiplier}", doubling),
        customizedRetryPolicy=custom and java_object("CustomizedRetryPolicy{next}", custom),
    )


@command("Create or change the consumer groups of a file", BROKER_OR_CLUSTER)
async def update_sub_group_list(run: Run) -> None:
    """-f filename=  file with a JSON list of group settings, as exportMetadata writes each"""
    configs = decode_body(list[SubscriptionGroupConfig], read_file(run["f"]), ANSWER_LIMITS)
    if not configs:
        raise Failed(f"{run['f']} lists no group")
    wanted = SubscriptionGroupList(group_config_list=configs)
    said = "submit batch of subscription group config to {} success, please check the result later."
    await run.ask_each(await run.masters(), said, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, body=wanted)


@command("Delete a consumer group", BROKER, CLUSTER, GROUP, "[-r removeOffset=]  true: its offsets too")
async def delete_sub_group(run: Run) -> None:
    group, name = run["g"], run.get("c")
    within = f" in cluster [{name}]" if "b" not in run else ""
    for address in await run.masters():
        await groups.delete(run.calls, address, group, with_offsets=run.truth("r"))
        run.say(f"delete subscription group [{group}] from broker [{address}]{within} success.")
    if "b" in run:
        return
    for topic in (retry_topic(group), dlq_topic(group)):
        for address in await run.masters():
            await topics.delete_in_broker(run.calls, address, topic)
        await topics.delete_in_name_servers(run.calls, topic, name)


@command("Settings of a group on every broker that has it", GROUP)
async def get_consumer_config(run: Run) -> None:
    for place in await cluster.masters(run.calls):
        config = await groups.config(run.calls, place.address, run["g"])
        if config is None:
            continue
        run.say(f"{'=' * 29}{place.cluster}:{place.name}{'=' * 29}")
        for name, text in _settings(config).items():
            run.say(f"{name:<40}=  {'' if text == 'null' else text}")


@command("How a group consumes a topic: pull or pop", BROKER, CLUSTER, GROUP)
async def set_consume_mode(run: Run) -> None:
    """-m mode=             PULL or POP
    [-q popShareQueueNum=]  with POP: members whose queues one pops besides its own; 0: all
    -t topicName=           the topic"""
    try:
        mode = MessageRequestMode[run["m"].upper()]
    except KeyError:
        raise UsageError(f"-m {run['m']}: PULL or POP") from None
    topic, group, share = run["t"], run["g"], run.number("q", 0)
    wanted = SetMessageRequestModeRequestBody(consumer_group=group, topic=topic, mode=mode, pop_share_queue_num=share)
    said = "set consume mode to {} success."
    await run.ask_each(await run.masters(), said, RequestCode.SET_MESSAGE_REQUEST_MODE, body=wanted)
    run.say(f"topic[{topic}] group[{group}] consume mode[{mode.name}] popShareQueueNum[{share}]")
