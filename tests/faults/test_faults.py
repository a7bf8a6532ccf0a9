"""Real faults under load: three machines that are network namespaces, a broker and a member of etcd on each.

A short run here, and two of all kinds that are marked slow. `python -m tests.faults.campaign` runs as long as wanted.
"""

from __future__ import annotations

from random import Random

import pytest

from tests.faults.hosts import require_hosts
from tests.faults.kinds import FAULTS
from tests.faults.run import FLUSHED, Finished, Plan, carry_out

SHORT = ("kill-master", "etcd-kill-all", "mute-master", "pause-master", "power-master")


def break_one_by_one(plan: Plan) -> Finished:
    """Carry out the run: no acked message is lost, no order broken, nothing twice that was sent once."""
    require_hosts()
    found = carry_out(plan)
    assert found.verdict.broken == []
    assert found.verdict.acked > 100
    return found


def test_no_acked_message_is_lost_and_no_order_broken() -> None:
    found = break_one_by_one(Plan(1, SHORT, length_s=3.5))
    events = {event["fault"]: event for event in found.events}
    assert events.keys() == set(SHORT)
    before, after = events["kill-master"]["epochs"]
    assert before < after
    # Etcd may be away while the set is whole: sends go on, and nobody else leads.
    before, after = events["etcd-kill-all"]["epochs"]
    assert before == after
    assert events["etcd-kill-all"]["acked"] > 0


@pytest.mark.slow
def test_all_kinds_of_faults_of_a_set_that_acks_after_the_flush() -> None:
    names = list(FAULTS)
    Random(1).shuffle(names)
    break_one_by_one(Plan(1, names, settings=FLUSHED))


@pytest.mark.slow
def test_all_kinds_of_faults_that_leave_a_copy() -> None:
    names = [name for name, kind in FAULTS.items() if not kind.needs_flush]
    Random(2).shuffle(names)
    break_one_by_one(Plan(2, names))
