"""Checks of `pyromq doctor` that concern servers: name servers, addresses, readiness, clocks, disks, permissions.

Needs no code of the server: all is asked over the wire, so that it sees what a client sees.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any

from ...client.errors import Error, Refused, TimedOut, Unreachable
from ...errors import CallFailed
from ...model.codes import ResponseCode
from ...model.foreign_text import shell_word
from ...model.wire_text import decimal_number, whole_number
from ...protocol.requests import RequestCode
from ...transport.address import host_of
from .. import cluster, settings
from ..cluster import BrokerPlace
from .checked import BROKEN, GOOD, GRANT, RIGHTS, WARNING, CheckedCluster, CheckResult

SKEW_S = 5.0  # between our clock and a broker's: its own runtime is in whole seconds
DISK_FULL, DISK_TIGHT = 0.9, 0.75


async def name_servers(checked: CheckedCluster) -> AsyncIterator[CheckResult]:
    known: dict[str, frozenset[str]] = {}
    is_explained = is_refused = False
    addresses = checked.calls.session.config.name_servers
    for address in addresses:
        try:
            answer = await checked.calls.ask(address, RequestCode.GET_BROKER_CLUSTER_INFO)
        except Error as fault:
            if isinstance(fault, Refused) and fault.code == ResponseCode.NO_PERMISSION:
                is_refused = True
                text = f"{address} answers, and refuses to tell this user of the cluster: {fault.remark}"
                yield CheckResult("name server", BROKEN, text, RIGHTS, GRANT)
                continue
            cure = _own_hint(fault) or "Start it (pyromq namesrv), mend the address, or take it out of the list"
            is_explained |= bool(_own_hint(fault))
            what = str(fault).removesuffix(fault.hint).rstrip(". ")  # its hint is for brokers, or the cure
            yield CheckResult("name server", BROKEN, f"{address} does not answer: {what}", cure)
            continue
        table = answer.body.broker_addr_table
        known[address] = frozenset(one for data in table.values() for one in data.broker_addrs.values())
        yield CheckResult("name server", GOOD, f"{address} answers and knows {len(known[address])} brokers")
    if not known and is_refused:
        yield CheckResult("name server", BROKEN, "none tells this user of the cluster", "See above", ends_it=True)
    elif not known:
        cure = "Is one running? Start all by: pyromq up. Name another by -n, --profile or PYROMQ_NAMESRV"
        yield CheckResult("name server", BROKEN, "none answers", "See above" if is_explained else cure, ends_it=True)
    elif len(set(known.values())) > 1:
        text = "; ".join(f"{address} knows {', '.join(sorted(each)) or 'none'}" for address, each in known.items())
        cure = "Give every broker the whole list (namesrvAddr): clients see what the one tells them that they ask"
        yield CheckResult("name servers agree", BROKEN, text, cure)


def _own_hint(fault: Exception) -> str:
    """Return the fault's own hint where the way the connection ended shows what is wrong (TLS), else nothing."""
    return fault.hint if isinstance(fault, Unreachable) and fault.is_explained else ""


_HANGS = (
    "Is it running, or does it hang (stopped, no memory, a dead disk)? See its process and log; if it hangs, restart it"
)
_NOT_REACHED = (
    "Is it running? If so, this machine cannot reach the address that clients get from the name server: set brokerIP1 "
    "(--advertise) to one they can reach"
)


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
            cure = _HANGS if isinstance(fault, TimedOut) else _NOT_REACHED
            hint = _own_hint(fault)
            what = str(fault).removesuffix(hint).rstrip(". ") if hint else str(fault)
            yield CheckResult("advertised address", BROKEN, f"{place.name} at {place.address}: {what}", hint or cure)
            continue
        yield CheckResult("advertised address", GOOD, f"{place.name} answers at {place.address}")
    for name in sorted({place.name for place in checked.brokers}):
        if not any(place.is_master for place in checked.brokers if place.name == name):
            cure = "Start its master: nothing can be written"
            yield CheckResult("master", BROKEN, f"{name} has slaves, and no master", cure)
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
            version = checked.reached[place.address].get("brokerVersionDesc", "unknown")
            yield CheckResult("kernel", GOOD, f"{place.name} is Apache's, version {version}")
            continue
        yield _kernel(place, answer)
        if answer.get("quarantined"):
            text = f"{place.name} has put aside {answer['quarantined']} records that it could not handle"
            cure = "They stay in the log, and may be tried again (pyromq store quarantine). With the reasons:"
            yield CheckResult("quarantine", WARNING, text, cure, f"pyromq inspect -b {place.address}")
        if answer.get("loopFaults"):
            text = f"loops of {place.name} have died and begun again: {', '.join(sorted(answer['loopFaults']))}"
            cure = "See its log, report it, and:"
            yield CheckResult("loops", WARNING, text, cure, f"pyromq inspect -b {place.address}")
        for one in answer.get("mistyped", []):
            yield _mistyped(place, one)
        if not answer.get("ready"):
            why = "; ".join(map(str, answer.get("troubles") or ["it does not say why"]))
            text, command = f"{place.name} is not ready: {why}", f"pyromq inspect -b {place.address}"
            yield CheckResult("ready", BROKEN, text, "See its log, and:", command)


_COMPILED = "The compiled one is quicker. On its machine: make native in a clone, else install gcc, then pyromq anew"


def _mistyped(place: BrokerPlace, one: dict[str, Any]) -> CheckResult:
    done = "refused" if one["refused"] else "stored, as Java's broker does; its proxy refuses such (5.x clients, gRPC)"
    text = f"{one['messages']} {one['given']} messages within a day for {one['topic']} of type {one['takes']}"
    cure = f"Send {one['given']} messages to a topic of that type. One is made by:"
    command = f"pyromq topic create {shell_word(one['topic'] + '-' + one['given'].lower())} --type {one['given']}"
    return CheckResult("message type", WARNING, f"{place.name} got {text}: {done}", cure, command)


def _kernel(place: BrokerPlace, answer: dict[str, Any]) -> CheckResult:
    kernel = answer.get("kernel", "unknown")
    text = f"{place.name} is served by the {kernel} kernel"
    if kernel == "native":
        return CheckResult("kernel", GOOD, text)
    if answer.get("kernelForced"):  # brokers before this one do not say it
        return CheckResult("kernel", GOOD, f"{text}, as its PYROMQ_KERNEL wants it")
    return CheckResult("kernel", WARNING, text, _COMPILED)


async def clocks(checked: CheckedCluster) -> AsyncIterator[CheckResult]:
    """Compare clocks: timers, retries and searches by time go by the broker's."""
    now_ms = checked.calls.session.clock.now_ms()
    for place in (one for one in checked.brokers if one.address in checked.reached):
        its_ms = broker_now_ms(checked.reached[place.address])
        if its_ms is None:
            continue
        skew = (its_ms - now_ms) / 1000
        if abs(skew) > SKEW_S:
            text = f"{_replica(place)} is {abs(skew):.0f} s {'ahead of' if skew > 0 else 'behind'} this machine"
            cure = "Run NTP (chrony) on both: timers and searches by time are off by that"
            yield CheckResult("clock", WARNING, text, cure)
        else:
            yield CheckResult("clock", GOOD, f"{_replica(place)} and this machine agree within {SKEW_S:.0f} s")


def _replica(place: BrokerPlace) -> str:
    return place.name if place.is_master else f"{place.name}, replica {place.id}"


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
            cure = "Sends are refused soon or already: add disk or free space elsewhere on it. The log is messages: a "
            cure += "lower fileReservedTime deletes the oldest for good, consumed or not"
            yield CheckResult("disk", BROKEN, what, cure)
        elif used >= DISK_TIGHT:
            cure = "The oldest messages go before their time from here on: add disk, or free space elsewhere on it"
            yield CheckResult("disk", WARNING, what, cure)
        else:
            yield CheckResult("disk", GOOD, what)


async def permissions(checked: CheckedCluster) -> AsyncIterator[CheckResult]:
    for place in checked.masters:
        found = await settings.of_broker(checked.calls, place.address)
        bits = found.get("brokerPermission", "6")
        if (whole_number(bits) or 0) & 6 != 6:
            checked.closed.add(place.name)
            command = f"pyromq broker config set brokerPermission 6 -b {shell_word(place.name)}"
            text = f"{place.name} has brokerPermission {bits}"
            yield CheckResult("permission", BROKEN, text, "If nobody keeps clients away on purpose:", command)
