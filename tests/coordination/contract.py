"""What every coordination store promises, as scenarios: run against etcd and against the simulations' twin.

Each takes two members of one store, a prefix of its own and the clock that time passes by.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from pyromq.ambient import Clock
from pyromq.coordination.store import ABSENT, Coordination, Put, Verdict

Scenario = Callable[["Members"], Awaitable[None]]


@dataclass(frozen=True)
class Members:
    """Two clients of one store."""

    first: Coordination
    second: Coordination
    prefix: str
    clock: Clock

    def key(self, name: str) -> str:
        return self.prefix + name


async def reads_what_was_written(members: Members) -> None:
    empty = await members.second.read(members.prefix)
    assert empty.keys == {}
    done = await members.first.change({members.key("a"): ABSENT}, [Put(members.key("a"), b"\x00\xff1")])
    assert done.verdict is Verdict.DONE
    assert done.revision > empty.revision
    found = await members.second.read(members.prefix)
    assert found.keys == {members.key("a"): (b"\x00\xff1", done.revision)}
    assert found.revision >= done.revision


async def compares_versions(members: Members) -> None:
    a, b = members.key("a"), members.key("b")
    first = await members.first.change({a: ABSENT}, [Put(a, b"1")])
    assert (await members.second.change({a: ABSENT}, [Put(a, b"2")])).verdict is Verdict.CONFLICT
    assert (await members.second.change({a: first.revision, b: 7}, [Put(a, b"2")])).verdict is Verdict.CONFLICT
    second = await members.second.change({a: first.revision, b: ABSENT}, [Put(a, b"2"), Put(b, b"3")])
    assert second.verdict is Verdict.DONE
    assert (await members.first.change({a: first.revision}, [], [a])).verdict is Verdict.CONFLICT
    assert (await members.first.change({a: second.revision}, [], [a])).verdict is Verdict.DONE
    assert {key: found.value for key, found in (await members.first.read(members.prefix)).keys.items()} == {b: b"3"}


async def lets_one_of_many_win(members: Members) -> None:
    """A counter that twelve tasks raise by compare-and-swap: no step is lost, none is made twice."""
    key = members.key("counter")
    await members.first.change({key: ABSENT}, [Put(key, b"0")])

    async def raise_it(store: Coordination, times: int) -> None:
        while times:
            found = (await store.read(key)).keys[key]
            outcome = await store.change({key: found.version}, [Put(key, b"%d" % (int(found.value) + 1))])
            assert outcome.verdict is not Verdict.UNKNOWN
            times -= outcome.verdict is Verdict.DONE

    await asyncio.gather(*(raise_it(store, 5) for store in (members.first, members.second) for _ in range(3)))
    assert (await members.first.read(key)).keys[key].value == b"30"


async def drops_keys_of_an_expired_lease(members: Members) -> None:
    held, kept = members.key("held"), members.key("kept")
    lease = await members.first.hold(2)
    assert lease.ttl_s >= 2
    outcome = await members.first.change({held: ABSENT}, [Put(held, b"1", lease), Put(kept, b"1")])
    assert outcome.verdict is Verdict.DONE
    for _ in range(3):
        await members.clock.sleep(lease.ttl_s / 2)
        assert await lease.renew()
    assert held in (await members.second.read(members.prefix)).keys
    async for _ in members.second.watch(members.prefix, outcome.revision):
        if held not in (await members.second.read(members.prefix)).keys:
            break
    assert [*(await members.second.read(members.prefix)).keys] == [kept]
    assert not await lease.renew()
    assert (await members.first.change({}, [Put(held, b"2", lease)])).verdict is Verdict.CONFLICT
    assert held not in (await members.first.read(members.prefix)).keys


async def releases_a_lease(members: Members) -> None:
    lease = await members.first.hold(30)
    await members.first.change({}, [Put(members.key("held"), b"1", lease)])
    await lease.release()
    assert (await members.second.read(members.prefix)).keys == {}
    assert not await lease.renew()
    await lease.release()


async def parts_a_key_from_its_lease(members: Members) -> None:
    """A key that is written again without the lease stays when that is over."""
    key = members.key("a")
    lease = await members.first.hold(30)
    await members.first.change({}, [Put(key, b"1", lease)])
    await members.second.change({}, [Put(key, b"2")])
    await lease.release()
    assert (await members.first.read(members.prefix)).keys[key].value == b"2"


async def tells_of_changes(members: Members) -> None:
    """A watcher that reads at each word sees the last state; changes elsewhere wake nobody."""
    key = members.key("a")
    begun = (await members.first.read(members.prefix)).revision
    watch = members.second.watch(members.prefix, begun)
    first = await members.first.change({}, [Put(key, b"1")])
    assert await anext(watch) >= first.revision
    other = members.prefix.rstrip("/") + "-other/a"
    await members.first.change({}, [Put(other, b"1")])
    last = await members.first.change({}, [], [key])
    assert await anext(watch) >= last.revision
    assert (await members.second.read(members.prefix)).keys == {}
    again = members.second.watch(members.prefix, begun)  # from the past: it has happened already
    assert await anext(again) >= first.revision


SCENARIOS: tuple[Scenario, ...] = (
    reads_what_was_written,
    compares_versions,
    lets_one_of_many_win,
    drops_keys_of_an_expired_lease,
    releases_a_lease,
    parts_a_key_from_its_lease,
    tells_of_changes,
)
