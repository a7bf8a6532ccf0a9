"""What the members of a group subscribe to, and where two of them differ: such a group loses messages.

`consumers.py` calls this with each change. The ledger says what is wrong now, counts it for inspection, runtime
information and metrics, and logs each conflict once when it begins and once when it ends.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice

from ... import logs
from ...model.filters.canonical import canonical
from ...model.group import ConsumeFromWhere, MessageModel
from ...model.names import retry_topic
from ...model.pop_names import is_pop_retry
from ...protocol.bodies.heartbeat import ConsumerData, SubscriptionData
from ...transport.peer import Peer

log = logs.get("pyromq.broker")

_COMPARED = 4  # members whose wishes are looked at for being the same object
_NAMED = 3  # topics that a text names
_LONGEST = 200  # characters of a filter in a text
_MOST_REFUSED = 1_000  # that are kept and logged


@dataclass(slots=True)
class Member:
    """One client in one group. `subscriptions` is what this client itself said; `wishes` the same in one spelling, and
    the same object for members that want the same, so that comparing them is quick."""

    peer: Peer
    client_id: str
    version: int
    seen: float
    subscriptions: dict[str, SubscriptionData] = field(default_factory=dict)
    wishes: dict[str, str] = field(default_factory=dict)
    bytes: int = 0
    from_where: ConsumeFromWhere = ConsumeFromWhere.LAST_OFFSET
    message_model: MessageModel = MessageModel.CLUSTERING
    is_doubtful: bool = False  # it had left, and one heartbeat has named it since


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two members of a group that want different things, of which `client` came second."""

    group: str
    client: str
    address: str
    wants: str
    other_client: str
    other_address: str
    other_wants: str

    def __str__(self) -> str:
        return (
            f"group {self.group}: {self.client} ({self.address}) subscribes to {self.wants}; "
            f"{self.other_client} ({self.other_address}), which was there first, to {self.other_wants}"
        )


class GroupsByTopic:
    """Event loop only. The groups that subscribe to a topic: each of their members counts."""

    def __init__(self) -> None:
        self._members: dict[str, Counter[str]] = {}  # by topic: the number of members of each group

    def find(self, topic: str) -> list[str]:
        return sorted(self._members.get(topic, ()))

    def move(self, group: str, before: Collection[str], now: Collection[str]) -> None:
        """Note that a member of the group subscribes to other topics than before."""
        for topic in now:
            self._members.setdefault(topic, Counter())[group] += 1
        for topic in before:
            groups = self._members[topic]
            groups[group] -= 1
            if not groups[group]:
                del groups[group]
            if not groups:
                del self._members[topic]


def wishes(data: ConsumerData) -> dict[str, str]:
    """Return each topic with its filter in one spelling, and marked where each member gets all: a member that shares
    the queues would leave it some of them, of which nobody else hears. Without the group's retries: only some kinds of
    clients name those, and of popped messages only while they pull, whatever their users wrote."""
    own = retry_topic(data.group_name)
    way = "(broadcast) " if data.message_model is MessageModel.BROADCASTING else ""
    return {
        one.topic: way + canonical(one.expression_type, one.sub_string)
        for one in data.subscription_data_set
        if one.topic != own and not is_pop_retry(one.topic, data.group_name)
    }


def shared(wanted: dict[str, str], members: Iterable[Member]) -> dict[str, str]:
    """Return an equal subscription of another member, if there is one: members of a group mostly want the same."""
    return next((other.wishes for other in islice(members, _COMPARED) if other.wishes == wanted), wanted)


def first_difference(group: str, member: Member, others: Iterable[Member]) -> Conflict | None:
    """Return how a member differs from the first of the others that does. Who said nothing differs from nobody."""
    mine = member.wishes
    for other in others:
        theirs = other.wishes
        if theirs is mine or not theirs or not mine or other.client_id == member.client_id or theirs == mine:
            continue
        topics = sorted(topic for topic in mine.keys() | theirs.keys() if mine.get(topic) != theirs.get(topic))
        return Conflict(
            group,
            member.client_id,
            member.peer.address,
            _text(mine, topics),
            other.client_id,
            other.peer.address,
            _text(theirs, topics),
        )
    return None


def group_conflict(group: str, members: Iterable[Member]) -> Conflict | None:
    """Return how the members differ: whoever came first is what the others are compared with."""
    said = iter([member for member in members if member.wishes])
    first = next(said, None)
    found = (None if first is None else first_difference(group, other, [first]) for other in said)
    return next((conflict for conflict in found if conflict is not None), None)


def _text(wanted: Mapping[str, str], topics: list[str]) -> str:
    texts = [f"{topic}: {wanted.get(topic, 'nothing')[:_LONGEST]}" for topic in topics[:_NAMED]]
    return ", ".join(texts) + (f" and {len(topics) - _NAMED} topics more" if len(topics) > _NAMED else "")


@dataclass(slots=True, eq=False)
class ConflictLedger:
    """Event loop only. `open`: by group; `refused`: clients that were refused and have not gone, by connection and
    group. `begun` and `refusals` count since the start."""

    open: dict[str, Conflict] = field(default_factory=dict)
    refused: dict[tuple[Peer, str], Conflict] = field(default_factory=dict)
    begun: int = 0
    refusals: int = 0

    def update(self, group: str, conflict: Conflict | None) -> None:
        """Note how the members of a group differ now."""
        before = self.open.get(group)
        if conflict == before:
            return
        if conflict is None:
            del self.open[group]
            log.warning("subscriptions of a group agree again", group=group)
            return
        self.begun += before is None
        self.open[group] = conflict
        log.warning("subscriptions of a group differ, messages are lost to it", conflict=str(conflict))

    def refuse(self, peer: Peer, conflict: Conflict) -> None:
        key = peer, conflict.group
        before = self.refused.get(key)
        if conflict == before or (before is None and len(self.refused) >= _MOST_REFUSED):
            return
        self.refusals += before is None
        self.refused[key] = conflict
        log.warning("consumer refused: it does not subscribe as its group does", conflict=str(conflict))

    def accept(self, peer: Peer, group: str) -> None:
        """Note that a client subscribes as its group does, or no longer wants to be a member."""
        if (conflict := self.refused.pop((peer, group), None)) is not None:
            log.warning("refused consumer has left or subscribes as its group", group=group, client=conflict.client)

    def lose(self, peer: Peer) -> None:
        for one, group in [key for key in self.refused if key[0] is peer]:
            self.accept(one, group)

    def of_group(self, group: str) -> list[str]:
        """Return what is wrong with the group now, a line each, for whoever asks for its status."""
        found = [f"CONFLICT: {self.open[group]}"] if group in self.open else []
        return found + [f"REFUSED: {one}" for (_, name), one in self.refused.items() if name == group]
