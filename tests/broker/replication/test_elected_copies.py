"""What sends of an elected set's master wait for: confirmed, late and yet not readable, refused, given up."""

from __future__ import annotations

from pyromq.broker.intake.intake import Intake, Outcome
from pyromq.broker.replication.leading.elected_copies import ElectedCopies
from pyromq.kernel import state
from pyromq.model.codes import ResponseCode
from pyromq.testing.clock import ManualClock
from pyromq.testing.simulated_disk import SimulatedDisk
from tests.broker.replication.elected_pair import ActingLead, reopened
from tests.store.small import bodies, message

WAIT_S = 3.0


class Master:
    """A master's store, its gate, and the way into its log."""

    def __init__(self, members: tuple[int, ...] = (1, 2), minimum: int = 2) -> None:
        self.clock = ManualClock()
        self.store = reopened(SimulatedDisk(), clock=self.clock)
        self.lead = ActingLead(1, 1, members, 0, 0, minimum)
        self.copies = ElectedCopies(self.store, self.lead, minimum)
        self.intake = Intake(self.store, self.clock, waits=True, gate=state.Gate(), status=self.copies.status)
        self.outcomes: list[Outcome] = []

    async def put(self, body: str, wait_s: float = WAIT_S) -> None:
        self.intake.put(message(body), self.outcomes.append, wait_s)
        await self.clock.settle()

    def report(self, position: int | None = None) -> None:
        self.lead.begin_stream(2)
        self.lead.note_report(2, self.store.commit_log.end if position is None else position)


async def test_a_send_is_answered_once_every_member_has_it() -> None:
    master = Master()
    await master.put("one")
    assert master.outcomes == []
    master.report()
    await master.clock.settle()
    assert [outcome.late for outcome in master.outcomes] == [None]
    assert bodies(master.store) == [b"one"]


async def test_what_is_late_is_said_so_and_does_not_become_readable_by_that() -> None:
    master = Master()
    await master.put("one")
    await master.clock.advance(WAIT_S + 0.1)
    assert [outcome.late for outcome in master.outcomes] == [ResponseCode.FLUSH_SLAVE_TIMEOUT]
    assert bodies(master.store) == []
    master.report()
    assert bodies(master.store) == [b"one"]


async def test_who_does_not_want_to_wait_is_answered_at_once() -> None:
    master = Master()
    await master.put("one", wait_s=0.0)
    assert [outcome.late for outcome in master.outcomes] == [None]
    assert bodies(master.store) == []


async def test_a_report_of_a_part_answers_a_part() -> None:
    master = Master()
    await master.put("one")
    first = master.store.commit_log.end
    await master.put("two")
    master.report(first)
    await master.clock.settle()
    assert len(master.outcomes) == 1
    assert bodies(master.store) == [b"one"]
    assert master.copies.status(first) == ResponseCode.SUCCESS
    assert master.copies.status(first + 1) == ResponseCode.FLUSH_SLAVE_TIMEOUT


def test_a_set_below_its_minimum_refuses_and_says_when_that_changes() -> None:
    master = Master(members=(1,), minimum=2)
    changes: list[bool] = []
    master.copies.on_change.append(lambda: changes.append(master.copies.are_too_few))
    assert master.copies.are_too_few
    assert master.copies.standing.refuses
    acting = master.lead.acting
    master.report()
    acting.propose(frozenset({1, 2}))
    master.copies.judge()
    assert changes == []  # it has to acknowledge now, but the store does not have it yet
    acting.settle(acting.state.with_set((1, 2), 0))
    master.copies.judge()
    master.copies.judge()
    assert (changes, master.copies.are_too_few, master.copies.standing.refuses) == ([False], False, False)


async def test_a_deposed_master_answers_nobody_and_stores_nothing_more() -> None:
    master = Master()
    cut: list[bool] = []
    master.copies.on_give_up.append(lambda: cut.append(master.copies.are_too_few))
    await master.put("one")
    master.copies.give_up()
    master.copies.give_up()
    assert cut == [True]  # once, and nothing is taken any more by then
    master.report()
    await master.clock.settle()
    assert master.outcomes == []
    assert bodies(master.store) == []
