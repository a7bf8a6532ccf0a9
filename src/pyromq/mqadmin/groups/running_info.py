"""What a consumer reports of itself, as the Java tool lays it out, and whether the members of a group fit together."""

from __future__ import annotations

from collections.abc import Mapping

from ...model.group import ConsumeType
from ...model.wire_text import whole_number
from ...protocol.bodies.connections import ConsumerRunningInfo, PopProcessQueueInfo, ProcessQueueInfo
from ...protocol.bodies.keyed import MessageQueue
from ..printing import as_line, local_time, queue_order, queue_text, truth

SETTLED_MS = 120_000  # subscriptions that differ right after a start are on their way
STUCK_MS = 60_000
GOOD = "\n\nSame subscription in the same group of consumer\n\nRebalance OK\n"


def text(info: ConsumerRunningInfo) -> str:
    queues = sorted(info.mq_table.items(), key=lambda item: queue_order(item[0]))
    lines = ["#Consumer Properties#", *(f"{key:<40}: {value}" for key, value in info.properties.items())]
    lines += ["", "", "#Consumer Subscription#", *_subscriptions(info)]
    lines += [
        "",
        "",
        "#Consumer Offset#",
        f"{'#Topic':<64}  {'#Broker Name':<32}  {'#QID':<4}  {'#Consumer Offset':<20}",
    ]
    lines += [f"{_place(queue, 32)}  {at.commit_offset:<20}" for queue, at in queues]
    head = f"{'#Broker Name':<32}  {'#QID':<4}  {'#ProcessQueueInfo':<20}"
    lines += ["", "", "#Consumer MQ Detail#", f"{'#Topic':<64}  {head}"]
    lines += [f"{_place(queue, 64)}  {_detail(at)}" for queue, at in queues]
    lines += ["", "", "#Consumer Pop Detail#", f"{'#Topic':<32}  {head}"]
    lines += [f"{_place(queue, 32)}  {_pop_detail(at)}" for queue, at in info.mq_pop_table.items()]
    lines += ["", "", "#Consumer RT&TPS#", *_rates(info)]
    lines += ["", "", "#User Consume Info#", *(f"{key:<40}: {value}" for key, value in info.user_consumer_info.items())]
    if info.jstack is not None:
        lines += ["", "", "#Consumer jstack#"]
    stack = "" if info.jstack is None else info.jstack + "\n"
    return "".join(as_line(line) + "\n" for line in lines) + stack


def _subscriptions(info: ConsumerRunningInfo) -> list[str]:
    wanted = sorted(info.subscription_set, key=lambda each: each.topic)
    return [
        f"{number:03} Topic: {one.topic:<40} ClassFilter: {truth(one.class_filter_mode):<8} "
        f"SubExpression: {one.sub_string}"
        for number, one in enumerate(wanted, 1)
    ]


def _place(queue: MessageQueue, width: int) -> str:
    return f"{queue.topic:<{width}}  {queue.broker_name:<32}  {queue.queue_id:<4}"


def _detail(at: ProcessQueueInfo) -> str:
    return (
        f"ProcessQueueInfo [commitOffset={at.commit_offset}, cachedMsgMinOffset={at.cached_msg_min_offset}, "
        f"cachedMsgMaxOffset={at.cached_msg_max_offset}, cachedMsgCount={at.cached_msg_count}, "
        f"cachedMsgSizeInMiB={at.cached_msg_size_in_mib}, transactionMsgMinOffset={at.transaction_msg_min_offset}, "
        f"transactionMsgMaxOffset={at.transaction_msg_max_offset}, transactionMsgCount={at.transaction_msg_count}, "
        f"locked={truth(at.locked)}, tryUnlockTimes={at.try_unlock_times}, "
        f"lastLockTimestamp={_stamp(at.last_lock_timestamp)}, droped={truth(at.droped)}, "
        f"lastPullTimestamp={_stamp(at.last_pull_timestamp)}, lastConsumeTimestamp={_stamp(at.last_consume_timestamp)}]"
    )


def _pop_detail(at: PopProcessQueueInfo) -> str:
    return (
        f"PopProcessQueueInfo [waitAckCount:{at.wait_ack_count}, droped:{truth(at.droped)}, "
        f"lastPopTimestamp:{at.last_pop_timestamp}]"
    )


def _stamp(ms: int) -> str:
    return local_time(ms, "%Y%m%d%H%M%S", "%03d")


def _rates(info: ConsumerRunningInfo) -> list[str]:
    head = ("#Pull RT", "#Pull TPS", "#Consume RT", "#ConsumeOK TPS")
    lines = [
        f"{'#Topic':<64}  {head[0]:>14} {head[1]:>14} {head[2]:>14} {head[3]:>14} {'#ConsumeFailed TPS':>18} "
        f"{'#ConsumeFailedMsgsInHour':>25}"
    ]
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
