"""Who consumes: groups, their members, and what they subscribe to. Pure: what is to be told to whom is returned.

Heartbeats and closed connections come in through `handlers.py`; pulls ask for subscriptions. A client that is gone
leaves nothing behind: what a group subscribes to is what its members said last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import takewhile

from ...model.group import ConsumeFromWhere, ConsumeType, MessageModel
from ...protocol.bodies.heartbeat import ConsumerData, SubscriptionData
from ...transport.peer import Peer
from ..metadata.config_table import Watched
from .memberships import Memberships
from .subscriptions import (
    Conflict,
    ConflictLedger,
    GroupsByTopic,
    Member,
    first_difference,
    group_conflict,
    shared,
    wishes,
)

# Estimates of what Python's objects take besides their texts: of one client in one group, of a subscription, of a tag.
_MEMBER_BYTES, _SUBSCRIPTION_BYTES, _TAG_BYTES = 700, 600, 70
_MOST_LEFT = 64  # of a connection: a heartbeat that was under way comes at once


@dataclass(slots=True)
class ConsumerGroup:
    """The members of a group and what they agree on; where they differ, the newest subscription counts, as in Java."""

    name: str
    consume_type: ConsumeType = ConsumeType.PASSIVELY
    message_model: MessageModel = MessageModel.CLUSTERING
    from_where: ConsumeFromWhere = ConsumeFromWhere.LAST_OFFSET
    members: dict[Peer, Member] = field(default_factory=dict)
    subscriptions: dict[str, SubscriptionData] = field(default_factory=dict)
    fingerprint: int = 0

    @property
    def client_ids(self) -> list[str]:
        """Return each client id once.

        Java's clients may lose sight of a connection after the broker was away and open another, and heartbeats have
        come over both: told of itself twice, a client takes half of the queues and nobody the rest.
        """
        return list(dict.fromkeys(member.client_id for member in self.members.values()))


@dataclass(frozen=True, slots=True)
class Notice:
    """Tell these that the members of their group have changed (request 40)."""

    group: str
    peers: tuple[Peer, ...]


@dataclass(frozen=True, slots=True)
class HeartbeatEffect:
    """What a heartbeat changed."""

    changed: bool = False
    notice: Notice | None = None
    wants_subscriptions: bool = False  # the short heartbeat will not do: we do not know what the client subscribes to


class Consumers(Watched):
    """Event loop only. Invariant: a group is here while it has members; `_groups_of` and `_by_topic` mirror those,
    `_heard` has each of their connections, and `table_bytes` is about what all of them take. Watchers are called with
    each group whose subscriptions or manner of consuming change, or may have."""

    def __init__(self) -> None:
        super().__init__()
        self.table_bytes = 0
        self.conflicts = ConflictLedger()
        self._departures: list[Callable[[str], None]] = []
        self._groups: dict[str, ConsumerGroup] = {}
        self._by_topic = GroupsByTopic()
        self._groups_of = Memberships()
        self._heard: dict[Peer, float] = {}
        self._left: dict[Peer, dict[str, None]] = {}  # the last groups that clients left by a connection that is open

    def watch_departures(self, watcher: Callable[[str], None]) -> None:
        """Call it with each group that members have left, before anything else can run."""
        self._departures.append(watcher)

    def find(self, group: str) -> ConsumerGroup | None:
        return self._groups.get(group)

    def all(self) -> Iterator[ConsumerGroup]:
        return iter(list(self._groups.values()))

    def groups_on(self, topic: str) -> list[str]:
        """Return groups with a member that subscribes to the topic."""
        return self._by_topic.find(topic)

    def groups_of(self, peer: Peer) -> list[str]:
        return sorted(self._groups_of.of(peer))

    def has_member(self, group: str, peer: Peer) -> bool:
        return group in self._groups_of.of(peer)

    def find_client(self, group: str, client_id: str) -> Member | None:
        """Return the client's connection; of two, where it was heard last."""
        members = self._groups[group].members.values() if group in self._groups else ()
        its = (member for member in members if member.client_id == client_id)
        return max(its, key=lambda member: member.seen, default=None)

    def count_with(self, peer: Peer, groups: set[str]) -> int:
        """Return how many groups the connection would be a member of after a heartbeat with these."""
        return len(groups | self._groups_of.of(peer))

    def growth(self, peer: Peer, wanted: Iterable[ConsumerData]) -> int:
        """Estimate how many bytes more are kept after a heartbeat of this connection for these groups."""
        return sum(_bytes(data) - self._kept_bytes(peer, data.group_name) for data in wanted)

    def _kept_bytes(self, peer: Peer, name: str) -> int:
        group = self._groups.get(name)
        member = None if group is None else group.members.get(peer)
        return 0 if member is None else member.bytes

    # --- coming and going -----------------------------------------------------------------------------------------

    def conflict_with_others(self, peer: Peer, client_id: str, data: ConsumerData) -> Conflict | None:
        """Return how the client differs from members that were there before it; from all, if it says something new."""
        group = self._groups.get(data.group_name)
        if group is None:
            return None
        member, members = group.members.get(peer), group.members.values()
        if member is not None and member.client_id == client_id and _says_again(member, data):
            return first_difference(group.name, member, takewhile(lambda other: other is not member, members))
        newcomer = Member(peer, client_id, peer.version, 0, wishes=wishes(data))
        return first_difference(group.name, newcomer, (other for other in members if other.peer is not peer))

    def refuse(self, peer: Peer, conflict: Conflict) -> Notice | None:
        """Note that a client is refused. It is no member any more: the others get its queues."""
        self.conflicts.refuse(peer, conflict)
        group = self._groups[conflict.group]
        return self._remove(group, [peer]) if peer in group.members else None

    def renew(self, peer: Peer, now: float) -> bool:
        """Note a heartbeat of a connection that says nothing new. False: it is a member of no group."""
        groups = self._groups_of.of(peer)
        if not groups:
            return False
        for name in groups:
            self._groups[name].members[peer].seen = now
        self._heard[peer] = now
        return True

    def register(
        self, peer: Peer, client_id: str, data: ConsumerData, now: float, *, fingerprint: int = 0, short: bool = False
    ) -> HeartbeatEffect:
        """Note a heartbeat of one client for one group; a short one says nothing of subscriptions."""
        group = self._groups.setdefault(data.group_name, ConsumerGroup(data.group_name))
        if (group.consume_type, group.message_model) != (data.consume_type, data.message_model):
            self._notify(group.name)
        group.consume_type, group.message_model = data.consume_type, data.message_model
        group.from_where = data.consume_from_where
        member = group.members.get(peer)
        joined = member is None
        if member is None or member.client_id != client_id:
            self.table_bytes += _MEMBER_BYTES - self._kept_bytes(peer, group.name)
            self._by_topic.move(group.name, () if member is None else member.subscriptions, ())
            member = group.members[peer] = Member(peer, client_id, peer.version, now, bytes=_MEMBER_BYTES)
            self._groups_of.add(peer, group.name)
        member.is_doubtful = joined and group.name in self._left.get(peer, ())
        if not joined and peer in self._left:  # named twice: it is back
            self._forget_left(peer, group.name)
        member.seen = self._heard[peer] = now
        member.from_where = data.consume_from_where
        wants = fingerprint != 0 and group.fingerprint not in (0, fingerprint)
        group.fingerprint = fingerprint
        changed = False
        self.conflicts.accept(peer, group.name)
        if short:
            wants = wants or not member.subscriptions
        else:
            changed = self._subscribe(group, member, data)
        notice = self._notice(group) if joined or changed else None
        return HeartbeatEffect(joined or changed, notice, wants)

    def _subscribe(self, group: ConsumerGroup, member: Member, data: ConsumerData) -> bool:
        said = _by_topic(data)
        if _says_again(member, data) and all(topic in group.subscriptions for topic in said):
            return False  # the usual heartbeat: nothing new
        self._notify(group.name)
        size = _bytes(data)
        self.table_bytes += size - member.bytes
        self._by_topic.move(group.name, member.subscriptions, said)
        member.subscriptions, member.message_model, member.bytes = said, data.message_model, size
        member.wishes = shared(wishes(data), group.members.values())
        changed = said.keys() != group.subscriptions.keys()
        for topic, one in said.items():
            old = group.subscriptions.get(topic)
            if old is None or one.sub_version > old.sub_version:
                group.subscriptions[topic] = one
        for topic in [topic for topic in group.subscriptions if topic not in said]:
            del group.subscriptions[topic]
        self.conflicts.update(group.name, group_conflict(group.name, group.members.values()))
        return changed

    def unregister(self, peer: Peer, group_name: str) -> Notice | None:
        """Remove a client that says that it leaves: on this connection, and on any other that it has lost sight of."""
        self.conflicts.accept(peer, group_name)
        group = self._groups.get(group_name)
        leaves = group.members.get(peer) if group is not None else None
        if group is None or leaves is None:
            return None
        its = [one.peer for one in group.members.values() if one.client_id == leaves.client_id]
        for each in its:
            left = self._left.setdefault(each, {})
            left[group_name] = None
            if len(left) > _MOST_LEFT:
                del left[next(iter(left))]
        return self._remove(group, its)

    def _forget_left(self, peer: Peer, group_name: str) -> None:
        left = self._left.get(peer, {})
        left.pop(group_name, None)
        if not left:
            self._left.pop(peer, None)

    def leave_unnamed(self, peer: Peer, client_id: str, named: set[str], silent: float) -> dict[str, Notice | None]:
        """Remove a client from groups that it does not name in its heartbeat, and has not named since `silent`.

        At once, if it had left before: Java's clients may send a heartbeat that they had made up before they left. It
        would keep the queues of a member that is gone, for as long as its connection serves others.
        """
        removed: dict[str, Notice | None] = {}
        for name in sorted(self._groups_of.of(peer) - named):
            member = self._groups[name].members[peer]
            if member.client_id == client_id and (member.is_doubtful or member.seen < silent):
                removed[name] = self._remove(self._groups[name], [peer])
                self._forget_left(peer, name)
        return removed

    def lose(self, peer: Peer) -> list[Notice]:
        """Remove the client of a connection that is gone."""
        self._left.pop(peer, None)
        self.conflicts.lose(peer)
        notices = [self._remove(self._groups[name], [peer]) for name in self.groups_of(peer)]
        return [notice for notice in notices if notice is not None]

    def _remove(self, group: ConsumerGroup, peers: Iterable[Peer]) -> Notice | None:
        for peer in peers:
            member = group.members.pop(peer)
            self.table_bytes -= member.bytes
            self._by_topic.move(group.name, member.subscriptions, ())
            if self._groups_of.remove(peer, group.name):
                del self._heard[peer]
        for watcher in self._departures:
            watcher(group.name)
        if group.name in self.conflicts.open:  # who leaves can end one, but not begin one
            self.conflicts.update(group.name, group_conflict(group.name, group.members.values()))
            self._notify(group.name)
            said = [one for member in group.members.values() for one in member.subscriptions.values()]
            group.subscriptions = {one.topic: one for one in sorted(said, key=lambda one: one.sub_version)}
        if not group.members:
            del self._groups[group.name]
            self._notify(group.name)
            return None
        return self._notice(group)

    def silent_since(self, moment: float) -> list[Peer]:
        """Return the connections over which no heartbeat came since then: to be closed, which makes `lose` happen."""
        return [peer for peer, heard in self._heard.items() if heard < moment]

    def _notice(self, group: ConsumerGroup) -> Notice | None:
        """Return the notice of a change. Broadcasting members do not share queues, so nothing changes for them."""
        if group.message_model is MessageModel.BROADCASTING or not group.members:
            return None
        return Notice(group.name, tuple(group.members))


def _by_topic(data: ConsumerData) -> dict[str, SubscriptionData]:
    return {one.topic: one for one in data.subscription_data_set}


def _says_again(member: Member, data: ConsumerData) -> bool:
    return (_by_topic(data), data.message_model) == (member.subscriptions, member.message_model)


def _bytes(data: ConsumerData) -> int:
    """Estimate what a member with these subscriptions takes."""
    size = _MEMBER_BYTES + len(data.group_name)
    for one in data.subscription_data_set:
        texts = len(one.topic) + 3 * len(one.sub_string) + sum(map(len, one.tags_set))
        size += _SUBSCRIPTION_BYTES + texts + _TAG_BYTES * (len(one.tags_set) + len(one.code_set))
    return size
