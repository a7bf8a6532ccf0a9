"""Clients of brokers: producers, consumers, what consumers report of themselves, and whether the members of a group fit
together."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ...admin import groups, proxies, topics
from ...client.errors import Error
from ...model.client_info import version_name
from ...model.codes import ResponseCode
from ...model.foreign_text import visible
from ...model.group import ConsumeType
from ...model.names import RETRY_PREFIX
from ...model.wire_text import whole_number
from ...protocol.bodies.connections import ConsumerConnection, ConsumerRunningInfo, ProcessQueueInfo
from ...protocol.bodies.keyed import MessageQueue
from ...protocol.headers.clients import GetProducerConnectionList
from ...protocol.requests import RequestCode
from ..command import Failed, Run, command, failed
from ..files import write_private
from ..printing import Columns, as_line, java, java_object, local_time, queue_text, queues_in_order
from .progress import members_of, progress_of

CLIENT = Columns("{#ClientId:<36} {#ClientAddr:<22} {#Language:<10} {#Version}")
BROKER = "[-b brokerAddr=]  as this broker knows them, host:port"
GROUP = "-g consumerGroup=  the group"


async def _members(run: Run, group: str) -> tuple[str, ConsumerConnection]:
    brokers = [run["b"]] if "b" in run else await run.brokers_of_group(group)
    for address in brokers:
        found = await members_of(run, group, [address])
        if found is not None:
            return address, found
    raise failed(ResponseCode.CONSUMER_NOT_ONLINE, f"Not found the consumer group connection: {group} is not online")


async def _members_everywhere(run: Run, group: str) -> ConsumerConnection:
    """Return the members that a broker knows, and those of gateways and proxies, which no broker knows."""
    elsewhere = {} if "b" in run else await proxies.connections(run.calls, group)
    try:
        _, found = await _members(run, group)
    except (Error, Failed):
        if not elsewhere:
            raise
        found = ConsumerConnection()
    return proxies.joined(found, elsewhere.values())


@command("Members and subscriptions of a consumer group", BROKER, GROUP)
async def consumer_connection(run: Run) -> None:
    found = await _members_everywhere(run, run["g"])
    run.say(CLIENT.head)
    for one in sorted(found.connection_set, key=lambda each: each.client_id):
        run.say(CLIENT.format(one.client_id, one.client_addr, java(one.language), version_name(one.version)))
    run.say("", "Below is subscription:", f"{'#Topic':<20} #SubExpression")
    for topic, wanted in sorted(found.subscription_table.items()):
        run.say(f"{topic:<20} {wanted.sub_string}")
    run.say("", f"ConsumeType: {java(found.consume_type)}", f"MessageModel: {java(found.message_model)}")
    run.say(f"ConsumeFromWhere: {java(found.consume_from_where)}")


@command("Producers of a group")
async def producer_connection(run: Run) -> None:
    """-g producerGroup=  the producer group
    -t topic=             a topic that it sends to"""
    address, *_ = (await run.brokers_of(run["t"])).values()
    header = GetProducerConnectionList(producer_group=run["g"])
    found = (await run.ask(address, RequestCode.GET_PRODUCER_CONNECTION_LIST, header)).body
    for number, one in enumerate(found.connection_set, 1):
        shown = f"{java(one.language):<8} {version_name(one.version)}"
        run.say(f"{number:04}  {one.client_id:<32} {one.client_addr:<22} {shown}")


@command("All producers of a broker", "-b broker=  the broker, host:port")
async def producer(run: Run) -> None:
    found = (await run.ask(run["b"], RequestCode.GET_ALL_PRODUCER_INFO)).body
    if not found.data:
        run.warn(f"{run['b']} knows no producer")
    for group, members in found.data.items():
        if not members:
            run.say(f"producer group ({group}) instances are empty")
        for one in members:
            run.say(
                f"producer group ({group}) instance : clientId={one.client_id},remoteIP={java(one.remote_ip)}, "
                f"language={java(one.language)}, version={one.version}, lastUpdateTimestamp={one.last_update_timestamp}"
            )


@command("What the members of a group are doing", BROKER, GROUP)
async def consumer_status(run: Run) -> None:
    """[-i clientId=]  only this member, printed here
    [-s jstack]        with the stacks of its threads"""
    group = run["g"]
    address, found = await _members(run, group)
    if "i" in run:
        info = await groups.running_info(run.calls, address, group, run["i"], with_stacks="s" in run)
        run.print(text(info))
        return
    folder = str(run.clock.now_ms())
    infos = {}
    run.say(f"{'#Index':<10} {'#ClientId':<40} {'#Version':<20} #ConsumerRunningInfoFile")
    for one in sorted(found.connection_set, key=lambda each: each.client_id):
        try:
            info = await groups.running_info(run.calls, address, group, one.client_id, with_stacks="s" in run)
        except Error as fault:
            run.warn(str(fault))
            continue
        infos[one.client_id] = info
        path = write_private(Path(), (folder,), one.client_id, visible(text(info)).encode())
        run.say(f"{len(infos):<10} {one.client_id:<40} {version_name(one.version):<20} {path}")
    if infos:
        run.print(verdict(infos, run.clock.now_ms()))


QUEUE = (
    "ProcessQueueInfo [commitOffset, cachedMsgMinOffset, cachedMsgMaxOffset, cachedMsgCount, cachedMsgSizeInMiB, "
    "transactionMsgMinOffset, transactionMsgMaxOffset, transactionMsgCount, locked, tryUnlockTimes, "
    "lastLockTimestamp, droped, lastPullTimestamp, lastConsumeTimestamp]"
)
RATES = Columns(
    "{#Topic:<64}  {#Pull RT:>14} {#Pull TPS:>14} {#Consume RT:>14} {#ConsumeOK TPS:>14} {#ConsumeFailed TPS:>18} "
    "{#ConsumeFailedMsgsInHour:>25}"
)
POP_QUEUE = "PopProcessQueueInfo [waitAckCount, droped, lastPopTimestamp]"
ROUND_S = 60.0
SETTLED_MS = 120_000  # subscriptions that differ right after a start are on their way
STUCK_MS = 60_000
GOOD = "\n\nSame subscription in the same group of consumer\n\nRebalance OK\n"


def text(info: ConsumerRunningInfo) -> str:
    queues = queues_in_order(info.mq_table)
    lines = ["#Consumer Properties#", *(f"{key:<40}: {value}" for key, value in info.properties.items())]
    lines += ["", "", "#Consumer Subscription#", *_subscriptions(info)]
    head = f"{'#Broker Name':<32}  {'#QID':<4}  "
    lines += ["", "", "#Consumer Offset#", f"{'#Topic':<64}  {head}{'#Consumer Offset':<20}"]
    lines += [f"{_place(queue, 32)}  {at.commit_offset:<20}" for queue, at in queues]
    head += f"{'#ProcessQueueInfo':<20}"
    lines += ["", "", "#Consumer MQ Detail#", f"{'#Topic':<64}  {head}"]
    lines += [f"{_place(queue, 64)}  {_detail(at)}" for queue, at in queues]
    lines += ["", "", "#Consumer Pop Detail#", f"{'#Topic':<32}  {head}"]
    lines += [
        f"{_place(queue, 32)}  {java_object(POP_QUEUE, at).replace('=', ':')}"
        for queue, at in info.mq_pop_table.items()
    ]
    lines += ["", "", "#Consumer RT&TPS#", *_rates(info)]
    lines += ["", "", "#User Consume Info#", *(f"{key:<40}: {value}" for key, value in info.user_consumer_info.items())]
    shown = "".join(as_line(line) + "\n" for line in lines)
    return shown if info.jstack is None else f"{shown}\n\n#Consumer jstack#\n{info.jstack}\n"


def _subscriptions(info: ConsumerRunningInfo) -> list[str]:
    wanted = sorted(info.subscription_set, key=lambda each: each.topic)
    return [
        f"{number:03} Topic: {one.topic:<40} ClassFilter: {java(one.class_filter_mode):<8} "
        f"SubExpression: {one.sub_string}"
        for number, one in enumerate(wanted, 1)
    ]


def _place(queue: MessageQueue, width: int) -> str:
    return f"{queue.topic:<{width}}  {queue.broker_name:<32}  {queue.queue_id:<4}"


def _detail(at: ProcessQueueInfo) -> str:
    times = (at.last_lock_timestamp, at.last_pull_timestamp, at.last_consume_timestamp)
    lock, pull, consume = (local_time(ms, "%Y%m%d%H%M%S", "%03d") for ms in times)
    return java_object(QUEUE, at, lastLockTimestamp=lock, lastPullTimestamp=pull, lastConsumeTimestamp=consume)


def _rates(info: ConsumerRunningInfo) -> list[str]:
    lines = [RATES.head]
    for topic, of in sorted(info.status_table.items()):
        good = f"{of.pull_rt:>14.2f} {of.pull_tps:>14.2f} {of.consume_rt:>14.2f} {of.consume_ok_tps:>14.2f}"
        lines.append(f"{topic:<32}  {good} {of.consume_failed_tps:>18.2f} {of.consume_failed_msgs:>25}")
    return lines


def verdict(infos: Mapping[str, ConsumerRunningInfo], now_ms: int) -> str:
    """Say whether all members want the same, and who is stuck."""
    if not _agree(infos, now_ms):
        return "\n\nWARN: Different subscription in the same group of consumer!!!\n"
    return GOOD + "".join(line for name, info in infos.items() for line in _stuck(name, info, now_ms))


def _agree(infos: Mapping[str, ConsumerRunningInfo], now_ms: int) -> bool:
    first = next(iter(infos.values()))
    started = whole_number(first.properties.get("PROP_CONSUMER_START_TIMESTAMP")) or 0
    if not _pushes(first) or now_ms - started <= SETTLED_MS:
        return True
    wanted = [{(each.topic, each.sub_string) for each in info.subscription_set} for info in infos.values()]
    return all(one == wanted[0] for one in wanted)


def _pushes(info: ConsumerRunningInfo) -> bool:
    return info.properties.get("PROP_CONSUME_TYPE") == ConsumeType.PASSIVELY.value


def _stuck(client_id: str, info: ConsumerRunningInfo, now_ms: int) -> list[str]:
    if not _pushes(info):
        return []
    orderly = info.properties.get("PROP_CONSUMEORDERLY") == "true"
    lines = []
    for queue, at in info.mq_table.items():
        name = as_line(f"{client_id} {queue_text(queue)}")
        if orderly and not at.locked:
            lines.append(f"{name} can't lock for a while, {now_ms - at.last_lock_timestamp}ms\n")
        elif orderly and at.droped and at.try_unlock_times > 0:
            lines.append(f"{name} unlock {at.try_unlock_times} times, still failed\n")
        elif not orderly and at.cached_msg_count > 0 and now_ms - at.last_consume_timestamp > STUCK_MS:
            waited = now_ms - at.last_consume_timestamp
            lines.append(f"{name} can't consume for a while, maybe blocked, {waited}ms\n")
    return lines


# --- a watch over all groups ------------------------------------------------------------------------------------------


@command("Watch all groups that are online, every minute: backlogs, members that disagree or hang")
async def start_monitoring(run: Run) -> None:
    while True:
        await watch(run)
        await run.clock.sleep(ROUND_S)


async def watch(run: Run) -> None:
    for topic in await topics.names(run.calls):
        if topic.startswith(RETRY_PREFIX):
            try:
                await _watch_group(run, topic.removeprefix(RETRY_PREFIX))
            except (Error, Failed) as fault:
                run.warn(f"{topic.removeprefix(RETRY_PREFIX)}: {fault}")


async def _watch_group(run: Run, group: str) -> None:
    addresses = await run.brokers_of_group(group)
    members = await members_of(run, group, addresses)
    if members is None:
        return
    stats = await progress_of(run, group)
    for topic in sorted({queue.topic for queue in stats.offset_table}):
        of = [at for queue, at in stats.offset_table.items() if queue.topic == topic]
        lags = [at.difference for at in of]
        oldest = min((at.last_timestamp for at in of if at.last_timestamp > 0), default=run.clock.now_ms())
        late = max(0, run.clock.now_ms() - oldest) if any(lags) else 0
        run.say(
            f"reportUndoneMsgs: UndoneMsgs [consumerGroup={group}, topic={topic}, undoneMsgsTotal={sum(lags)}, "
            f"undoneMsgsSingleMQ={max(lags)}, undoneMsgsDelayTimeMills={late}]"
        )
    infos = {
        one.client_id: await groups.running_info(run.calls, addresses[0], group, one.client_id)
        for one in members.connection_set
    }
    shown = verdict(infos, run.clock.now_ms()).strip() if infos else ""
    if shown != GOOD.strip():
        run.say(f"reportConsumerRunningInfo: {group}: {shown}")
