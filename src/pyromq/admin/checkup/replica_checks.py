"""Checks of `pyromq doctor` that concern replicas: slaves that are behind, too few in sync, controllers, etcd."""

from __future__ import annotations

from collections.abc import AsyncIterator

from ...ambient import SystemClock
from ...client.errors import Error
from ...coordination.etcd import EtcdCoordination
from ...errors import CallFailed, PyroError
from ...model.foreign_text import shell_word
from ...model.wire_text import whole_number
from ...text.values import size
from .. import cluster
from ..replicas import CONTROLLED, ELECTED, SetReport, reports
from .checked import BROKEN, GOOD, WARNING, CheckedCluster, CheckResult
from .etcd_access import etcd_of

FAR_BEHIND = 256 << 20  # bytes: Java's haMaxGapNotInSync


async def followers(checked: CheckedCluster) -> AsyncIterator[CheckResult]:
    """Ask our own slaves and followers whether they follow; those that do not say why."""
    for place in checked.brokers:
        if place.is_master:
            continue
        try:
            answer = await cluster.inspect(checked.calls, place.address)
        except (CallFailed, Error):
            continue  # of Java's, or away: other checks tell
        if not answer.get("ready"):
            why = "; ".join(map(str, answer.get("troubles") or ["it does not say why"]))
            text = f"replica {place.id} of {place.name} at {place.address} does not follow: {why}"
            command = f"pyromq inspect -b {place.address}"
            yield CheckResult("replica", BROKEN, text, "Mend that; its log has more. How it is now:", command)


async def replicas(checked: CheckedCluster) -> AsyncIterator[CheckResult]:
    """Look at every broker name that has more than one replica, or whose master is elected."""
    etcds: set[str] = set()
    for found in await reports(checked.calls, checked.read_elected):
        if len(found.replicas) == 1 and found.kind not in (CONTROLLED, ELECTED):
            continue
        for one in (*_lags(found), *_gone(found)):
            yield one
        yield _in_sync(found)
        if found.kind == CONTROLLED:
            yield _controller(found)
        etcds.update(each for each in found.settings.get("etcdEndpoints", "").split(";") if each)
    if etcds:
        yield await _etcd(sorted(etcds))


def _lags(found: SetReport) -> list[CheckResult]:
    status = f"pyromq cluster status {shell_word(found.name)}"
    limit = whole_number(found.settings.get("haMaxGapNotInSync")) or FAR_BEHIND
    results = []
    for one in found.replicas:
        if one.role == "master" or one.lag is None:
            continue
        text = f"replica {one.id} of {found.name} at {one.address} is {size(one.lag)} behind its master"
        if one.lag < limit:
            results.append(CheckResult("replica", GOOD, text))
            continue
        rate = f", at {size(one.bytes_per_second)} a second" if one.bytes_per_second else ", and takes nothing now"
        cure = "Is its network or disk slow, or was it away? How it goes on:"
        results.append(CheckResult("replica", WARNING, text + rate, cure, status))
    return results


def _gone(found: SetReport) -> list[CheckResult]:
    """Tell of members that are away: of an elected set, they are there if etcd has a sign of life."""
    results = []
    for one in found.replicas:
        if one.is_alive is not False:
            continue
        text = f"replica {one.id} of {found.name} at {one.address} is away, as etcd has it"
        if one.in_sync:
            cure = "It counts as in sync still. Start it; if its store is lost, start another replica, then forget it:"
        else:
            cure = "Start it; if its store is lost for good, forget it, and its number is free:"
        command = f"pyromq cluster forget {shell_word(found.name)} {one.id} --dry-run"
        results.append(CheckResult("replica", WARNING, text, cure, command))
    return results


def _in_sync(found: SetReport) -> CheckResult:
    known = [one for one in found.replicas if one.in_sync is not None]
    count, least = len(found.in_sync), found.minimum
    text = f"{count} of {len(found.replicas)} replicas of {found.name} are in sync, minInSyncReplicas is {least}"
    if not known:
        cure = "Name it in the brokers' settings, or see whether it runs"
        return CheckResult("in sync", WARNING, f"nobody says who of {found.name} is in sync: {found.trouble}", cure)
    if count < least:
        cure = "Sends are refused until others are back: start them, or see why they do not follow (their log)"
        return CheckResult("in sync", BROKEN, text, cure)
    if count == least and count < len(found.replicas):
        return CheckResult("in sync", WARNING, text, "One more that is lost stops all sends: start the others")
    return CheckResult("in sync", GOOD, text)


def _controller(found: SetReport) -> CheckResult:
    if found.trouble:
        cure = "No master can be elected while no controller leads: start one (pyromq controller), see controllerAddr"
        return CheckResult("controller", BROKEN, f"of {found.name}: {found.trouble}", cure)
    return CheckResult("controller", GOOD, f"{found.leader} leads, and knows {found.name}")


async def _etcd(endpoints: list[str]) -> CheckResult:
    try:
        async with EtcdCoordination(etcd_of(endpoints), SystemClock()) as etcd:
            version = await etcd.check()
    except PyroError as fault:
        cure = "Nobody can be elected without a majority of etcd: see its members, and the user and password of ours"
        return CheckResult("etcd", BROKEN, str(fault), cure)
    return CheckResult("etcd", GOOD, f"{', '.join(endpoints)}: a majority answers, version {version} or newer")
