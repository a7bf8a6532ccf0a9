"""An elected set's master on a store and its followers on theirs, over a network in memory, without election."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from pyromq.broker.election.acting_set import ActingSet
from pyromq.broker.election.set_state import SetState
from pyromq.broker.replication.following.elected_follower import JoinedStream, MustCut, join
from pyromq.broker.replication.following.follower import FollowSettings
from pyromq.broker.replication.leading.elected_copies import ElectedCopies
from pyromq.broker.replication.leading.elected_streams import ElectedStreams
from pyromq.broker.replication.leading.ha_port import HaPort
from pyromq.broker.replication.leading.log_source import CommitLogSource
from pyromq.broker.replication.settings import ReplicationSettings
from pyromq.store.config import StoreConfig
from pyromq.store.cutting import begin_cut, plan_cut
from pyromq.store.epochs import EpochFile
from pyromq.store.message_store import MessageStore, run_at_once
from pyromq.testing.clock import ManualClock
from pyromq.testing.simulated_disk import SimulatedDisk
from pyromq.transport.memory import MemoryNetwork
from tests.store.small import SMALL

HA = "127.0.0.1:10912"
QUICK = FollowSettings(heartbeat_s=0.3, silence_s=1.5)


class ActingLead:
    """A mastership that rests on the acting set alone: nobody changes its set."""

    def __init__(self, me: int, epoch: int, members: Iterable[int], confirmed: int, end: int, minimum: int = 2) -> None:
        self.epoch, self.is_over = epoch, False
        state = SetState(epoch, me, frozenset(members), minimum)
        self.acting = ActingSet(me, state, confirmed=confirmed, end=end)
        self.on_confirmed: list[Callable[[int], None]] = []
        self.on_change: list[Callable[[], None]] = []
        self.on_over: list[Callable[[], None]] = []
        self.heard_of: list[int] = []
        self.ended: list[int] = []

    def end(self) -> None:
        """Be deposed."""
        self.is_over = True
        for listener in self.on_over:
            listener()

    @property
    def confirmed(self) -> int:
        return self.acting.confirmed

    @property
    def is_short(self) -> bool:
        return self.acting.is_short

    def begin_stream(self, replica: int) -> None:
        self.acting.begin_stream(replica)

    def end_stream(self, replica: int) -> None:
        self.ended.append(replica)
        self.acting.begin_stream(replica)

    def heard(self, replica: int) -> None:
        self.heard_of.append(replica)

    def note_report(self, replica: int, position: int) -> None:
        self.acting.note_report(replica, position)
        self._tell()

    def note_own(self, end: int, synced: int) -> None:
        self.acting.note_end(end)
        self.acting.note_own(end)
        self._tell()

    def _tell(self) -> None:
        for listener in self.on_confirmed:
            listener(self.acting.confirmed)


def reopened(disk: SimulatedDisk, config: StoreConfig = SMALL, clock: ManualClock | None = None) -> MessageStore:
    return MessageStore(disk, config, clock or ManualClock(), is_elected=True)


class Leading:
    """One master's time: it listens from here on."""

    def __init__(
        self,
        disk: SimulatedDisk,
        clock: ManualClock,
        network: MemoryNetwork,
        *,
        me: int = 1,
        epoch: int = 1,
        members: Iterable[int] = (1, 2),
        store: MessageStore | None = None,
    ) -> None:
        self.disk, self.network = disk, network
        self.store = store or reopened(disk, clock=clock)
        self.epochs = EpochFile(disk, self.store.commit_log)
        self.epochs.begin(epoch)
        end = self.store.commit_log.end
        self.lead = ActingLead(me, epoch, members, self.store.readable.value, end)
        source = CommitLogSource(self.store.commit_log, run_at_once)
        self.settings = ReplicationSettings(ha_send_heartbeat_interval=300, ha_housekeeping_interval=1500)
        self.copies = ElectedCopies(self.store, self.lead, minimum=2)
        self.streams = ElectedStreams(self.lead, source, self.epochs.list, me)
        self.port = HaPort(
            source, clock, lambda: self.settings, self._members, lambda: None, self.store.on_append, self.streams.wire
        )
        network.listen(HA, self.attach)

    async def _members(self) -> Iterable[str]:
        return ()

    def attach(self, transport: asyncio.Transport) -> None:
        sender = self.port.welcome("127.0.0.1:40000")
        assert sender is not None
        transport.set_protocol(sender)
        sender.connection_made(transport)

    async def close(self) -> None:
        """Stop like a clean stop."""
        self.network.unlisten(HA)
        self.lead.is_over = True
        self.streams.close()
        self.copies.close()
        await self.port.close()
        self.store.close()


class Replica:
    """A follower, and its task. `ended`: why its last stream did."""

    def __init__(
        self, disk: SimulatedDisk, clock: ManualClock, network: MemoryNetwork, me: int = 2, config: StoreConfig = SMALL
    ) -> None:
        self.disk, self.clock, self.network, self.me, self.config = disk, clock, network, me, config
        self.store = reopened(disk, config, clock)
        self.epochs = EpochFile(disk, self.store.commit_log)
        self.caught_up = self.heard = 0
        self.stream: JoinedStream | None = None
        self.ended: BaseException | None = None

    async def follow(self, settings: FollowSettings = QUICK) -> None:
        """Follow until the stream ends; `ended` says why."""
        try:
            self.stream = await join(self.network.connect, HA, self.me, self.clock, settings)
            await self.stream.follow(self.store, self.epochs, self._heard, self._caught_up)
        except Exception as fault:
            self.ended = fault

    def _heard(self) -> None:
        self.heard += 1

    def _caught_up(self) -> None:
        self.caught_up += 1

    def cut(self) -> None:
        """Do what `MustCut` asks for."""
        assert isinstance(self.ended, MustCut)
        cut = self.ended.cut
        self.store.close()
        begin_cut(self.disk, self.config, plan_cut(self.disk, self.config, cut.position), cut.epochs)
        self.open_again()

    def open_again(self) -> None:
        self.store = reopened(self.disk, self.config, self.clock)
        self.epochs = EpochFile(self.disk, self.store.commit_log)
        self.ended = None
