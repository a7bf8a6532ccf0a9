"""Real faults under load, a short run: three machines that are network namespaces, a broker and a member of etcd each.

`python -m tests.faults.campaign` runs all kinds, for as long as wanted.
"""

from __future__ import annotations

from tests.faults.hosts import require_hosts
from tests.faults.run import Plan, carry_out


def test_no_acked_message_is_lost_and_no_order_broken() -> None:
    require_hosts()
    found = carry_out(Plan(1, ["kill-master"]))
    assert found.verdict.broken == []
    assert found.verdict.acked > 100
