"""A replica's number is claimed once for its store; what does not fit together is refused with what to do."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from pyromq.ambient import seeded_random
from pyromq.broker.elected.identity import IDENTITY_FILE, STORE_ID_FILE, Claim, SetName, claim_replica
from pyromq.broker.elected.set_keys import SetKeys
from pyromq.broker.election.candidacy import founding_state
from pyromq.coordination.store import ABSENT, Put
from pyromq.errors import ConfigError
from pyromq.protocol.replication.epochs import EpochList, MasterEpoch
from pyromq.store.files.disk import read_if_there, remove_durably
from pyromq.testing.coordination import CoordinationMember, SimulatedCoordination
from pyromq.testing.simulated_disk import SimulatedDisk
from pyromq.testing.virtual_time import VirtualClock, run_virtually

KEYS = SetKeys("/pyromq/c/a/")
CLAIM = Claim(name=SetName("c", "a"), address="h:1", ha_address="h:2", epochs=EpochList(), has_records=False)
LED = replace(CLAIM, epochs=EpochList([MasterEpoch(3, 0)]), has_records=True)


def run(story: Callable[[CoordinationMember], Awaitable[None]]) -> None:
    async def main(clock: VirtualClock) -> None:
        await story(SimulatedCoordination(clock, seeded_random(1)).member("1"))

    run_virtually(main)


def claimed(member: CoordinationMember, disk: SimulatedDisk, claim: Claim = CLAIM, seed: int = 1) -> Awaitable[int]:
    return claim_replica(member, KEYS, disk, claim, seeded_random(seed))


async def found(member: CoordinationMember) -> None:
    await member.change({KEYS.state: ABSENT}, [Put(KEYS.state, founding_state(1, 2, 0).encode())])


def test_numbers_are_given_from_one_and_kept() -> None:
    async def story(member: CoordinationMember) -> None:
        first, second = SimulatedDisk(), SimulatedDisk()
        assert await claimed(member, first, seed=1) == 1
        assert await claimed(member, second, seed=2) == 2
        assert await claimed(member, first, seed=3) == 1
        assert read_if_there(second, IDENTITY_FILE) == b"c#a#2"

    run(story)


def test_a_claim_that_was_killed_in_between_is_found_again() -> None:
    async def story(member: CoordinationMember) -> None:
        disk = SimulatedDisk()
        assert await claimed(member, disk) == 1
        remove_durably(disk, IDENTITY_FILE)
        assert await claimed(member, disk) == 1

    run(story)


def test_another_address_is_told() -> None:
    async def story(member: CoordinationMember) -> None:
        disk = SimulatedDisk()
        await claimed(member, disk)
        await claimed(member, disk, replace(CLAIM, address="h:9"))
        assert KEYS.places_in(await member.read(KEYS.prefix))[1].address == "h:9"

    run(story)


def test_two_stores_with_one_number_are_refused() -> None:
    async def story(member: CoordinationMember) -> None:
        disk = SimulatedDisk()
        await claimed(member, disk)
        remove_durably(disk, STORE_ID_FILE)  # as a store that was copied without it
        with pytest.raises(ConfigError, match="may be a copy"):
            await claimed(member, disk, seed=9)

    run(story)


def test_a_store_of_another_set_is_refused() -> None:
    async def story(member: CoordinationMember) -> None:
        disk = SimulatedDisk()
        await claimed(member, disk)
        with pytest.raises(ConfigError, match="is the store of a in c"):
            await claimed(member, disk, replace(CLAIM, name=SetName("c", "b")))

    run(story)


def test_etcd_that_knows_nothing_or_less_than_the_store_is_refused() -> None:
    async def story(member: CoordinationMember) -> None:
        with pytest.raises(ConfigError, match="knows nothing of that set"):
            await claimed(member, SimulatedDisk(), LED)
        await found(member)
        with pytest.raises(ConfigError, match="older than this store"):
            await claimed(member, SimulatedDisk(), LED)

    run(story)


def test_records_of_no_set_do_not_join_one() -> None:
    async def story(member: CoordinationMember) -> None:
        lone = replace(CLAIM, has_records=True)
        assert await claimed(member, SimulatedDisk(), lone) == 1  # it founds the set
        await found(member)
        with pytest.raises(ConfigError, match="an empty storePathRootDir"):
            await claimed(member, SimulatedDisk(), lone, seed=2)

    run(story)
