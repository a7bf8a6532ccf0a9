"""Clusters at a glance, how quickly their brokers take messages; the name servers' table and settings."""

from __future__ import annotations

from ...admin import cluster, settings
from ...client.errors import Error
from ...protocol.requests import RequestCode
from ..command import Failed, Run, command
from ..messages.send import producer_of
from ..options import INTERVAL
from ..printing import Columns, java, when_s
from .brokers import change_setting, show_settings

HEAD = Columns(
    "{#Cluster Name:<22}  {#Broker Name:<22}  {#BID:<4}  {#Addr:<22} {#Version:<16}  {#InTPS(LOAD):>16}  "
    "{#OutTPS(LOAD):>30}  {#Timer(Progress):<22}  {#PCWait(ms):<11}  {#Hour:<12}  {#SPACE:<8}  {#ACTIVATED:<10}"
).head
LINE = "{:<22}  {:<22}  {:<4}  {:<22} {:<16}  {:>16}  {:>30}  {:<22}  {:>11}  {:<12}  {:<8}  {:>10}"
TOTALS = Columns(
    "{#Cluster Name:<16}  {#Broker Name:<32} {#InTotalYest:>14} {#OutTotalYest:>14} "
    "{#InTotalToday:>14} {#OutTotalToday:>14}"
)
HOUR_MS = 3_600_000


@command("Brokers of all clusters", INTERVAL)
async def cluster_list(run: Run) -> None:
    """[-c clusterName=]  only this cluster
    [-m moreStats]        messages of yesterday and today instead"""
    async for number in run.rounds():
        if number:
            run.say()
        places = await (run.cluster(run["c"]) if "c" in run else cluster.brokers(run.calls))
        await (_more(run, places) if "m" in run else _base(run, places))


async def _runtime(run: Run, address: str) -> dict[str, str]:
    try:
        return await cluster.runtime(run.calls, address)
    except Error as fault:
        run.warn(str(fault))
        return {}


async def _base(run: Run, places: list[cluster.BrokerPlace]) -> None:
    run.say(HEAD)
    for place in places:
        found = await _runtime(run, place.address)
        run.say(LINE.format(place.cluster, place.name, place.id, place.address, *_load(run, found)))


def _load(run: Run, of: dict[str, str]) -> tuple[str, ...]:
    """Return the columns of a broker's line from its version on."""
    send = f"{of.get('sendThreadPoolQueueSize', '')},{of.get('sendThreadPoolQueueHeadWaitTimeMills', '')}ms"
    pull = f"{of.get('pullThreadPoolQueueSize', '')},{of.get('pullThreadPoolQueueHeadWaitTimeMills', '')}ms"
    ack = f"{of.get('ackThreadPoolQueueSize', 'N')},{of.get('ackThreadPoolQueueHeadWaitTimeMills', 'N')}ms"
    rates = f"{number(of, 'timerCongestNum') / 10000:.1f}w, {number(of, 'timerEnqueueTps'):.1f}"
    timer = f"{number(of, 'timerReadBehind'):.0f}-{number(of, 'timerOffsetBehind'):.0f}"
    earliest = number(of, "earliestMessageTimeStamp")
    hours = (run.clock.now_ms() - earliest) / HOUR_MS if of.get("earliestMessageTimeStamp") else 0.0
    return (
        of.get("brokerVersionDesc", ""),
        f"{number(of, 'putTps'):9.2f}({send})",
        f"{number(of, 'getTransferredTps'):9.2f}({pull}|{ack})",
        f"{timer}({rates}, {number(of, 'timerDequeueTps'):.1f})",
        of.get("pageCacheLockTimeMills", ""),
        f"{hours:2.2f}",
        f"{number(of, 'commitLogDiskRatio'):.4f}",
        java(of.get("brokerActive") == "true"),
    )


def number(of: dict[str, str], key: str) -> float:
    """Return a number of a broker's, the first of several; 0 where the broker says none."""
    return cluster.first_number(of, key) or 0.0


async def _more(run: Run, places: list[cluster.BrokerPlace]) -> None:
    run.say(TOTALS.head)
    for place in places:
        of = await _runtime(run, place.address)
        counts = [
            int(number(of, f"msg{way}Total{until}") - number(of, f"msg{way}Total{since}"))
            for until, since in (("TodayMorning", "YesterdayMorning"), ("TodayNow", "TodayMorning"))
            for way in ("Put", "Get")
        ]
        run.say(TOTALS.format(place.cluster, place.name, *counts))


@command("How long brokers take to store a message, again and again")
async def cluster_rt(run: Run) -> None:
    """[-a amount=]     messages a round, default 100
    [-c cluster=]       only this cluster
    [-i interval=]      seconds between rounds, default 10
    [-m machine room=]  a name for this place, with -p
    [-p print log=]     true: lines for a log file
    [-s size=]          bytes of a message, default 128"""
    amount, as_log = run.number("a", 100), run.truth("p")
    body = b"a" * run.number("s", 128)
    if not as_log:
        head = ("#Cluster Name", "#Broker Name", "#RT", "#successCount", "#failCount")
        run.say("{:<24}  {:<24}  {:<4}  {:<8}  {:<8}".format(*head))
    while True:
        found = await cluster.info(run.calls)
        if "c" in run and run["c"] not in found.cluster_addr_table:
            raise Failed(f"cluster [{run['c']}] not exist")
        for name, members in found.cluster_addr_table.items():
            for broker in sorted(members) if run.get("c", name) == name else ():
                good, mean = await _round_trips(run, broker, body, amount)
                line = (name, broker, f"{mean:.2f}", good, amount - good)
                shown = f"{when_s(run.clock.now_ms())}|{run.get('m', 'noname')}|{name}|{broker}|{round(mean)}"
                run.say(shown if as_log else "{:<24}  {:<24}  {:<8}  {:<16}  {:<16}".format(*line))
        await run.clock.sleep(run.number("i", 10))


async def _round_trips(run: Run, broker: str, body: bytes, amount: int) -> tuple[int, float]:
    """Return how many were stored, and the mean of all but the first in ms. Each broker has a topic of its own name."""
    good, elapsed = 0, 0.0
    async with producer_of(run) as producer:
        for number in range(amount):
            began = run.clock.monotonic()
            try:
                await producer.send(broker, body)
                good += 1
            except Error as fault:
                run.warn(str(fault))
            if number:  # the first one looks up the route
                elapsed += (run.clock.monotonic() - began) * 1000
    return good, elapsed / max(1, amount - 1)


NAMESPACE = "-s namespace=  namespace of the key"
KEY = "-k key=  the key"
VALUE = "-v value=  its value"
BROKER_NAME = "-b brokerName=  name of the broker"


@command("Set a key of the name servers", KEY, NAMESPACE, VALUE)
async def update_kv_config(run: Run) -> None:
    await settings.kv_put(run.calls, run["s"], run["k"], run["v"])
    run.say("create or update kv config to namespace success.")


@command("Delete a key of the name servers", KEY, NAMESPACE)
async def delete_kv_config(run: Run) -> None:
    await settings.kv_delete(run.calls, run["s"], run["k"])
    run.say("delete kv config from namespace success.")


@command("Let nobody write to a broker any more: name servers tell clients so", BROKER_NAME)
async def wipe_write_perm(run: Run) -> None:
    await _change_perm(run, "wipe")


@command("Let clients write to a broker again", BROKER_NAME)
async def add_write_perm(run: Run) -> None:
    await _change_perm(run, "add")


async def _change_perm(run: Run, verb: str) -> None:
    faults = []
    for address in run.name_servers:
        place = f"{verb} write perm of broker[{run['b']}] in name server[{address}]"
        try:
            count = await cluster.let_be_written(run.calls, address, run["b"], may=verb == "add")
            run.say(f"{place} OK, {count}")
        except Error as fault:
            run.say(f"{place} Failed")
            faults.append(str(fault))
    if faults:
        raise Failed("; ".join(faults))


@command("Settings of the name servers")
async def get_namesrv_config(run: Run) -> None:
    await show_settings(run, run.name_servers, RequestCode.GET_NAMESRV_CONFIG)


@command("Change a setting of the name servers", KEY, VALUE)
async def update_namesrv_config(run: Run) -> None:
    await change_setting(run, "name server", run.name_servers, RequestCode.UPDATE_NAMESRV_CONFIG)
