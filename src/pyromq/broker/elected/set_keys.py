"""The keys of one elected set in the coordination store, and what stands in those that a replica writes of itself.

    /pyromq/CLUSTER/NAME/state         epoch, master, in-sync set; changed by comparing its version
    /pyromq/CLUSTER/NAME/leader        who leads, under its lease
    /pyromq/CLUSTER/NAME/wanted        whom an administrator wants as master, under a lease of seconds
    /pyromq/CLUSTER/NAME/alive/ID      how far a replica is, under its lease
    /pyromq/CLUSTER/NAME/replicas/ID   where a replica is reached, and which store it has

All values are JSON that a person can read with etcdctl.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from ...coordination.store import Snapshot
from ...errors import ProtocolError
from ...model.wire_text import whole_number
from ..election.candidacy import ReplicaSeen


class _Seen(msgspec.Struct, rename="camel"):
    epoch: int
    end: int
    is_amnesiac: bool = False
    stands: bool = False
    misses: int = 0


class ReplicaPlace(msgspec.Struct, frozen=True, rename="camel"):
    """Where a replica is reached. `store_id` tells two stores apart that claim one number."""

    address: str
    ha_address: str
    store_id: str


@dataclass(frozen=True, slots=True)
class SetKeys:
    """Of the set whose keys begin with `prefix`, which ends with a slash."""

    prefix: str

    @property
    def state(self) -> str:
        return self.prefix + "state"

    @property
    def leader(self) -> str:
        return self.prefix + "leader"

    @property
    def wanted(self) -> str:
        return self.prefix + "wanted"

    def wanted_in(self, snapshot: Snapshot) -> int | None:
        """Return the replica that an administrator wants as master now; None: nobody."""
        found = snapshot.keys.get(self.wanted)
        return None if found is None else whole_number(found.value.decode("ascii", "replace"))

    def alive(self, replica: int) -> str:
        return f"{self.prefix}alive/{replica}"

    def place(self, replica: int) -> str:
        return f"{self.prefix}replicas/{replica}"

    def seen_in(self, snapshot: Snapshot) -> dict[int, ReplicaSeen]:
        """Return what replicas say of themselves. Raises ProtocolError for an entry that cannot be read."""
        return {replica: decode_seen(value) for replica, value in _below(snapshot, self.prefix + "alive/").items()}

    def places_in(self, snapshot: Snapshot) -> dict[int, ReplicaPlace]:
        """Return where the replicas of this set are reached. Raises ProtocolError for what cannot be read."""
        return {replica: decode_place(value) for replica, value in _below(snapshot, self.prefix + "replicas/").items()}


def _below(snapshot: Snapshot, prefix: str) -> Mapping[int, bytes]:
    found = {key.removeprefix(prefix): stored.value for key, stored in snapshot.keys.items() if key.startswith(prefix)}
    return {number: value for text, value in found.items() if (number := whole_number(text)) is not None}


def encode_seen(seen: ReplicaSeen) -> bytes:
    return msgspec.json.encode(_Seen(*seen))


def decode_seen(content: bytes) -> ReplicaSeen:
    """Return what a replica says of itself. Raises ProtocolError."""
    try:
        found = msgspec.json.decode(content, type=_Seen)
    except msgspec.DecodeError as fault:
        raise ProtocolError(f"what a replica says of itself cannot be read: {fault}") from None
    return ReplicaSeen(found.epoch, found.end, found.is_amnesiac, found.stands, found.misses)


def encode_place(place: ReplicaPlace) -> bytes:
    return msgspec.json.encode(place)


def decode_place(content: bytes) -> ReplicaPlace:
    """Return where a replica is. Raises ProtocolError."""
    try:
        return msgspec.json.decode(content, type=ReplicaPlace)
    except msgspec.DecodeError as fault:
        raise ProtocolError(f"where a replica is cannot be read: {fault}") from None
