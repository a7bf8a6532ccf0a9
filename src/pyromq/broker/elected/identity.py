"""Which replica of which set a store is: its number is claimed once in the coordination store, and kept on disk.

`brokerIdentity` is Java's file; `pyromq/storeId` tells this store from a copy of it. Both are on disk before the
coordination store is asked, so a start that was killed in between finds its own claim.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...ambient import Random
from ...coordination.store import ABSENT, Coordination, Put, Snapshot, Verdict
from ...errors import ConfigError
from ...model.wire_text import whole_number
from ...protocol.replication.epochs import EpochList
from ...store.files.disk import Disk, make_folder_durably, read_if_there, replace_durably
from ..election.set_state import decode_state
from .set_keys import ReplicaPlace, SetKeys, encode_place

IDENTITY_FILE = "brokerIdentity"
STORE_ID_FILE = "pyromq/storeId"


@dataclass(frozen=True, slots=True)
class SetName:
    """Which elected set a broker is configured for."""

    cluster: str
    broker: str

    def __str__(self) -> str:
        return f"{self.broker} in {self.cluster}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What a store brings along when it asks to be a replica. `has_records`: its log is not empty."""

    name: SetName
    address: str
    ha_address: str
    epochs: EpochList
    has_records: bool


async def claim_replica(coordination: Coordination, keys: SetKeys, disk: Disk, claim: Claim, rng: Random) -> int:
    """Return the number of this replica, claimed for this store. Raises ConfigError where that must not be.

    Raises CoordinationUnreachable if nobody answers."""
    store_id = _store_id(disk, rng)
    known = known_number(disk, claim.name)
    place = ReplicaPlace(claim.address, claim.ha_address, store_id)
    while True:
        found = await coordination.read(keys.prefix)
        _refuse_wrong_store(found, keys, disk, claim)
        places = keys.places_in(found)
        own = [replica for replica, there in places.items() if there.store_id == store_id]
        number = known or (own[0] if own else _free_number(places))
        there = places.get(number)
        if there is not None and there.store_id != store_id:
            raise ConfigError(
                f"replica {number} of {claim.name} is another store, at {there.address}: this one, {disk.root}, may be "
                f"a copy of it. Remove {IDENTITY_FILE} and {STORE_ID_FILE} here to make it a new replica"
            )
        if there == place:
            break
        key = keys.place(number)
        version = found.keys[key].version if there is not None else ABSENT
        outcome = await coordination.change({key: version}, [Put(key, encode_place(place))])
        if outcome.verdict is Verdict.DONE:
            break
    if known is None:
        keep_number(disk, claim.name, number)
    return number


def keep_number(disk: Disk, name: SetName, number: int) -> None:
    """Keep the number of this store, durably, in Java's file."""
    replace_durably(disk, IDENTITY_FILE, f"{name.cluster}#{name.broker}#{number}".encode())


def _store_id(disk: Disk, rng: Random) -> str:
    content = read_if_there(disk, STORE_ID_FILE)
    if content is not None:
        return content.decode("ascii", "replace").strip()
    made = f"{rng.getrandbits(64):016x}"
    make_folder_durably(disk, "pyromq")
    replace_durably(disk, STORE_ID_FILE, made.encode())
    return made


def known_number(disk: Disk, name: SetName) -> int | None:
    """Return the number that this store has; None: it has none yet. Raises ConfigError for that of another set."""
    content = read_if_there(disk, IDENTITY_FILE)
    if content is None:
        return None
    cluster, _, rest = content.decode("utf-8", "replace").strip().partition("#")
    broker, _, number = rest.partition("#")
    if (cluster, broker) != (name.cluster, name.broker):
        raise ConfigError(
            f"{disk.root} is the store of {SetName(cluster, broker)} ({IDENTITY_FILE}), this broker is of {name}: "
            "correct brokerName and brokerClusterName, or storePathRootDir"
        )
    found = whole_number(number, 1)
    if found is None:
        raise ConfigError(f"{disk.root}/{IDENTITY_FILE} names no replica: it has {number!r} where a number stands")
    return found


def _free_number(places: dict[int, ReplicaPlace]) -> int:
    return next(number for number in range(1, len(places) + 2) if number not in places)


def _refuse_wrong_store(found: Snapshot, keys: SetKeys, disk: Disk, claim: Claim) -> None:
    """Raise ConfigError where this store and what the coordination store knows do not fit together."""
    stored = found.keys.get(keys.state)
    if stored is None:
        if claim.epochs.entries:
            raise ConfigError(
                f"{disk.root} has epoch {claim.epochs.newest} of {claim.name}, and etcd knows nothing of that set: "
                "correct etcdEndpoints or etcdPrefix. If etcd's data are lost for good, move epochFileCheckpoint away "
                "from the replica with the longest log, and the stores of the others; start that one first"
            )
        return
    state = decode_state(stored.value)
    if claim.epochs.newest > state.epoch:
        raise ConfigError(
            f"{disk.root} has epoch {claim.epochs.newest} of {claim.name}, and etcd is at epoch {state.epoch}: its "
            "data are older than this store. Restore a newer backup of etcd"
        )
    if claim.has_records and not claim.epochs.entries:
        raise ConfigError(
            f"{disk.root} has records that are of no elected set, and {claim.name} has others: start this replica with "
            "an empty storePathRootDir. It gets everything from its master"
        )
