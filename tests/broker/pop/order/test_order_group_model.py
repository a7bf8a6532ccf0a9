"""Order by message group against a small model: random pops, acks, changes and times over messages of three groups.

What must hold: no message group is with two pops at a time; of a group nothing is given before an earlier message that
is open; what is acked never comes again; the position is the first message that is not acked.
"""

from __future__ import annotations

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from pyromq.broker.pop.order.block import Block
from pyromq.broker.pop.order.message_groups import Choice, ack_one, change_one

END = 30
times = st.integers(0, 30)


class GroupModel(RuleBasedStateMachine):
    @initialize(keys=st.lists(st.sampled_from("ABC"), min_size=END, max_size=END))
    def begin(self, keys: list[str]) -> None:
        self.keys = keys
        self.now = 1_000
        self.block: Block | None = None
        self.open: dict[int, tuple[str | None, int, int]] = {}  # offset -> attempt, pop time, visible at
        self.acked: set[int] = set()
        self.given: list[tuple[int, int]] = []  # receipts: pop time and offset

    @property
    def position(self) -> int:
        return next((offset for offset in range(END) if offset not in self.acked), END)

    @rule(attempt=st.sampled_from(["a", "b", None]), count=st.integers(1, 6), invisible=times)
    def pop(self, attempt: str | None, count: int, invisible: int) -> None:
        self.now += 1
        held = {
            self.keys[offset]
            for offset, (holder, _, visible_at) in self.open.items()
            if visible_at > self.now and (attempt is None or holder != attempt)
        }
        choice = Choice(self.block, self.position, attempt, self.now)
        for offset in range(self.position, END):
            if len(choice.given) < count:
                choice.offer(offset, self.keys[offset])
        expected = [at for at in range(self.position, END) if at not in self.acked and self.keys[at] not in held]
        assert choice.given == expected[:count]
        if not choice.given:
            return
        self.block = choice.block(self.now, invisible, self.now)
        for offset in choice.given:
            self.open[offset] = attempt, self.now, self.now + invisible
            self.given.append((self.now, offset))

    @rule(data=st.data())
    def ack(self, data: st.DataObject) -> None:
        if self.block is None:
            return
        pop_time, offset = data.draw(st.sampled_from(self.given))
        is_current = offset in self.open and self.open[offset][1] == pop_time
        assert ack_one(self.block, pop_time, offset) is is_current
        if is_current:
            del self.open[offset]
            self.acked.add(offset)

    @rule(data=st.data(), invisible=times)
    def change(self, data: st.DataObject, invisible: int) -> None:
        if self.block is None:
            return
        pop_time, offset = data.draw(st.sampled_from(self.given))
        is_current = offset in self.open and self.open[offset][1] == pop_time
        assert change_one(self.block, pop_time, offset, self.now + invisible) is is_current
        if is_current:
            self.open[offset] = *self.open[offset][:2], self.now + invisible

    @rule(passed=times)
    def wait(self, passed: int) -> None:
        self.now += passed

    @rule()
    def restart(self) -> None:
        self.block = msgspec.msgpack.decode(msgspec.msgpack.encode(self.block), type=Block | None)

    @invariant()
    def is_where_the_model_is(self) -> None:
        if getattr(self, "block", None) is None or self.block is None:
            return
        assert self.block.position == self.position
        assert self.block.groups.keys() == self.open.keys()
        assert {offset for offset in self.acked if offset > self.position} == set(self.block.settled)


GroupModel.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestGroups = GroupModel.TestCase
