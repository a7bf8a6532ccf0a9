"""Who is in sync, what is confirmed, and that one slave has one vote: as tables of cases."""

from __future__ import annotations

from typing import Any

import pytest

from pyromq.broker.replication.leading.confirm import SlaveReport, SyncStanding, judge
from pyromq.broker.replication.settings import BrokerRole, ReplicationSettings

END, NOW = 1_000, 100.0
AUTO = {"enable_auto_in_sync_replicas": True}


def settings(**changed: Any) -> ReplicationSettings:
    given: dict[str, Any] = {"broker_role": BrokerRole.SYNC_MASTER, "ha_max_gap_not_in_sync": 500}
    return ReplicationSettings(**given | changed)


def slave(acked: int, host: str = "10.0.0.1", heard: float = NOW) -> SlaveReport:
    return SlaveReport(host, acked, heard)


@pytest.mark.parametrize(
    ("reports", "members", "changed", "expected"),
    [
        ([], [], {}, SyncStanding(1, 0, 0, 0)),
        ([slave(1_000)], [], {}, SyncStanding(1, 1, 0, 1_000)),
        ([slave(501)], [], {}, SyncStanding(1, 1, 0, 501)),
        ([slave(500)], [], {}, SyncStanding(1, 0, 0, 500)),  # too far behind
        ([slave(1_000, heard=NOW - 19.9)], [], {}, SyncStanding(1, 1, 0, 1_000)),
        ([slave(1_000, heard=NOW - 20)], [], {}, SyncStanding(1, 0, 0, 1_000)),  # silent
        ([slave(900), slave(950)], [], {}, SyncStanding(1, 1, 0, 950)),  # two connections, one slave
        ([slave(900), slave(950)], ["10.0.0.1"], {}, SyncStanding(1, 1, 0, 950)),
        ([slave(900), slave(950)], ["10.0.0.1", "10.0.0.1"], {}, SyncStanding(1, 2, 0, 950)),  # two slaves of one host
        ([slave(900), slave(950)], [], {"in_sync_replicas": 3}, SyncStanding(2, 1, 0, 0)),
        ([slave(900), slave(950, "10.0.0.2")], [], {"in_sync_replicas": 3}, SyncStanding(2, 2, 0, 900)),
        (
            [slave(900), slave(950, "10.0.0.2"), slave(800, "10.0.0.3")],
            [],
            {"in_sync_replicas": 3, "min_in_sync_replicas": 3},
            SyncStanding(2, 3, 2, 900),
        ),
        ([], [], AUTO, SyncStanding(0, 0, 0, 0)),
        ([slave(900)], [], AUTO, SyncStanding(1, 1, 0, 900)),
        ([slave(900)], [], AUTO | {"in_sync_replicas": 3}, SyncStanding(1, 1, 0, 900)),
        ([], [], AUTO | {"in_sync_replicas": 3, "min_in_sync_replicas": 2}, SyncStanding(1, 0, 1, 0)),
        ([slave(900)], [], {"in_sync_replicas": 1}, SyncStanding(0, 1, 0, 0)),
        ([slave(900)], [], {"broker_role": BrokerRole.ASYNC_MASTER}, SyncStanding(0, 1, 0, 0)),
    ],
)
def test_standings(
    reports: list[SlaveReport], members: list[str], changed: dict[str, Any], expected: SyncStanding
) -> None:
    assert judge(reports, members, END, NOW, settings(**changed)) == expected


def test_what_is_short_and_what_is_refused() -> None:
    assert SyncStanding(1, 0, 0).is_short
    assert not SyncStanding(1, 0, 0).refuses
    assert SyncStanding(2, 1, 2).refuses
    assert not SyncStanding(1, 1, 1).is_short
    assert not SyncStanding().is_short
