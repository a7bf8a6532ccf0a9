"""How much goes in and out, by topic and group; and a watch over all groups."""

from __future__ import annotations

from ...admin import groups, topics, traffic
from ...client.errors import Error
from ...model.names import DLQ_PREFIX, RETRY_PREFIX
from .. import lookup
from ..command import Failed, Run, command
from ..options import flag, may
from ..printing import Columns, cut
from . import running_info
from .progress import members_of, progress_of

LINE = Columns(
    "{#Topic:<64}  {#Consumer Group:<64} {#Accumulation:>12} {#InTPS:>11} {#OutTPS:>11} "
    "{#InMsg24Hour:>14} {#OutMsg24Hour:>14}"
)
ROUND_S = 60.0


@command(
    "Messages in and out of topics, by consumer group",
    flag("a", "activeTopic", "only those with traffic"),
    may("t", "topic", "only this topic"),
)
async def stats_all(run: Run) -> None:
    run.say(LINE.head)
    for topic in await topics.names(run.calls):
        if topic.startswith((RETRY_PREFIX, DLQ_PREFIX)) or run.get("t", topic) != topic:
            continue
        try:
            await _topic(run, topic)
        except (Error, Failed) as fault:
            run.warn(f"{topic}: {fault}")


async def _topic(run: Run, topic: str) -> None:
    addresses = [address for _, address in await lookup.brokers_of(run, topic)]
    consumers: set[str] = set()
    for address in addresses:
        consumers.update(await topics.groups(run.calls, address, topic))
    into = await traffic.into_topic(run.calls, addresses, topic)
    for group in sorted(consumers):
        out = await traffic.to_group(run.calls, addresses, topic, group)
        if "a" not in run or into.of_day or out.of_day:
            rates = (f"{into.per_second:.2f}", f"{out.per_second:.2f}", into.of_day, out.of_day)
            run.say(LINE.format(cut(topic, 64), cut(group, 64), await _lag(run, group, topic), *rates))
    if not consumers and ("a" not in run or into.of_day):
        run.say(LINE.format(cut(topic, 64), "", 0, f"{into.per_second:.2f}", "", into.of_day, "NO_CONSUMER"))


async def _lag(run: Run, group: str, topic: str) -> int:
    try:
        stats = await progress_of(run, group, topic)
    except (Error, Failed):  # it has no retry topic: a group of the system
        return 0
    return max(0, stats.difference)


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
    addresses = [address for _, address in await lookup.brokers_of_group(run, group)]
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
    verdict = running_info.verdict(infos, run.clock.now_ms()).strip() if infos else ""
    if verdict != running_info.GOOD.strip():
        run.say(f"reportConsumerRunningInfo: {group}: {verdict}")
