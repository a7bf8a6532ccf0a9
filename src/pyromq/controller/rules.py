"""What a controller may change of a set of replicas: rules without I/O, with the codes and texts of Java's 5.5.0.

Each function returns the set as it is to be, or raises RequestRefused. `is_alive` says of an id whether its broker was
heard lately.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from ..errors import RequestRefused
from ..model.codes import ResponseCode as Code
from ..model.wire_text import whole_number
from .replica_set import FIRST_ID, KnownReplica, ReplicaSet

IsAlive = Callable[[int], bool]
NO_METADATA = "Broker metadata is not existed"


def with_id(found: ReplicaSet | None, name: str, applied: int, check_code: str) -> ReplicaSet:
    """Give an id to a broker, which the set is made for if it is the first one."""
    if found is None:
        if applied != FIRST_ID:
            raise RequestRefused(
                f"Broker-set: {name} hasn't been registered in controller, but broker try to apply brokerId: {applied}",
                Code.CONTROLLER_BROKER_ID_INVALID,
            )
        found = ReplicaSet()
    holder = found.replicas.get(applied)
    if applied < FIRST_ID or (holder is not None and holder.check_code != check_code):
        raise RequestRefused(
            f"Fail to apply brokerId: {applied} in broker-set: {name}", Code.CONTROLLER_BROKER_ID_INVALID
        )
    if holder is not None:
        return found
    replica = KnownReplica(address=check_code.partition(";")[0], check_code=check_code)
    return found.changed(
        replicas={**found.replicas, applied: replica}, next_id=max(found.next_id, applied + 1)
    )  # Java adds 1 whatever was applied for, and may give one id out twice


def with_address(found: ReplicaSet | None, name: str, replica: int, address: str) -> ReplicaSet:
    """Note where a broker that has its id is reached now."""
    if found is None:
        raise RequestRefused(
            f"Broker-set: {name} hasn't been registered in controller", Code.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED
        )
    known = found.replicas.get(replica)
    if known is None:
        raise RequestRefused(
            f"BrokerId: {replica} hasn't been registered in broker-set: {name}",
            Code.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED,
        )
    if known.address == address:
        return found
    moved = KnownReplica(address=address, check_code=known.check_code)
    return found.changed(replicas={**found.replicas, replica: moved})


def with_in_sync(
    found: ReplicaSet | None,
    asked: Collection[int],
    *,
    master: int | None,
    epoch: int | None,
    set_epoch: int,
    minimum: int,
    is_alive: IsAlive,
) -> ReplicaSet:
    """Take the in-sync set that a master asks for, which has to know the present one."""
    if found is None:
        raise RequestRefused(NO_METADATA, Code.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED)
    wanted = frozenset(asked)
    if wanted == found.in_sync:
        raise _not_altered(
            "The newSyncStateSet is equal with oldSyncStateSet, no needed to update syncStateSet",
            Code.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED,
        )
    reject = "Rejecting alter syncStateSet request because the"
    if found.master is None or found.master != master:
        raise _not_altered(
            f"{reject} current leader is:{{{_java(found.master)}}}, not {{{_java(master)}}}",
            Code.CONTROLLER_INVALID_MASTER,
        )
    if epoch != found.epoch:
        raise _not_altered(
            f"{reject} current master epoch is:{{{found.epoch}}}, not {{{_java(epoch)}}}",
            Code.CONTROLLER_FENCED_MASTER_EPOCH,
        )
    if set_epoch != found.set_epoch:
        raise _not_altered(
            f"{reject} current syncStateSet epoch is:{{{found.set_epoch}}}, not {{{set_epoch}}}",
            Code.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH,
        )
    _check_members(found, wanted, minimum, is_alive)
    return found.changed(in_sync=wanted, set_epoch=found.set_epoch + 1)


def _check_members(found: ReplicaSet, wanted: frozenset[int], minimum: int, is_alive: IsAlive) -> None:
    reject = "Rejecting alter syncStateSet request because the"
    for replica in sorted(wanted):
        if replica not in found.replicas:
            raise _not_altered(f"{reject} replicas {{{replica}}} don't exist", Code.CONTROLLER_INVALID_REPLICAS)
        if not is_alive(replica):
            raise _not_altered(f"{reject} replicas {{{replica}}} don't alive", Code.CONTROLLER_BROKER_NOT_ALIVE)
    if found.master not in wanted:
        raise _not_altered(
            f"{reject} newSyncStateSet don't contains origin leader {{{_java(found.master)}}}",
            Code.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED,
        )
    if len(wanted) < minimum and not wanted > found.in_sync:  # ours: Java's controller knows no minimum
        raise _not_altered(
            f"{reject} newSyncStateSet would have {len(wanted)} members, and minInSyncReplicas is {minimum}: who is "
            "gone stays in it until it is back or another has caught up",
            Code.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED,
        )


def without(
    found: ReplicaSet | None, name: str, ids: str, *, even_living: bool, is_alive: IsAlive
) -> ReplicaSet | None:
    """Forget replicas by their ids (`1;2`), or all of the set where none is named. None: nothing is left of it."""
    gone: set[int] = set()
    if not even_living:
        gone = _ids(ids)
        if not gone and found is not None and found.master is not None:
            raise _not_cleaned(f"Broker {name} is still alive, clean up failure")
        for replica in sorted(gone):
            if is_alive(replica):
                raise _not_cleaned(f"Broker [{name},  {replica}] is still alive, clean up failure")
    if found is None:
        raise _not_cleaned(f"Broker {name} is not existed,clean broker data failure.")
    replicas = {replica: known for replica, known in found.replicas.items() if gone and replica not in gone}
    if not replicas:
        return None
    return found.changed(
        replicas=replicas, in_sync=found.in_sync - gone, master=None if found.master in gone else found.master
    )


def _ids(text: str) -> set[int]:
    found = [whole_number(part.strip()) for part in text.split(";") if part.strip()]
    if None in found:
        raise _not_cleaned(
            f"Please set the option <brokerControllerIdsToClean> according to the format, exception: {text[:100]!r}"
        )
    return {number for number in found if number is not None}


def _not_cleaned(remark: str) -> RequestRefused:
    return RequestRefused(remark, Code.CONTROLLER_INVALID_CLEAN_BROKER_METADATA)


def _not_altered(remark: str, code: Code) -> RequestRefused:
    return RequestRefused(remark, code)


def _java(number: int | None) -> str:
    return "null" if number is None else str(number)
