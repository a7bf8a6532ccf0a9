"""All checks of a set-up in a row: what `pyromq doctor` prints and the dashboard shows. Reads only.

Each check is a function of its own in a module *_checks.py beside this one.
"""

from __future__ import annotations

from ...client.errors import Refused
from ...model.codes import ResponseCode
from .capture_checks import captures
from .certificate_checks import certificates
from .checked import BROKEN, GRANT, RIGHTS, CheckedCluster, CheckResult
from .endpoint_checks import endpoints
from .mode_checks import request_modes
from .order_checks import fifo_groups, order_configs
from .replica_checks import followers, replicas
from .server_checks import brokers, clocks, disks, loopback, name_servers, permissions, readiness
from .topic_checks import consumers, routes, transactions

_REACH = (name_servers, brokers, loopback, certificates)
_SERVERS = (*_REACH, readiness, endpoints, followers, replicas, clocks, disks, permissions)
CHECKS = (*_SERVERS, routes, order_configs, transactions, consumers, request_modes, fifo_groups, captures)


async def examine(checked: CheckedCluster) -> list[CheckResult]:
    """Run the checks in order, up to one after which nothing further can be checked. What a server refuses to tell
    this user is a finding of its own."""
    found: list[CheckResult] = []
    for check in CHECKS:
        try:
            async for one in check(checked):
                found.append(one)
                if one.ends_it:
                    return found
        except Refused as fault:
            if fault.code != ResponseCode.NO_PERMISSION:
                raise
            what = check.__name__.replace("_", " ")
            found.append(CheckResult(what, BROKEN, f"could not be checked: {fault}", RIGHTS, GRANT))
    return found
