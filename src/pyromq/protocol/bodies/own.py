"""Bodies of the answers that only our brokers give: 30,001 and up, refusals of 34. Members stand in the order of their
declaration.

What is UNSET is left out, None is written as null: nobody but us reads these, and people read them too.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

Number = int | UnsetType
Text = str | UnsetType


class OwnBody(msgspec.Struct, rename="camel", kw_only=True):
    """A JSON object of ours."""


def members(body: OwnBody) -> dict[str, Any]:
    """Return the body as it stands on the wire, for whoever prints it."""
    found: dict[str, Any] = msgspec.to_builtins(body)
    return found


ALIKE = "all members of a group must subscribe alike"  # in each refusal of that kind, by gRPC too


class RefusedGroups(OwnBody, kw_only=True):
    """34, where it is refused: by group, how this client differs from a member that was there first."""

    refused_groups: dict[str, str] = msgspec.field(default_factory=dict)


# --- 30001: what is inside a broker ----------------------------------------------------------------------------------


class QuarantinedLine(OwnBody, kw_only=True):
    position: int
    topic: str
    queue: int
    by: str
    reason: str
    time_ms: int


class SuspendedPullCounts(OwnBody, kw_only=True):
    pulls: int
    by_topic: dict[str, int]


class QueueLockLine(OwnBody, kw_only=True):
    group: str
    topic: str
    queue: int
    client: str
    seconds_left: int


class LoopHoldLine(OwnBody, kw_only=True):
    code: int
    name: str
    times: int
    longest_ms: float


class DuplicateWindowState(OwnBody, kw_only=True):
    enabled: bool
    producers: Number = UNSET
    sends: Number = UNSET
    messages: Number = UNSET


class HalfMessageLine(OwnBody, kw_only=True):
    topic: str
    producer_group: str
    id: str | None
    age_seconds: int
    checks: int
    position: int
    offset_msg_id: str  # what request 323 takes


class MistypedLine(OwnBody, kw_only=True):
    """Messages of the last day that do not fit the `message.type` of their topic."""

    topic: str
    takes: str
    given: str
    messages: int
    refused: bool  # as `enforceMessageType` is now


class BrokerInspection(OwnBody, kw_only=True):
    """30001. Another version of our broker may leave out some."""

    ready: bool | UnsetType = UNSET
    kernel: Text = UNSET
    kernel_forced: bool | UnsetType = UNSET
    troubles: list[str] | UnsetType = UNSET
    parked: dict[str, int] | UnsetType = UNSET
    half_messages: list[HalfMessageLine] | UnsetType = UNSET
    quarantined: Number = UNSET
    quarantine: list[QuarantinedLine] | UnsetType = UNSET
    loop_faults: dict[str, str] | UnsetType = UNSET
    polled: SuspendedPullCounts | UnsetType = UNSET
    locked: list[QueueLockLine] | UnsetType = UNSET
    waiting_for_disk: Number = UNSET
    unflushed_bytes: Number = UNSET
    loop_lag_ms: float | UnsetType = UNSET
    loop_holds: list[LoopHoldLine] | UnsetType = UNSET
    buffered_bytes: Number = UNSET
    connections: Number = UNSET
    open_files: dict[str, int] | UnsetType = UNSET
    consumer_groups: dict[str, int] | UnsetType = UNSET
    producer_groups: dict[str, int] | UnsetType = UNSET
    conflicts: list[str] | UnsetType = UNSET
    conflicts_begun: Number = UNSET
    refused_consumers: list[str] | UnsetType = UNSET
    consumers_refused: Number = UNSET
    mistyped: list[MistypedLine] | UnsetType = UNSET
    duplicate_window: DuplicateWindowState | UnsetType = UNSET
    name_servers: dict[str, str] | UnsetType = UNSET
    grpc_endpoint: Text = UNSET


# --- 30002: the life of one message ----------------------------------------------------------------------------------


class LifeStep(OwnBody, kw_only=True):
    at_ms: int
    what: str
    topic: str
    queue: int
    offset: int
    offset_id: str
    group: Text = UNSET
    retry: Number = UNSET
    until_ms: Number = UNSET


class LifeState(OwnBody, kw_only=True):
    """Where a message stands, by itself or with one group. `leaves_ms`: when it, or its dead letter, expires."""

    group: Text = UNSET
    state: str
    reason: Text = UNSET
    until_ms: Number = UNSET
    overdue: bool | UnsetType = UNSET
    at_ms: int | UnsetType | None = UNSET
    checks: Number = UNSET
    retry: Number = UNSET
    leaves_ms: Number = UNSET


class MessageLifeAnswer(OwnBody, kw_only=True):
    """30002. Of a message that is gone, only what its id tells. `leaves_ms`: when its last copy expires."""

    topic: str
    id: str
    keys: str | UnsetType | None = UNSET
    tags: str | UnsetType | None = UNSET
    born_ms: Number = UNSET
    bytes: Number = UNSET
    state: str
    reason: Text = UNSET
    until_ms: Number = UNSET
    overdue: bool | UnsetType = UNSET
    at_ms: int | UnsetType | None = UNSET
    checks: Number = UNSET
    retry: Number = UNSET
    leaves_ms: Number = UNSET
    groups: list[LifeState] | UnsetType = UNSET
    history: list[LifeStep] | UnsetType = UNSET  # the copies of the message in the log


# --- 30006 and 30007: what brokers of one name ask each other -------------------------------------------------------


class TableVersions(OwnBody, kw_only=True):
    """30006. `life` is another one after a restart. Within a life, a table's number is another one after each change.

    `log_end`: the log reaches at least as far as the records that the tables rest on now. `log_start`: older ones have
    expired; 0 of brokers that do not say it."""

    life: str
    changes: dict[str, int]
    log_end: int
    log_start: int = 0


class OwnCommitsAnswer(OwnBody, kw_only=True):
    """30007: offsets that clients committed to this slave and its master has not, by `topic@group` and queue id."""

    offsets: dict[str, dict[int, int]]


# --- 30008: what a dashboard follows ---------------------------------------------------------------------------------


class TopicFigures(OwnBody, kw_only=True):
    """`first` and `end` are sums over the queues. `bytes`: stored since the start, of counters that may begin anew."""

    kind: str
    perm: int
    write_queues: int
    read_queues: int
    order: bool
    first: int
    end: int
    bytes: int


class GroupFigures(OwnBody, kw_only=True):
    """`conflicts`: how members differ, or are refused for it, a line each."""

    members: int
    mode: str
    kind: str
    may_consume: bool
    retries: int
    conflicts: list[str]


class PairFigures(OwnBody, kw_only=True):
    """A group on a topic, summed over its queues. `oldest_ms`: when the oldest message that
    waits was stored, 0 if none does or its time cannot be read. `handed_out` counts from the start, as `bytes` does."""

    queues: int = 0
    queues_behind: int = 0
    committed: int = 0
    lag: int = 0
    in_flight: int = 0
    handed_out: int = 0
    oldest_ms: int = 0


class SnapshotAnswer(OwnBody, kw_only=True):
    """30008. Rows that changed after picture `since`, all of them if that is 0; `gone` has the names that went.

    Pairs are `topic@group`. In another life of the broker numbers begin anew."""

    life: str
    number: int
    since: int
    at_ms: int
    took_ms: float
    put_total: int
    put_bytes: int
    got_total: int
    topics: dict[str, TopicFigures]
    groups: dict[str, GroupFigures]
    pairs: dict[str, PairFigures]
    gone: dict[str, list[str]]


# --- 30003 and 30005 --------------------------------------------------------------------------------------------------


class HalfMessagesAnswer(OwnBody, kw_only=True):
    """30003. `next`: the queue offset to go on from, if there is more."""

    half_messages: list[HalfMessageLine]
    total: int
    next: int | None


class DeadGroup(OwnBody, kw_only=True):
    group: str
    messages: int
    oldest_ms: Number = UNSET
    leaves_ms: int
    seconds_left: int


class DeadLetterLine(OwnBody, kw_only=True):
    id: str
    offset_id: str
    topic: str | None
    keys: str | None
    attempts: int
    reason: str | None = None
    died_ms: int
    offset: int
    leaves_ms: int
    seconds_left: int


class QuotaChange(OwnBody, kw_only=True):
    """`kind`: user, group, topic or address; `name`: `*` for each of them that has none of its own."""

    kind: str
    name: str
    limits: dict[str, int]


class QuotaLine(OwnBody, kw_only=True):
    """`source`: table or settings. `used`: of one that names somebody."""

    kind: str
    name: str
    limits: dict[str, int]
    source: str
    used: dict[str, int] = {}


class QuotaList(OwnBody, kw_only=True):
    quotas: list[QuotaLine] = []


# --- 30015: users that one server of a cluster tells another of -------------------------------------------------------


class SharedUserRow(OwnBody, kw_only=True):
    """`secrets`: sealed with the servers' inner credentials."""

    type: str
    status: str
    secrets: list[str]


class SharedUser(OwnBody, kw_only=True):
    """`user` None: he was deleted. `proof`: by the inner credentials, of everything else in it."""

    name: str
    changed_ms: int
    changed_by: str
    user: SharedUserRow | None
    policies: list[Any]
    proof: str = ""


class UserChanges(OwnBody, kw_only=True):
    digest: str  # of the stamps of all users
    entries: list[SharedUser] = []
    stamps: dict[str, tuple[int, str]] | None = None
    is_listening: bool = False  # wants to be told of changes over this connection
    counts_callers: bool = False  # gateways are to say whose use of this broker a request is


class UserChangesAnswer(OwnBody, kw_only=True):
    is_same: bool
    entries: list[SharedUser] = []
    wanted: list[str] = []
    counts_callers: bool = False


class DeadLettersAnswer(OwnBody, kw_only=True):
    lost_for_want_of_space: int
    groups: list[DeadGroup] | UnsetType = UNSET
    group: Text = UNSET  # whose messages these are
    messages: list[DeadLetterLine] | UnsetType = UNSET
    warnings: list[str]
