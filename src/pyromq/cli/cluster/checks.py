"""What `pyromq doctor` looks at: each check gives findings with a text and, where something is wrong, a cure.

Needs no code of the server: all is asked over the wire, so that it sees what a client sees.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

from ...admin import cluster, groups, offsets, settings, topics
from ...admin.calls import Calls
from ...admin.cluster import BrokerPlace
from ...client.errors import Error, Refused, Unreachable
from ...errors import CallFailed
from ...model import names
from ...model.foreign_text import shell_word
from ...model.topic import Perm
from ...model.wire_text import decimal_number, whole_number
from ...protocol.bodies.route import TopicRouteData
from ...protocol.bodies.topics import TopicConfig
from ...protocol.headers.stats import QueryConsumeTimeSpan
from ...protocol.requests import RequestCode
from ...transport.address import host_of
from ..terminal.tree import closest

GOOD, WARNING, BROKEN = "good", "warning", "broken"

SKEW_S = 5.0  # between our clock and a broker's: its own runtime is told in whole seconds
DISK_FULL, DISK_TIGHT = 0.9, 0.75
STUCK_S = 600  # the oldest message that waits is older, and nothing is consumed


@dataclass(frozen=True, slots=True)
class CheckResult:
    """`ends_it`: nothing further can be looked at."""

    check: str
    state: str
    text: str
    cure: str = ""
    ends_it: bool = False

    def as_row(self) -> dict[str, Any]:
        return {"check": self.check, "state": self.state, "text": self.text, "cure": self.cure}


@dataclass(slots=True)
class CheckedCluster:
    """What is looked at, and what was learned so far."""

    calls: Calls
    topic: str | None = None
    group: str | None = None
    brokers: list[BrokerPlace] = field(default_factory=list)
    reached: dict[str, dict[str, str]] = field(default_factory=dict)  # by address: what it tells of itself
    inspected: dict[str, dict[str, Any]] = field(default_factory=dict)  # those of ours
    closed: set[str] = field(default_factory=set)  # names of brokers that their own setting keeps from being used
    configs: dict[str, dict[str, TopicConfig]] = field(default_factory=dict)  # by broker name: its topics
    routes: dict[str, TopicRouteData | None] = field(default_factory=dict)  # by topic: what the name server tells

    @property
    def masters(self) -> list[BrokerPlace]:
        return [place for place in self.brokers if place.is_master and place.address in self.reached]


Check = Callable[[CheckedCluster], AsyncIterator[CheckResult]]


async def examine(checked: CheckedCluster) -> list[CheckResult]:
    found: list[CheckResult] = []
    for check in CHECKS:
        async for one in check(checked):
            found.append(one)
            if one.ends_it:
                return found
    return found


# --- name servers and brokers -----------------------------------------------------------------------------------------


async def name_servers(checked: CheckedCluster) -> AsyncIterator[CheckResult]:
    known: dict[str, frozenset[str]] = {}
    is_explained = False
    addresses = checked.calls.session.config.name_servers
    for address in addresses:
        try:
            answer = await checked.calls.ask(address, RequestCode.GET_BROKER_CLUSTER_INFO)
        except Error as fault:
            cure = _own_hint(fault) or "Start it (pyromq namesrv), mend the address, or take it out of the list"
            is_explained |= bool(_own_hint(fault))
            what = str(fault).removesuffix(fault.hint).rstrip(". ")  # its hint is for brokers, or the cure
            yield CheckResult("name server", BROKEN, f"{address} does not answer: {what}", cure)
            continue
        table = answer.body.broker_addr_table
        known[address] = frozenset(one for data in table.values() for one in data.broker_addrs.values())
        yield CheckResult("name server", GOOD, f"{address} answers and knows {len(known[address])} brokers")
    if not known:
        cure = "Is one running? Start all by: pyromq up. Name another by -n, --profile or PYROMQ_NAMESRV"
        yield CheckResult("name server", BROKEN, "none answers", "See above" if is_explained else cure, ends_it=True)
    elif len(set(known.values())) > 1:
        text = "; ".join(f"{address} knows {', '.join(sorted(each)) or 'none'}" for address, each in known.items())
        cure = "Give every broker the whole list (namesrvAddr): clients see what the one tells them that they ask"
        yield CheckResult("name servers agree", BROKEN, text, cure)


def _own_hint(fault: Exception) -> str:
    """Return the fault's own hint where the way the connection ended shows what is wrong (TLS), else nothing."""
    return fault.hint if isinstance(fault, Unreachable) and fault.is_explained else ""


async def brokers(checked: CheckedCluster) -> AsyncIterator[CheckResult]:
    checked.brokers = await cluster.brokers(checked.calls)
    if not checked.brokers:
        cure = "Start one with this name server: pyromq broker -n ..., and read its log for 'not registered'"
        yield CheckResult("brokers", BROKEN, "no broker is registered", cure, ends_it=True)
        return
    for place in checked.brokers:
        try:
            checked.reached[place.address] = await cluster.runtime(checked.calls, place.address)
        except CallFailed as fault:
            cure = "Clients get this address from the name server: set brokerIP1 (--advertise) to one they can reach"
            hint = _own_hint(fault)
            what = str(fault).removesuffix(hint).rstrip(". ") if hint else str(fault)
            yield CheckResult("advertised address", BROKEN, f"{place.name} at {place.address}: {what}", hint or cure)
            continue
        yield CheckResult("advertised address", GOOD, f"{place.name} answers at {place.address}")
    for name in sorted({place.name for place in checked.brokers}):
        if not any(place.is_master for place in checked.brokers if place.name == name):
            yield CheckResult(
                "master", BROKEN, f"{name} has slaves, and no master", "Start its master: nothing can be written"
            )
    if not checked.reached:
        yield CheckResult("brokers", BROKEN, "no broker can be reached", "See above", ends_it=True)


async def loopback(checked: CheckedCluster) -> AsyncIterator[CheckResult]:
    """Find brokers that advertise 127.0.0.1: they can be used from their own machine alone."""
    if all(_is_loopback(address) for address in checked.calls.session.config.name_servers):
        return
    for place in checked.brokers:
        if _is_loopback(place.address):
            cure = "Set brokerIP1 (--advertise) to the address of its machine"
            yield CheckResult("advertised address", WARNING, f"{place.name} tells clients {place.address}", cure)


def _is_loopback(address: str) -> bool:
    host = host_of(address).strip("[]")
    return host == "localhost" or host.startswith("127.") or host == "::1"


async def readiness(checked: CheckedCluster) -> AsyncIterator[CheckResult]:
    """Ask our own brokers which kernel serves, and whether they are ready."""
    for place in checked.masters:
        try:
            answer = checked.inspected[place.address] = await cluster.inspect(checked.calls, place.address)
        except Refused:
            yield CheckResult("kernel", GOOD, f"{place.name} is Apache's, version {_version(checked, place)}")
            continue
        yield _kernel(place, answer)
        if answer.get("quarantined"):
            text = f"{place.name} has put aside {answer['quarantined']} records that it could not handle"
            cure = (
                f"pyromq inspect -b {place.address} shows them with the reasons; pyromq store quarantine, docs/store.md"
            )
            yield CheckResult("quarantine", WARNING, text, cure)
        if answer.get("loopFaults"):
            text = f"loops of {place.name} have died and begun again: {', '.join(sorted(answer['loopFaults']))}"
            yield CheckResult("loops", WARNING, text, f"pyromq inspect -b {place.address}, and its log; report it")
        if not answer.get("ready"):
            text = (
                f"{place.name} is not ready: {'; '.join(map(str, answer.get('troubles') or ['it does not say why']))}"
            )
            yield CheckResult("ready", BROKEN, text, f"See pyromq inspect -b {place.address}, and its log")


def _kernel(place: BrokerPlace, answer: dict[str, Any]) -> CheckResult:
    kernel = answer.get("kernel", "unknown")
    text = f"{place.name} is served by the {kernel} kernel"
    if kernel == "native":
        return CheckResult("kernel", GOOD, text)
    if answer.get("kernelForced"):  # brokers before this one do not say it
        return CheckResult("kernel", GOOD, f"{text}, as its PYROMQ_KERNEL wants it")
    return CheckResult("kernel", WARNING, text, "The compiled one is quicker: make native (docs/kernel.md)")


def _version(checked: CheckedCluster, place: BrokerPlace) -> str:
    return checked.reached[place.address].get("brokerVersionDesc", "unknown")


async def clocks(checked: CheckedCluster) -> AsyncIterator[CheckResult]:
    """Compare clocks: timers, retries and searches by time go by the broker's."""
    now_ms = checked.calls.session.clock.now_ms()
    for place in checked.masters:
        its_ms = broker_now_ms(checked.reached[place.address])
        if its_ms is None:
            continue
        skew = (its_ms - now_ms) / 1000
        if abs(skew) > SKEW_S:
            text = f"{place.name} is {abs(skew):.0f} s {'ahead of' if skew > 0 else 'behind'} this machine"
            yield CheckResult(
                "clock", WARNING, text, "Run NTP (chrony) on both: timers and searches by time are off by that"
            )
        else:
            yield CheckResult("clock", GOOD, f"{place.name} and this machine agree within {SKEW_S:.0f} s")


_SPAN = re.compile(r"(\d+) days, (\d+) hours, (\d+) minutes, (\d+) seconds")


def broker_now_ms(answer: dict[str, str]) -> int | None:
    """Return the broker's time, from its start and how long it runs: RocketMQ's brokers say no more of their clock."""
    spans, booted = _SPAN.search(answer.get("runtime", "")), whole_number(answer.get("bootTimestamp"))
    if spans is None or booted is None:
        return None
    days, hours, minutes, seconds = (whole_number(each) or 0 for each in spans.groups())
    return booted + 1000 * (seconds + 60 * (minutes + 60 * (hours + 24 * days)))


async def disks(checked: CheckedCluster) -> AsyncIterator[CheckResult]:
    for place in checked.masters:
        used = decimal_number(checked.reached[place.address].get("commitLogDiskRatio"))
        if used is None:
            continue
        what = f"the disk of {place.name} is {used:.0%} full"
        if used >= DISK_FULL:
            cure = "Sends are refused soon or already: free space, add disk, lower fileReservedTime"
            yield CheckResult("disk", BROKEN, what, cure)
        elif used >= DISK_TIGHT:
            yield CheckResult(
                "disk", WARNING, what, "Old files go before their time from here on: free space, add disk"
            )
        else:
            yield CheckResult("disk", GOOD, what)


async def permissions(checked: CheckedCluster) -> AsyncIterator[CheckResult]:
    for place in checked.masters:
        found = await settings.of_broker(checked.calls, place.address)
        bits = found.get("brokerPermission", "6")
        if (whole_number(bits) or 0) & 6 != 6:
            checked.closed.add(place.name)
            cure = f"pyromq broker config set brokerPermission 6 -b {shell_word(place.name)}"
            yield CheckResult("permission", BROKEN, f"{place.name} has brokerPermission {bits}", cure)


# --- topics and groups ------------------------------------------------------------------------------------------------


async def routes(checked: CheckedCluster) -> AsyncIterator[CheckResult]:
    for place in checked.masters:
        checked.configs[place.name] = await topics.configs(checked.calls, place.address)
    own = {word for place in checked.brokers for word in (place.name, place.cluster)}  # topics of the brokers' own
    known = {
        name for each in checked.configs.values() for name in each if not topics.is_internal(name) and name not in own
    }
    if checked.topic is not None and checked.topic not in known:
        cure = f"Make it: pyromq topic create {checked.topic}.{closest(checked.topic, known)}"
        yield CheckResult("topic", BROKEN, f"no broker has topic {checked.topic!r}", cure)
        return
    wanted = sorted(known) if checked.topic is None else [checked.topic]
    bad = 0
    async for one in _drained(checked, wanted):
        bad += 1
        yield one
    for name in wanted:
        async for one in _route(checked, name):
            bad += 1
            yield one
    if not bad:
        is_one = len({place.cluster for place in checked.masters}) < 2
        where = f"on all {len(checked.configs)} brokers" if is_one else "on all brokers of their clusters"
        yield CheckResult("topics", GOOD, f"{len(wanted)} topics have routes, {where}")


async def _drained(checked: CheckedCluster, wanted: list[str]) -> AsyncIterator[CheckResult]:
    """Find brokers that the name server keeps producers from, although their own topics may be written."""
    kept: dict[str, set[str]] = {place.name: set() for place in checked.masters}
    for name in wanted:
        route = checked.routes[name] = await topics.route(checked.calls, name)
        for part in [] if route is None else route.queue_datas:
            config = checked.configs.get(part.broker_name, {}).get(name)
            if config is not None and config.perm & Perm.WRITE and not part.perm & Perm.WRITE:
                kept[part.broker_name].add(name)
    drained = {broker: each for broker, each in kept.items() if each and broker not in checked.closed}
    is_all = len(drained) == len(checked.masters)
    for broker, each in drained.items():
        text = f"{broker} is drained: the name server tells producers not to write to {len(each)} of its topics"
        cure = f"If nobody takes it down just now: pyromq broker drain {shell_word(broker)} --undo --yes"
        yield CheckResult("permission", BROKEN if is_all else WARNING, text, cure)


async def _partly_placed(checked: CheckedCluster, name: str, having: set[str]) -> AsyncIterator[CheckResult]:
    """Find a topic that is on some brokers of a cluster and not on its others."""
    clusters: dict[str, set[str]] = {}
    for place in checked.masters:
        clusters.setdefault(place.cluster, set()).add(place.name)
    cure = "If one fails, nothing can be sent: pyromq topic create it on the others (-b), or leave it so on purpose"
    for cluster_name, members in sorted(clusters.items()):
        here = sorted(members & having)
        if here and len(here) < len(members):
            where = f" of {cluster_name}" if len(clusters) > 1 else ""
            text = f"{name} is on {len(here)} of {len(members)} brokers{where} ({', '.join(here)})"
            yield CheckResult("topic", WARNING, text, cure)


async def _route(checked: CheckedCluster, name: str) -> AsyncIterator[CheckResult]:
    having = sorted(broker for broker, each in checked.configs.items() if name in each)
    async for one in _partly_placed(checked, name, set(having)):
        yield one
    if checked.routes[name] is None:
        cure = "The broker tells it within 30 s of a change; if it stays so, see its log for registrations that fail"
        yield CheckResult("route", BROKEN, f"the name server has no route of {name}", cure)
    for broker in having:
        bits = checked.configs[broker][name].perm & 6
        if bits != 6:
            words = {0: "neither read nor written", 2: "written, not read", 4: "read, not written"}[bits]
            cure = f"If that is not meant: pyromq topic perm {shell_word(name)} rw -b {shell_word(broker)}"
            yield CheckResult("permission", WARNING, f"{name} on {broker} can be {words}", cure)
        config = checked.configs[broker][name]
        if config.read_queue_nums < config.write_queue_nums:
            text = (
                f"{name} on {broker} has {config.write_queue_nums} queues to write and {config.read_queue_nums} to read"
            )
            cure = (
                f"Nobody reads the rest: pyromq topic update {shell_word(name)} "
                f"--read-queues {config.write_queue_nums} -b {shell_word(broker)}"
            )
            yield CheckResult("queues", BROKEN, text, cure)


async def consumers(checked: CheckedCluster) -> AsyncIterator[CheckResult]:
    known: set[str] = set()
    for place in checked.masters:
        known |= (await groups.configs(checked.calls, place.address)).keys()
    if checked.group is not None and checked.group not in known:
        cure = f"It is made by its first consumer, or by: pyromq group create.{closest(checked.group, known)}"
        yield CheckResult("group", BROKEN, f"no broker has group {checked.group!r}", cure)
        return
    wanted = sorted(name for name in known if not groups.is_internal(name))
    bad = 0
    for name in wanted if checked.group is None else [checked.group]:
        async for one in _group(checked, name):
            bad += 1
            yield one
    if not bad:
        yield CheckResult("groups", GOOD, f"{len(wanted)} groups: no conflict, none stuck")


async def _group(checked: CheckedCluster, name: str) -> AsyncIterator[CheckResult]:
    for place in checked.masters:
        online = await groups.connections(checked.calls, place.address, name)
        for text in await _conflicts(checked, place, name):
            cure = "All members of a group must subscribe to the same: else messages are lost to some. Mend or split it"
            yield CheckResult("subscriptions", BROKEN, f"{name} on {place.name}: {text}", cure)
        progress = await offsets.progress(checked.calls, place.address, name)
        for topic in sorted({queue.topic for queue in progress.offset_table}):
            async for one in _stuck(checked, place, name, topic, online is not None):
                yield one


async def _conflicts(checked: CheckedCluster, place: BrokerPlace, name: str) -> list[str]:
    """Return where members want different things. Our broker says so; of Apache's, each member is asked."""
    if place.address in checked.inspected:
        conflicts: list[str] = checked.inspected[place.address].get("conflicts", [])
        return [text for text in conflicts if text.startswith(f"group {name},")]
    online = await groups.connections(checked.calls, place.address, name)
    wants: dict[str, str] = {}
    for one in [] if online is None else online.connection_set:
        try:
            info = await groups.running_info(checked.calls, place.address, name, one.client_id)
        except (Refused, CallFailed):
            continue
        pairs = sorted(f"{each.topic} {each.sub_string}" for each in info.subscription_set)
        wants[one.client_id] = ", ".join(pair for pair in pairs if not pair.startswith(names.RETRY_PREFIX))
    if len(set(wants.values())) < 2:
        return []
    return ["; ".join(f"{client} wants {text}" for client, text in wants.items())]


async def _stuck(
    checked: CheckedCluster, place: BrokerPlace, name: str, topic: str, is_online: bool
) -> AsyncIterator[CheckResult]:
    """Find messages that wait for long while nothing is consumed."""
    progress = await offsets.progress(checked.calls, place.address, name, topic)
    behind = {queue.queue_id: one for queue, one in progress.offset_table.items() if one.lag}
    if not behind or progress.consume_tps > 0:
        return
    wanted = QueryConsumeTimeSpan(topic=topic, group=name)
    spans = (await checked.calls.ask(place.address, RequestCode.QUERY_CONSUME_TIME_SPAN, wanted)).body
    waits_s = {
        one.message_queue.queue_id: one.delay_time / 1000
        for one in spans.consume_time_span_set
        if one.message_queue is not None
    }
    old = {queue: waits_s.get(queue, 0.0) for queue in behind if waits_s.get(queue, 0.0) > STUCK_S}
    if not old:
        return
    queue = max(old, key=lambda one: old[one])
    waiting = f"{progress.lag} messages of {topic} on {place.name} wait, the oldest for {old[queue] / 60:.0f} min"
    if not is_online:
        cure = f"Start a consumer, or drop them: pyromq group skip {shell_word(name)} {shell_word(topic)}"
        yield CheckResult("lag", WARNING, f"{name} has no member online; {waiting}", cure)
        return
    cure = (
        f"See what its members do with offset {behind[queue].consumer_offset} of queue {queue}; skip that one: "
        f"pyromq group skip {shell_word(name)} {shell_word(topic)} -b {shell_word(place.name)} --queue {queue} "
        "--messages 1"
    )
    yield CheckResult("stuck", BROKEN, f"{name} has members online and does not move; {waiting}", cure)


CHECKS: tuple[Check, ...] = (
    name_servers,
    brokers,
    loopback,
    readiness,
    clocks,
    disks,
    permissions,
    routes,
    consumers,
)
