"""A set of replicas that a controller leads, as the coordination store has it: one key, changed by its version only.

    /pyromq/CLUSTER/NAME/controlled    this value: replicas, master, epochs, in-sync set

JSON that a person can read with etcdctl.
"""

from __future__ import annotations

import msgspec

from ..coordination.store import CoordinationRefused

FIRST_ID = 1
NO_EPOCH = 0


class KnownReplica(msgspec.Struct, frozen=True, rename="camel"):
    """Where a replica is reached, and by which code it asked for its id: with the same one it may ask again."""

    address: str
    check_code: str


class ReplicaSet(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`master` is None before the first election, and while nobody can be elected.

    `epoch` grows with each change of the master, `set_epoch` with each change of the in-sync set. Ids are never given
    out twice, so `next_id` only grows. `switched_ms` and `switched_why` are for people."""

    epoch: int = NO_EPOCH
    master: int | None = None
    in_sync: frozenset[int] = frozenset()
    set_epoch: int = 0
    next_id: int = FIRST_ID
    replicas: dict[int, KnownReplica] = {}
    switched_ms: int = 0
    switched_why: str = ""

    @property
    def master_address(self) -> str | None:
        return self.address_of(self.master)

    def address_of(self, replica: int | None) -> str | None:
        found = self.replicas.get(replica) if replica is not None else None
        return None if found is None else found.address

    def changed(self, **fields: object) -> ReplicaSet:
        """Return the set with other values in these fields."""
        return msgspec.structs.replace(self, **fields)

    def encode(self) -> bytes:
        return msgspec.json.encode(msgspec.to_builtins(self, str_keys=True, order="deterministic"), order="sorted")


def decode_set(content: bytes, key: str) -> ReplicaSet:
    """Return the set. Raises CoordinationRefused, which names the key and what is wrong with it."""
    try:
        return msgspec.json.decode(content, type=ReplicaSet)
    except msgspec.DecodeError as fault:
        raise CoordinationRefused(f"{key} of the coordination store cannot be read: {fault}") from None
