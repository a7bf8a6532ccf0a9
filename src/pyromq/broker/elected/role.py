"""What one life of a broker in an elected set is opened with: who it is, whether it leads, and whom it follows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from ...protocol.bodies.replication import SyncStateSet
from ...protocol.headers.replication import ElectedMaster
from ...protocol.replication.epochs import EpochList
from .mastership import Mastership
from .set_keys import ReplicaPlace


class BytesComing(Protocol):
    """How much comes of a master's log."""

    def in_last_second(self, now: float) -> int: ...


class FollowedTimes(Protocol):
    """When something went over the stream, in wall-clock milliseconds; 0: never."""

    @property
    def heard_ms(self) -> int: ...

    @property
    def reported_ms(self) -> int: ...

    @property
    def rate(self) -> BytesComing: ...


@dataclass(slots=True, eq=False)
class FollowedReplica:
    """The master as this replica sees it. `joined` is called when its stream has begun."""

    place: ReplicaPlace | None = None
    is_connected: bool = False
    state: str = "no master is known yet"
    joined: Callable[[], None] = lambda: None
    times: FollowedTimes | None = None  # of the stream that began last

    def begin(self, place: ReplicaPlace, times: FollowedTimes) -> None:
        """Note that the stream of this master has begun."""
        self.times = times
        self.place, self.is_connected, self.state = place, True, f"following {place.address}"
        self.joined()

    def end(self, why: str) -> None:
        """Note that nothing comes any more."""
        self.is_connected, self.state = False, why


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectedRole:
    """`mastership` is None for a follower. `members`: addresses of all replicas of the set, for the HA port.

    `told` takes a controller's notices of who is master. None: no controller leads this set."""

    me: int
    epochs: EpochList  # of the log; the newest one is the mastership's
    members: Callable[[], list[str]]
    mastership: Mastership | None = None
    followed: FollowedReplica = field(default_factory=FollowedReplica)
    epochs_now: Callable[[], EpochList] | None = None  # a follower's grow; None: `epochs` are all
    told: Callable[[ElectedMaster, SyncStateSet], None] | None = None

    @property
    def carries_tables(self) -> bool:
        """Return whether the log carries the tables: a set with a controller may have members that are Java's."""
        return self.told is None
