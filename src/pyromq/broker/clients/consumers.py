"""Who consumes: groups, their members, and what they subscribe to. Pure: what is to be told to whom is returned.

Heartbeats and closed connections come in through `handlers.py`; pulls ask for subscriptions. A client that is gone
leaves nothing behind: what a group subscribes to is what its members said last.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

from ...model.group import ConsumeFromWhere, ConsumeType, MessageModel
from ...protocol.bodies.heartbeat import ConsumerData, SubscriptionData
from ...transport.peer import Peer
from ..metadata.config_table import Watched

ALL_TAGS = "*"
NOTHING = "nothing"
_COMPARED = 4  # members whose wishes are looked at for being the same object

# Estimates of what Python's objects take besides their texts: of one client in one group, of a subscription, of a tag.
_MEMBER_BYTES, _SUBSCRIPTION_BYTES, _TAG_BYTES = 700, 600, 70


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


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two members of a group that want different things: each then misses messages that the other was given."""

    group: str
    topic: str
    client: str
    wants: str
    other_client: str
    other_wants: str

    def __str__(self) -> str:
        return (
            f"group {self.group}, topic {self.topic}: {self.client} subscribes to {self.wants}, "
            f"{self.other_client} to {self.other_wants}; all members of a group must subscribe alike"
        )


@dataclass(slots=True)
class ConsumerGroup:
    """The members of a group and what they agree on; where they differ, the newest subscription counts, as in Java."""

    name: str
    consume_type: ConsumeType = ConsumeType.PASSIVELY
    message_model: MessageModel = MessageModel.CLUSTERING
    from_where: ConsumeFromWhere = ConsumeFromWhere.LAST_OFFSET
    members: dict[Peer, Member] = field(default_factory=dict)
    subscriptions: dict[str, SubscriptionData] = field(default_factory=dict)
    conflict: Conflict | None = None
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
    conflict: Conflict | None = None  # only if it is a new one
    wants_subscriptions: bool = False  # the short heartbeat will not do: we do not know what the client subscribes to


class Consumers(Watched):
    """Event loop only. Invariant: a group is here while it has members; `_groups_of` mirrors the members, `_heard` has
    each of their connections, and `table_bytes` is about what all of them take. Watchers are called with each
    group whose subscriptions or manner of consuming change, or may have."""

    def __init__(self) -> None:
        super().__init__()
        self.table_bytes = 0
        self._groups: dict[str, ConsumerGroup] = {}
        self._groups_of: dict[Peer, set[str]] = {}
        self._heard: dict[Peer, float] = {}

    def find(self, group: str) -> ConsumerGroup | None:
        return self._groups.get(group)

    def all(self) -> Iterator[ConsumerGroup]:
        return iter(list(self._groups.values()))

    def groups_on(self, topic: str) -> list[str]:
        """Return groups with a member that subscribes to the topic."""
        return sorted(group.name for group in self._groups.values() if topic in group.subscriptions)

    def groups_of(self, peer: Peer) -> list[str]:
        return sorted(self._groups_of.get(peer, ()))

    def find_client(self, group: str, client_id: str) -> Member | None:
        """Return the client's connection; of two, where it was heard last."""
        members = self._groups[group].members.values() if group in self._groups else ()
        its = (member for member in members if member.client_id == client_id)
        return max(its, key=lambda member: member.seen, default=None)

    def count_with(self, peer: Peer, groups: set[str]) -> int:
        """Return how many groups the connection would be a member of after a heartbeat with these."""
        return len(groups | self._groups_of.get(peer, set()))

    def growth(self, peer: Peer, wanted: Iterable[ConsumerData]) -> int:
        """Estimate how many bytes more are kept after a heartbeat of this connection for these groups."""
        return sum(_bytes(data) - self._kept_bytes(peer, data.group_name) for data in wanted)

    def _kept_bytes(self, peer: Peer, name: str) -> int:
        group = self._groups.get(name)
        member = None if group is None else group.members.get(peer)
        return 0 if member is None else member.bytes

    def conflicts(self) -> list[Conflict]:
        return [group.conflict for group in self._groups.values() if group.conflict is not None]

    # --- coming and going -----------------------------------------------------------------------------------------

    def would_conflict(self, peer: Peer, client_id: str, data: ConsumerData) -> Conflict | None:
        """Return the conflict that registering would make, for brokers that refuse it."""
        group = self._groups.get(data.group_name)
        if group is None:
            return None
        wishes = {one.topic: wish(one) for one in data.subscription_data_set}
        others = (member for member in group.members.values() if member.peer is not peer)
        return _conflict(group.name, Member(peer, client_id, 0, 0, wishes=wishes), others)

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
            member = group.members[peer] = Member(peer, client_id, peer.version, now, bytes=_MEMBER_BYTES)
            self._groups_of.setdefault(peer, set()).add(group.name)
        member.seen = self._heard[peer] = now
        member.from_where = data.consume_from_where
        wants = fingerprint != 0 and group.fingerprint not in (0, fingerprint)
        group.fingerprint = fingerprint
        before = group.conflict
        changed = False
        if short:
            wants = wants or not member.subscriptions
        else:
            changed = self._subscribe(group, member, data)
        notice = self._notice(group) if joined or changed else None
        conflict = group.conflict if group.conflict != before else None
        return HeartbeatEffect(joined or changed, notice, conflict, wants)

    def _subscribe(self, group: ConsumerGroup, member: Member, data: ConsumerData) -> bool:
        said = {one.topic: one for one in data.subscription_data_set}
        if said == member.subscriptions and all(topic in group.subscriptions for topic in said):
            return False  # the usual heartbeat: nothing new
        self._notify(group.name)
        size = _bytes(data)
        self.table_bytes += size - member.bytes
        member.subscriptions, member.bytes = said, size
        member.wishes = _shared({topic: wish(one) for topic, one in said.items()}, group.members.values())
        changed = said.keys() != group.subscriptions.keys()
        for topic, one in said.items():
            old = group.subscriptions.get(topic)
            if old is None or one.sub_version > old.sub_version:
                group.subscriptions[topic] = one
        for topic in [topic for topic in group.subscriptions if topic not in said]:
            del group.subscriptions[topic]
        others = (other for other in group.members.values() if other is not member)
        group.conflict = _conflict(group.name, member, others)
        return changed

    def unregister(self, peer: Peer, group_name: str) -> Notice | None:
        """Remove a client that says that it leaves: on this connection, and on any other that it has lost sight of."""
        group = self._groups.get(group_name)
        leaves = group.members.get(peer) if group is not None else None
        if group is None or leaves is None:
            return None
        its = [one.peer for one in group.members.values() if one.client_id == leaves.client_id]
        return self._remove(group, its)

    def lose(self, peer: Peer) -> list[Notice]:
        """Remove the client of a connection that is gone."""
        names = sorted(self._groups_of.get(peer, ()))
        notices = [self._remove(self._groups[name], [peer]) for name in names]
        return [notice for notice in notices if notice is not None]

    def _remove(self, group: ConsumerGroup, peers: Iterable[Peer]) -> Notice | None:
        for peer in peers:
            self.table_bytes -= group.members.pop(peer).bytes
            groups = self._groups_of[peer]
            groups.discard(group.name)
            if not groups:
                del self._groups_of[peer], self._heard[peer]
        if not group.members:
            del self._groups[group.name]
            self._notify(group.name)
            return None
        if group.conflict is not None:  # who leaves can end one, but not begin one
            members = list(group.members.values())
            group.conflict = _conflict(group.name, members[0], members[1:])
        return self._notice(group)

    def silent_since(self, moment: float) -> list[Peer]:
        """Return the connections over which no heartbeat came since then: to be closed, which makes `lose` happen."""
        return [peer for peer, heard in self._heard.items() if heard < moment]

    def _notice(self, group: ConsumerGroup) -> Notice | None:
        """Return the notice of a change. Broadcasting members do not share queues, so nothing changes for them."""
        if group.message_model is MessageModel.BROADCASTING or not group.members:
            return None
        return Notice(group.name, tuple(group.members))


def _conflict(group: str, member: Member, others: Iterable[Member]) -> Conflict | None:
    """Return the first difference between the wishes of a member and of another one. Who said nothing has none."""
    mine = member.wishes
    if not mine:
        return None
    for other in others:
        theirs = other.wishes
        if theirs is mine or not theirs or other.client_id == member.client_id or theirs == mine:
            continue
        topic = min(topic for topic in mine.keys() | theirs.keys() if mine.get(topic) != theirs.get(topic))
        return Conflict(
            group, topic, member.client_id, mine.get(topic, NOTHING), other.client_id, theirs.get(topic, NOTHING)
        )
    return None


def _shared(wishes: dict[str, str], members: Iterable[Member]) -> dict[str, str]:
    """Return an equal subscription of another member, if there is one: members of a group mostly want the same."""
    return next((other.wishes for other in islice(members, _COMPARED) if other.wishes == wishes), wishes)


def _bytes(data: ConsumerData) -> int:
    """Estimate what a member with these subscriptions takes."""
    size = _MEMBER_BYTES + len(data.group_name)
    for one in data.subscription_data_set:
        texts = len(one.topic) + 3 * len(one.sub_string) + sum(map(len, one.tags_set))
        size += _SUBSCRIPTION_BYTES + texts + _TAG_BYTES * (len(one.tags_set) + len(one.code_set))
    return size


def wish(subscription: SubscriptionData | None) -> str:
    """Return what is subscribed to, in one spelling: `TagB || TagA` and `TagA||TagB` are the same."""
    if subscription is None:
        return NOTHING
    if (subscription.expression_type or "TAG") != "TAG":
        return f"{subscription.expression_type} {subscription.sub_string.strip()}"
    tags = {tag.strip() for tag in subscription.sub_string.split("||")} - {""}
    return ALL_TAGS if not tags or ALL_TAGS in tags else " || ".join(sorted(tags))
