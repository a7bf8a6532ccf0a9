"""Checks of `pyromq doctor` that concern replicas: slaves that are behind, too few in sync, controllers, etcd."""

from __future__ import annotations

from collections.abc import AsyncIterator

from ...admin.replicas import CONTROLLED, ELECTED, SetReport
from ...ambient import SystemClock
from ...coordination.etcd import EtcdCoordination
from ...errors import PyroError
from ...model.foreign_text import shell_word
from ...model.wire_text import whole_number
from ...text.values import size
from ..cluster.elected_sets import etcd_of
from ..cluster.set_reports import set_reports
from .checked import BROKEN, GOOD, WARNING, CheckedCluster, CheckResult

FAR_BEHIND = 256 << 20  # bytes: Java's haMaxGapNotInSync


async def replicas(checked: CheckedCluster) -> AsyncIterator[CheckResult]:
    """Look at every broker name that has more than one replica, or whose master is elected."""
    etcds: set[str] = set()
    for found in await set_reports(checked.calls):
        if len(found.replicas) == 1 and found.kind not in (CONTROLLED, ELECTED):
            continue
        for one in _lags(found):
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
