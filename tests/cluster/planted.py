"""Bugs that storms over whole clusters must find: each is a member of the product's that breaks one rule.

`tests/simulation/planted.py` has the rules one by one; these show that what the storms look at can fail.
"""

from __future__ import annotations

from pyromq.broker.elected.mastership import Mastership
from pyromq.broker.elected.seams import FollowedStream
from pyromq.broker.election.acting_set import ActingSet
from pyromq.broker.election.joining import LogCut
from tests.cluster.machines import MachineMember


class ConfirmsAlone(MachineMember):
    """What a master has appended counts, whoever else has it."""

    class Alone(Mastership):
        class Acting(ActingSet):
            def _advance(self) -> None:
                self.confirmed = max(self.confirmed, self._own)

        acting_set = Acting

    mastership = Alone


class KeepsItsEnd(MachineMember):
    """A log that has an end which the master's lacks is not cut."""

    def cut_for(self, stream: FollowedStream) -> LogCut | None:
        found = super().cut_for(stream)
        return None if found is None else found._replace(position=max(found.position, self.life.end))


BUGS: dict[str, type[MachineMember]] = {each.__name__: each for each in (ConfirmsAlone, KeepsItsEnd)}
