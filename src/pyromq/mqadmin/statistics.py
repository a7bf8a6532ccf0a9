"""How much goes in and out, by topic and group; and a watch over all groups."""

from __future__ import annotations

from ..admin import groups, topics, upkeep
from ..client.errors import Error
from ..model.names import DLQ_PREFIX, RETRY_PREFIX
from ..protocol.bodies.stats import BrokerStatsData
from . import places, running_info
from .command import Failed, Run, command
from .options import flag, may
from .printing import cut
from .progress import members_of, progress_of

LINE = "{:<64}  {:<64} {:>12} {:>11} {:>11} {:>14} {:>14}"
PUT, GET = "TOPIC_PUT_NUMS", "GROUP_GET_NUMS"
ROUND_S = 60.0


def of_a_day(found: BrokerStatsData) -> int:
    """What was counted in a day; younger counters have only an hour or a minute."""
    return found.stats_day.sum or found.stats_hour.sum or found.stats_minute.sum


async def _counted(run: Run, name: str, key: str, addresses: list[str]) -> tuple[float, int]:
    """Messages per second and of a day, over all brokers."""
    rate, count = 0.0, 0
    for address in addresses:
        found = await upkeep.counter(run.calls, address, name, key)
        if found is not None:
            rate, count = rate + found.stats_minute.tps, count + of_a_day(found)
    return rate, count


@command(
    "statsAll",
    "Messages in and out of topics, by consumer group",
    flag("a", "activeTopic", "only those with traffic"),
    may("t", "topic", "only this topic"),
)
async def stats_all(run: Run) -> None:
    head = ("#Topic", "#Consumer Group", "#Accumulation", "#InTPS", "#OutTPS", "#InMsg24Hour", "#OutMsg24Hour")
    run.say(LINE.format(*head))
    for topic in await topics.names(run.calls):
        if topic.startswith((RETRY_PREFIX, DLQ_PREFIX)) or run.get("t", topic) != topic:
            continue
        try:
            await _topic(run, topic)
        except (Error, Failed) as fault:
            run.warn(f"{topic}: {fault}")


async def _topic(run: Run, topic: str) -> None:
    addresses = [address for _, address in await places.brokers_of(run, topic)]
    consumers: set[str] = set()
    for address in addresses:
        consumers.update(await topics.groups(run.calls, address, topic))
    rate_in, day_in = await _counted(run, PUT, topic, addresses)
    for group in sorted(consumers):
        rate_out, day_out = await _counted(run, GET, f"{topic}@{group}", addresses)
        if "a" not in run or day_in or day_out:
            rates = (f"{rate_in:.2f}", f"{rate_out:.2f}", day_in, day_out)
            run.say(LINE.format(cut(topic, 64), cut(group, 64), await _lag(run, group, topic), *rates))
    if not consumers and ("a" not in run or day_in):
        run.say(LINE.format(cut(topic, 64), "", 0, f"{rate_in:.2f}", "", day_in, "NO_CONSUMER"))


async def _lag(run: Run, group: str, topic: str) -> int:
    try:
        stats = await progress_of(run, group, topic)
    except (Error, Failed):  # it has no retry topic: a group of the system
        return 0
    return max(0, sum(of.broker_offset - of.consumer_offset for of in stats.offset_table.values()))


@command("startMonitoring", "Watch all groups that are online, every minute: backlogs, members that disagree or hang")
async def start_monitoring(run: Run) -> None:
    while True:
        await watch(run)
        await run.clock.sleep(ROUND_S)


async def watch(run: Run) -> None:
    """One round."""
    for topic in await topics.names(run.calls):
        if topic.startswith(RETRY_PREFIX):
            try:
                await _watch_group(run, topic.removeprefix(RETRY_PREFIX))
            except (Error, Failed) as fault:
                run.warn(f"{topic.removeprefix(RETRY_PREFIX)}: {fault}")


async def _watch_group(run: Run, group: str) -> None:
    addresses = [address for _, address in await places.brokers_of_group(run, group)]
    members = await members_of(run, group, addresses)
    if members is None:
        return
    stats = await progress_of(run, group)
    for topic in sorted({queue.topic for queue in stats.offset_table}):
        of = [at for queue, at in stats.offset_table.items() if queue.topic == topic]
        lags = [at.broker_offset - at.consumer_offset for at in of]
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
    verdict = running_info.verdict(infos, run.clock.now_ms()).strip() if infos else ""
    if verdict != running_info.GOOD.strip():
        run.say(f"reportConsumerRunningInfo: {group}: {verdict}")
