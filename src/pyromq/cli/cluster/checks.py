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
from ...model.codes import RequestCode
from ...model.foreign_text import shell_word
from ...model.topic import Perm
from ...model.wire_text import decimal_number, whole_number
from ...protocol.bodies.body import decode_body
from ...protocol.bodies.route import ClusterInfo, TopicRouteData
from ...protocol.bodies.topics import TopicConfig
from ...transport.address import host_of
from ..terminal.tree import closest

GOOD, WARNING, BROKEN = "good", "warning", "broken"

SKEW_S = 5.0  # between our clock and a broker's: its own runtime is told in whole seconds
DISK_FULL, DISK_TIGHT = 0.9, 0.75
STUCK_S = 600  # the oldest message that waits is older, and nothing is consumed


@dataclass(frozen=True, slots=True)
class Finding:
    """`ends_it`: nothing further can be looked at."""

    check: str
    state: str
    text: str
    cure: str = ""
    ends_it: bool = False

    def as_row(self) -> dict[str, Any]:
        return {"check": self.check, "state": self.state, "text": self.text, "cure": self.cure}


@dataclass(slots=True)
class Patient:
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


Check = Callable[[Patient], AsyncIterator[Finding]]


async def examine(patient: Patient) -> list[Finding]:
    found: list[Finding] = []
    for check in CHECKS:
        async for one in check(patient):
            found.append(one)
            if one.ends_it:
                return found
    return found


# --- name servers and brokers -----------------------------------------------------------------------------------------


async def name_servers(patient: Patient) -> AsyncIterator[Finding]:
    known: dict[str, frozenset[str]] = {}
    is_explained = False
    addresses = patient.calls.session.config.name_servers
    for address in addresses:
        try:
            answer = await patient.calls.broker(address, RequestCode.GET_BROKER_CLUSTER_INFO)
        except Error as fault:
            cure = _told(fault) or "Start it (pyromq namesrv), mend the address, or take it out of the list"
            is_explained |= bool(_told(fault))
            what = str(fault).removesuffix(fault.hint).rstrip(". ")  # its hint is for brokers, or the cure
            yield Finding("name server", BROKEN, f"{address} does not answer: {what}", cure)
            continue
        table = decode_body(ClusterInfo, answer.body or b"{}").broker_addr_table
        known[address] = frozenset(one for data in table.values() for one in data.broker_addrs.values())
        yield Finding("name server", GOOD, f"{address} answers and knows {len(known[address])} brokers")
    if not known:
        cure = "Is one running? Start all by: pyromq up. Name another by -n, --profile or PYROMQ_NAMESRV"
        yield Finding("name server", BROKEN, "none answers", "See above" if is_explained else cure, ends_it=True)
    elif len(set(known.values())) > 1:
        text = "; ".join(f"{address} knows {', '.join(sorted(each)) or 'none'}" for address, each in known.items())
        cure = "Give every broker the whole list (namesrvAddr): clients see what the one tells them that they ask"
        yield Finding("name servers agree", BROKEN, text, cure)


def _told(fault: Exception) -> str:
    """The fault's own hint, where the way the connection ended told what is wrong: TLS."""
    return fault.hint if isinstance(fault, Unreachable) and fault.is_explained else ""


async def brokers(patient: Patient) -> AsyncIterator[Finding]:
    patient.brokers = await cluster.brokers(patient.calls)
    if not patient.brokers:
        cure = "Start one with this name server: pyromq broker -n ..., and read its log for 'not registered'"
        yield Finding("brokers", BROKEN, "no broker is registered", cure, ends_it=True)
        return
    for place in patient.brokers:
        try:
            patient.reached[place.address] = await cluster.runtime(patient.calls, place.address)
        except CallFailed as fault:
            cure = "Clients get this address from the name server: set brokerIP1 (--advertise) to one they can reach"
            told = _told(fault)
            what = str(fault).removesuffix(told).rstrip(". ") if told else str(fault)
            yield Finding("advertised address", BROKEN, f"{place.name} at {place.address}: {what}", told or cure)
            continue
        yield Finding("advertised address", GOOD, f"{place.name} answers at {place.address}")
    for name in sorted({place.name for place in patient.brokers}):
        if not any(place.is_master for place in patient.brokers if place.name == name):
            yield Finding(
                "master", BROKEN, f"{name} has slaves, and no master", "Start its master: nothing can be written"
            )
    if not patient.reached:
        yield Finding("brokers", BROKEN, "no broker can be reached", "See above", ends_it=True)


async def loopback(patient: Patient) -> AsyncIterator[Finding]:
    """A broker that advertises 127.0.0.1 can be used from its own machine alone."""
    if all(_is_loopback(address) for address in patient.calls.session.config.name_servers):
        return
    for place in patient.brokers:
        if _is_loopback(place.address):
            cure = "Set brokerIP1 (--advertise) to the address of its machine"
            yield Finding("advertised address", WARNING, f"{place.name} tells clients {place.address}", cure)


def _is_loopback(address: str) -> bool:
    host = host_of(address).strip("[]")
    return host == "localhost" or host.startswith("127.") or host == "::1"


async def readiness(patient: Patient) -> AsyncIterator[Finding]:
    """Ours alone: which kernel serves, and whether it says itself that it is well."""
    for place in patient.masters:
        try:
            told = patient.inspected[place.address] = await cluster.inspect(patient.calls, place.address)
        except Refused:
            yield Finding("kernel", GOOD, f"{place.name} is Apache's, version {_version(patient, place)}")
            continue
        yield _kernel(place, told)
        if told.get("quarantined"):
            text = f"{place.name} has put aside {told['quarantined']} records that it could not handle"
            cure = (
                f"pyromq inspect -b {place.address} shows them with the reasons; pyromq store quarantine, docs/store.md"
            )
            yield Finding("quarantine", WARNING, text, cure)
        if told.get("loopFaults"):
            text = f"loops of {place.name} have died and begun again: {', '.join(sorted(told['loopFaults']))}"
            yield Finding("loops", WARNING, text, f"pyromq inspect -b {place.address}, and its log; report it")
        if not told.get("ready"):
            text = f"{place.name} is not ready: {'; '.join(map(str, told.get('troubles') or ['it does not say why']))}"
            yield Finding("ready", BROKEN, text, f"See pyromq inspect -b {place.address}, and its log")


def _kernel(place: BrokerPlace, told: dict[str, Any]) -> Finding:
    kernel = told.get("kernel", "unknown")
    text = f"{place.name} is served by the {kernel} kernel"
    if kernel == "native":
        return Finding("kernel", GOOD, text)
    if told.get("kernelForced"):  # brokers before this one do not say it
        return Finding("kernel", GOOD, f"{text}, as its PYROMQ_KERNEL wants it")
    return Finding("kernel", WARNING, text, "The compiled one is quicker: make native (docs/kernel.md)")


def _version(patient: Patient, place: BrokerPlace) -> str:
    return patient.reached[place.address].get("brokerVersionDesc", "unknown")


async def clocks(patient: Patient) -> AsyncIterator[Finding]:
    """Timers, retries and searches by time go by the broker's clock."""
    now_ms = patient.calls.session.clock.now_ms()
    for place in patient.masters:
        its_ms = broker_now_ms(patient.reached[place.address])
        if its_ms is None:
            continue
        skew = (its_ms - now_ms) / 1000
        if abs(skew) > SKEW_S:
            text = f"{place.name} is {abs(skew):.0f} s {'ahead of' if skew > 0 else 'behind'} this machine"
            yield Finding(
                "clock", WARNING, text, "Run NTP (chrony) on both: timers and searches by time are off by that"
            )
        else:
            yield Finding("clock", GOOD, f"{place.name} and this machine agree within {SKEW_S:.0f} s")


_SPAN = re.compile(r"(\d+) days, (\d+) hours, (\d+) minutes, (\d+) seconds")


def broker_now_ms(told: dict[str, str]) -> int | None:
    """When it started and how long it runs are all that RocketMQ's brokers tell of their clock."""
    spans, booted = _SPAN.search(told.get("runtime", "")), whole_number(told.get("bootTimestamp"))
    if spans is None or booted is None:
        return None
    days, hours, minutes, seconds = (whole_number(each) or 0 for each in spans.groups())
    return booted + 1000 * (seconds + 60 * (minutes + 60 * (hours + 24 * days)))


async def disks(patient: Patient) -> AsyncIterator[Finding]:
    for place in patient.masters:
        used = decimal_number(patient.reached[place.address].get("commitLogDiskRatio"))
        if used is None:
            continue
        what = f"the disk of {place.name} is {used:.0%} full"
        if used >= DISK_FULL:
            cure = "Sends are refused soon or already: free space, add disk, lower fileReservedTime"
            yield Finding("disk", BROKEN, what, cure)
        elif used >= DISK_TIGHT:
            yield Finding("disk", WARNING, what, "Old files go before their time from here on: free space, add disk")
        else:
            yield Finding("disk", GOOD, what)


async def permissions(patient: Patient) -> AsyncIterator[Finding]:
    for place in patient.masters:
        found = await settings.of_broker(patient.calls, place.address)
        bits = found.get("brokerPermission", "6")
        if (whole_number(bits) or 0) & 6 != 6:
            patient.closed.add(place.name)
            cure = f"pyromq broker config set brokerPermission 6 -b {shell_word(place.name)}"
            yield Finding("permission", BROKEN, f"{place.name} has brokerPermission {bits}", cure)


# --- topics and groups ------------------------------------------------------------------------------------------------


async def routes(patient: Patient) -> AsyncIterator[Finding]:
    for place in patient.masters:
        patient.configs[place.name] = await topics.configs(patient.calls, place.address)
    own = {word for place in patient.brokers for word in (place.name, place.cluster)}  # topics of the brokers' own
    known = {
        name for each in patient.configs.values() for name in each if not topics.is_internal(name) and name not in own
    }
    if patient.topic is not None and patient.topic not in known:
        cure = f"Make it: pyromq topic create {patient.topic}.{closest(patient.topic, known)}"
        yield Finding("topic", BROKEN, f"no broker has topic {patient.topic!r}", cure)
        return
    wanted = sorted(known) if patient.topic is None else [patient.topic]
    bad = 0
    async for one in _drained(patient, wanted):
        bad += 1
        yield one
    for name in wanted:
        async for one in _route(patient, name):
            bad += 1
            yield one
    if not bad:
        is_one = len({place.cluster for place in patient.masters}) < 2
        where = f"on all {len(patient.configs)} brokers" if is_one else "on all brokers of their clusters"
        yield Finding("topics", GOOD, f"{len(wanted)} topics have routes, {where}")


async def _drained(patient: Patient, wanted: list[str]) -> AsyncIterator[Finding]:
    """Brokers whose topics may be written by their own settings, and not by what the name server tells producers."""
    kept: dict[str, set[str]] = {place.name: set() for place in patient.masters}
    for name in wanted:
        route = patient.routes[name] = await topics.route(patient.calls, name)
        for part in [] if route is None else route.queue_datas:
            config = patient.configs.get(part.broker_name, {}).get(name)
            if config is not None and config.perm & Perm.WRITE and not part.perm & Perm.WRITE:
                kept[part.broker_name].add(name)
    drained = {broker: each for broker, each in kept.items() if each and broker not in patient.closed}
    is_all = len(drained) == len(patient.masters)
    for broker, each in drained.items():
        text = f"{broker} is drained: the name server tells producers not to write to {len(each)} of its topics"
        cure = f"If nobody takes it down just now: pyromq broker drain {shell_word(broker)} --undo --yes"
        yield Finding("permission", BROKEN if is_all else WARNING, text, cure)


async def _spread(patient: Patient, name: str, having: set[str]) -> AsyncIterator[Finding]:
    """Within a cluster that has the topic: of others nobody expects it."""
    clusters: dict[str, set[str]] = {}
    for place in patient.masters:
        clusters.setdefault(place.cluster, set()).add(place.name)
    cure = "If one fails, nothing can be sent: pyromq topic create it on the others (-b), or leave it so on purpose"
    for cluster_name, members in sorted(clusters.items()):
        here = sorted(members & having)
        if here and len(here) < len(members):
            where = f" of {cluster_name}" if len(clusters) > 1 else ""
            text = f"{name} is on {len(here)} of {len(members)} brokers{where} ({', '.join(here)})"
            yield Finding("topic", WARNING, text, cure)


async def _route(patient: Patient, name: str) -> AsyncIterator[Finding]:
    having = sorted(broker for broker, each in patient.configs.items() if name in each)
    async for one in _spread(patient, name, set(having)):
        yield one
    if patient.routes[name] is None:
        cure = "The broker tells it within 30 s of a change; if it stays so, see its log for registrations that fail"
        yield Finding("route", BROKEN, f"the name server has no route of {name}", cure)
    for broker in having:
        bits = patient.configs[broker][name].perm & 6
        if bits != 6:
            words = {0: "neither read nor written", 2: "written, not read", 4: "read, not written"}[bits]
            cure = f"If that is not meant: pyromq topic perm {shell_word(name)} rw -b {shell_word(broker)}"
            yield Finding("permission", WARNING, f"{name} on {broker} can be {words}", cure)
        config = patient.configs[broker][name]
        if config.read_queue_nums < config.write_queue_nums:
            text = (
                f"{name} on {broker} has {config.write_queue_nums} queues to write and {config.read_queue_nums} to read"
            )
            cure = (
                f"Nobody reads the rest: pyromq topic update {shell_word(name)} "
                f"--read-queues {config.write_queue_nums} -b {shell_word(broker)}"
            )
            yield Finding("queues", BROKEN, text, cure)


async def consumers(patient: Patient) -> AsyncIterator[Finding]:
    known: set[str] = set()
    for place in patient.masters:
        known |= (await groups.configs(patient.calls, place.address)).keys()
    if patient.group is not None and patient.group not in known:
        cure = f"It is made by its first consumer, or by: pyromq group create.{closest(patient.group, known)}"
        yield Finding("group", BROKEN, f"no broker has group {patient.group!r}", cure)
        return
    wanted = sorted(name for name in known if not groups.is_internal(name))
    bad = 0
    for name in wanted if patient.group is None else [patient.group]:
        async for one in _group(patient, name):
            bad += 1
            yield one
    if not bad:
        yield Finding("groups", GOOD, f"{len(wanted)} groups: no conflict, none stuck")


async def _group(patient: Patient, name: str) -> AsyncIterator[Finding]:
    for place in patient.masters:
        online = await groups.connections(patient.calls, place.address, name)
        for text in await _conflicts(patient, place, name):
            cure = "All members of a group must subscribe to the same: else messages are lost to some. Mend or split it"
            yield Finding("subscriptions", BROKEN, f"{name} on {place.name}: {text}", cure)
        progress = await offsets.progress(patient.calls, place.address, name)
        for topic in sorted({queue.topic for queue in progress.offset_table}):
            async for one in _stuck(patient, place, name, topic, online is not None):
                yield one


async def _conflicts(patient: Patient, place: BrokerPlace, name: str) -> list[str]:
    """Our broker tells them. Of Apache's, each member is asked what it wants, which they do not keep apart."""
    if place.address in patient.inspected:
        told: list[str] = patient.inspected[place.address].get("conflicts", [])
        return [text for text in told if text.startswith(f"group {name},")]
    online = await groups.connections(patient.calls, place.address, name)
    wants: dict[str, str] = {}
    for one in [] if online is None else online.connection_set:
        try:
            info = await groups.running_info(patient.calls, place.address, name, one.client_id)
        except (Refused, CallFailed):
            continue
        pairs = sorted(f"{each.topic} {each.sub_string}" for each in info.subscription_set)
        wants[one.client_id] = ", ".join(pair for pair in pairs if not pair.startswith(names.RETRY_PREFIX))
    if len(set(wants.values())) < 2:
        return []
    return ["; ".join(f"{client} wants {text}" for client, text in wants.items())]


async def _stuck(
    patient: Patient, place: BrokerPlace, name: str, topic: str, is_online: bool
) -> AsyncIterator[Finding]:
    """Something waits for long, and nothing is consumed."""
    progress = await offsets.progress(patient.calls, place.address, name, topic)
    behind = {queue.queue_id: one for queue, one in progress.offset_table.items() if one.lag}
    if not behind or progress.consume_tps > 0:
        return
    spans = await offsets.time_spans(patient.calls, place.address, name, topic)
    waits_s = {one.message_queue.queue_id: one.delay_time / 1000 for one in spans if one.message_queue is not None}
    old = {queue: waits_s.get(queue, 0.0) for queue in behind if waits_s.get(queue, 0.0) > STUCK_S}
    if not old:
        return
    queue = max(old, key=lambda one: old[one])
    waiting = f"{progress.lag} messages of {topic} on {place.name} wait, the oldest for {old[queue] / 60:.0f} min"
    if not is_online:
        cure = f"Start a consumer, or drop them: pyromq group skip {shell_word(name)} {shell_word(topic)}"
        yield Finding("lag", WARNING, f"{name} has no member online; {waiting}", cure)
        return
    cure = (
        f"See what its members do with offset {behind[queue].consumer_offset} of queue {queue}; skip that one: "
        f"pyromq group skip {shell_word(name)} {shell_word(topic)} -b {shell_word(place.name)} --queue {queue} "
        "--messages 1"
    )
    yield Finding("stuck", BROKEN, f"{name} has members online and does not move; {waiting}", cure)


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
