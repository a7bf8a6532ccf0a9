"""What is inside right now: parked, polled, locked, waiting, buffered, in conflict, and whether the broker is ready.

A request code of our own (RocketMQ has none for it), so that `pyromq inspect` needs no second port. Read-only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice

from ...ambient import Clock
from ...config import Live
from ...kernel.choice import is_forced, kernel_name
from ...machine.budget import Budget
from ...model.topic import Perm
from ...protocol.bodies.own import (
    BrokerInspection,
    DuplicateWindowState,
    HalfMessageLine,
    LoopHoldLine,
    MistypedLine,
    QuarantinedLine,
    QueueLockLine,
    SuspendedPullCounts,
)
from ...protocol.requests import ROWS
from ...store.message_store import MessageStore
from ...store.tables.quarantine import Quarantine, QuarantinedRecord
from ...supervision import Loops
from ...transport.dispatch import Reply, Request
from ...transport.server import Server
from ...transport.turns.loop_holds import Hold, LoopHolds
from ..clients.consumers import Consumers
from ..clients.order_locks import OrderLocks
from ..clients.producers import Producers
from ..config import BrokerConfig
from ..duplicates.duplicate_window import DuplicateTable
from ..intake.intake import Intake
from ..pull.handler import PullHandler
from ..registration import REGISTERED, BrokerRegistration

MOST = 100  # lines of each list


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Inspection:
    """Event loop only."""

    live: Live[BrokerConfig]
    clock: Clock
    store: MessageStore
    intake: Intake
    pulls: PullHandler
    locks: OrderLocks
    consumers: Consumers
    producers: Producers
    servers: Callable[[], Iterable[Server]]
    registration: BrokerRegistration
    no_disk: Callable[[], str | None]
    lag_ms: Callable[[], float]
    holds: LoopHolds
    duplicates: DuplicateTable | None
    parked: Callable[[], Mapping[str, int]]  # messages that wait elsewhere, by what they wait for
    undecided: Callable[[int], list[HalfMessageLine]]  # half messages, up to so many, with age and checks
    quarantine: Quarantine
    loops: Loops
    mistyped: Callable[[bool], list[MistypedLine]]
    budget: Budget
    grpc_endpoint: str
    no_master: Callable[[], str | None]

    def __call__(self, request: Request) -> Reply:
        troubles, conflicts = self.troubles(), self.consumers.conflicts
        found = BrokerInspection(
            ready=not troubles,
            kernel=kernel_name(),
            kernel_forced=is_forced(),
            troubles=troubles,
            parked=dict(self.parked()),
            half_messages=self.undecided(MOST),
            quarantined=len(self.quarantine),
            quarantine=[_quarantined(one) for one in self.quarantine.all()[:MOST]],
            loop_faults={name: f"{one.times} times, last {one.why}" for name, one in self.loops.faults.items()},
            polled=self._suspended(),
            locked=self._locked(),
            waiting_for_disk=self.intake.waiting,
            unflushed_bytes=self.store.unflushed,
            loop_lag_ms=round(self.lag_ms(), 1),
            loop_holds=[_loop_hold(hold) for hold in self.holds.all()],
            buffered_bytes=sum(server.service.buffered_bytes for server in self.servers()),
            connections=sum(server.connections for server in self.servers()),
            open_files=self.budget.shown(),
            consumer_groups={group.name: len(group.members) for group in islice(self.consumers.all(), MOST)},
            producer_groups={name: len(members) for name, members in islice(self.producers.all().items(), MOST)},
            conflicts=[str(one) for one in islice(conflicts.open.values(), MOST)],
            conflicts_begun=conflicts.begun,
            refused_consumers=[str(one) for one in islice(conflicts.refused.values(), MOST)],
            consumers_refused=conflicts.refusals,
            mistyped=self.mistyped(self.live.config.enforce_message_type)[:MOST],
            duplicate_window=self._window(),
            name_servers=self.registration.state(),
            grpc_endpoint=self.grpc_endpoint,
        )
        return Reply(body=found)

    def troubles(self) -> list[str]:
        """Return why the broker cannot do what it is there for; empty: it is ready."""
        config = self.live.config
        found = []
        if config.namesrv_addr and REGISTERED not in self.registration.state().values():
            found.append("no name server knows it")
        if not self.store.is_writable:
            found.append("the store takes no more messages")
        no_disk = self.no_disk() or self.store.disk_full_reason()
        if no_disk is not None:
            found.append(no_disk)
        if config.broker_permission & Perm.READ_WRITE != Perm.READ_WRITE:
            found.append(f"brokerPermission is {config.broker_permission}")
        if (why := self.no_master()) is not None:
            found.append(why)
        if self.lag_ms() > config.max_loop_lag_ms:
            found.append(f"it runs {self.lag_ms():.0f} ms late")
        return found

    def _window(self) -> DuplicateWindowState:
        window = self.duplicates
        if window is None:
            return DuplicateWindowState(enabled=False)
        return DuplicateWindowState(
            enabled=True, producers=window.producers, sends=len(window), messages=window.messages
        )

    def _suspended(self) -> SuspendedPullCounts:
        waiting = self.pulls.suspended.all()
        topics = Counter(pull.topic for pull in waiting)
        return SuspendedPullCounts(pulls=len(waiting), by_topic=dict(topics.most_common(MOST)))

    def _locked(self) -> list[QueueLockLine]:
        holders = self.locks.holders(self.clock.monotonic())
        return [
            QueueLockLine(
                group=group, topic=queue.topic, queue=queue.queue_id, client=client, seconds_left=round(seconds)
            )
            for group, queue, client, seconds in holders[:MOST]
        ]


def _quarantined(one: QuarantinedRecord) -> QuarantinedLine:
    return QuarantinedLine(
        position=one.position,
        topic=one.topic,
        queue=one.queue_id,
        by=one.loop,
        reason=one.reason,
        time_ms=one.time_ms,
    )


def _loop_hold(hold: Hold) -> LoopHoldLine:
    name = ROWS[hold.code].name if hold.code in ROWS else ""
    return LoopHoldLine(code=hold.code, name=name, times=hold.times, longest_ms=round(hold.longest_ms, 1))
