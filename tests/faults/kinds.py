"""The faults: each is a context manager that breaks something of a room, and mends it at the end of its block."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from random import Random

from tests.faults.node import Node
from tests.faults.room import CLIENT, NotInTime, Room, move_etcd_leader, wait_until

Break = Callable[[Room, Random], AbstractContextManager[None]]
Choose = Callable[[Room, Random], Sequence[Node]]

LOSS_PERCENT = 20
STROBE_S = 0.2
HOUR_S = 3600.0
WHOLE_S = 20.0  # that the next restart of several waits, at most


@dataclass(frozen=True)
class Kind:
    """A kind of fault, and for how many seconds it lasts.

    `needs_flush`: acknowledged messages may be lost by it, unless the set has `haAckAfterFlush`."""

    break_it: Break
    least_s: float = 2.0
    most_s: float = 8.0
    needs_flush: bool = False


# --- whom it concerns ------------------------------------------------------------------------------------------------


def master(room: Room, rng: Random) -> Sequence[Node]:
    return [room.master()]


def follower(room: Room, rng: Random) -> Sequence[Node]:
    return [rng.choice(room.followers())]


def everybody(room: Room, rng: Random) -> Sequence[Node]:
    return list(room.nodes.values())


def master_and_follower(room: Room, rng: Random) -> Sequence[Node]:
    return [room.master(), rng.choice(room.followers())]


def at_once(do: Callable[[Node], None], nodes: Sequence[Node]) -> None:
    """Do it to all of them at about the same time."""
    with ThreadPoolExecutor(len(nodes)) as pool:
        list(pool.map(do, nodes))


# --- processes -------------------------------------------------------------------------------------------------------


@contextmanager
def killed(choose: Choose, room: Room, rng: Random) -> Iterator[None]:
    nodes = choose(room, rng)
    at_once(Node.kill, nodes)
    yield
    at_once(Node.restart, nodes)


@contextmanager
def stopped(choose: Choose, room: Room, rng: Random) -> Iterator[None]:
    nodes = choose(room, rng)
    at_once(Node.stop, nodes)
    yield
    at_once(Node.restart, nodes)


@contextmanager
def paused(choose: Choose, room: Room, rng: Random) -> Iterator[None]:
    nodes = choose(room, rng)
    for node in nodes:
        node.pause()
    yield
    for node in nodes:
        node.resume()


@contextmanager
def restarted(choose: Choose, room: Room, rng: Random) -> Iterator[None]:
    """Stop and start one after the other, each once all replicas are in sync."""
    for node in choose(room, rng):
        with suppress(NotInTime):  # while another fault is there it is not
            wait_until(room.is_whole, "all replicas in sync", WHOLE_S)
        node.stop()
        node.restart()
    yield


@contextmanager
def etcd_killed(count: int, room: Room, rng: Random) -> Iterator[None]:
    nodes = rng.sample(list(room.nodes.values()), count)
    for node in nodes:
        node.etcd.kill()
    yield
    for node in nodes:
        node.start_etcd()  # not waited for: another fault may still keep it from the others


@contextmanager
def etcd_paused(count: int, room: Room, rng: Random) -> Iterator[None]:
    nodes = rng.sample(list(room.nodes.values()), count)
    for node in nodes:
        if node.etcd.program is not None:
            node.etcd.pause()
    yield
    for node in nodes:
        if node.etcd.program is not None:
            node.etcd.resume()


# --- links -----------------------------------------------------------------------------------------------------------


@contextmanager
def cut_off(choose: Choose, room: Room, rng: Random) -> Iterator[None]:
    """Cut off from everybody, clients too."""
    with room.network.mended_after():
        for node in choose(room, rng):
            for other in room.others(node):
                room.network.cut(node.name, other)
        yield


@contextmanager
def cut_from_peers(choose: Choose, room: Room, rng: Random) -> Iterator[None]:
    """Cut off from the other machines, of the set and of etcd; clients and the name server still reach it."""
    with room.network.mended_after():
        for node in choose(room, rng):
            for other in room.others(node):
                if other != CLIENT:
                    room.network.cut(node.name, other)
        yield


@contextmanager
def deaf(choose: Choose, room: Room, rng: Random) -> Iterator[None]:
    """Nothing arrives there; what it sends arrives elsewhere."""
    with room.network.mended_after():
        for node in choose(room, rng):
            for other in room.others(node):
                room.network.cut_one_way(other, node.name)
        yield


@contextmanager
def mute(choose: Choose, room: Room, rng: Random) -> Iterator[None]:
    """Nothing that it sends arrives; what others send arrives there."""
    with room.network.mended_after():
        for node in choose(room, rng):
            for other in room.others(node):
                room.network.cut_one_way(node.name, other)
        yield


@contextmanager
def cut_off_with_etcd(room: Room, rng: Random) -> Iterator[None]:
    """Cut off the master from everybody, with the member of etcd that leads there: all leases last longer then."""
    node = room.master()
    with suppress(NotInTime):  # while another fault is there
        move_etcd_leader(node.etcd, [other.etcd for other in room.nodes.values()], room.client)
    with cut_off(lambda _room, _rng: [node], room, rng):
        yield


@contextmanager
def flapping(choose: Choose, room: Room, rng: Random) -> Iterator[None]:
    """Cut off and not, a second each, three times."""
    for _ in range(3):
        with cut_off(choose, room, rng):
            time.sleep(1.0)
        time.sleep(1.0)
    yield


@contextmanager
def lossy(room: Room, rng: Random) -> Iterator[None]:
    with room.network.mended_after():
        for name in room.network.hosts:
            room.network.lose(name, LOSS_PERCENT)
        yield


# --- disks and clocks ------------------------------------------------------------------------------------------------


@contextmanager
def slow_disk(choose: Choose, room: Room, rng: Random) -> Iterator[None]:
    nodes = choose(room, rng)
    for node in nodes:
        node.shim.slow_syncs(rng.uniform(0.2, 1.0))
    yield
    for node in nodes:
        node.shim.slow_syncs(0.0)


@contextmanager
def full_disk(choose: Choose, room: Room, rng: Random) -> Iterator[None]:
    nodes = choose(room, rng)
    for node in nodes:
        node.disk.fill()
    yield
    for node in nodes:
        node.disk.free()
        if not node.is_up:
            node.kill()
            node.restart()


@contextmanager
def without_power(choose: Choose, room: Room, rng: Random) -> Iterator[None]:
    nodes = choose(room, rng)
    at_once(Node.cut_power, nodes)
    yield
    at_once(Node.boot, nodes)


@contextmanager
def stepped_clock(step_s: float, choose: Choose, room: Room, rng: Random) -> Iterator[None]:
    nodes = choose(room, rng)
    for node in nodes:
        node.shim.step_clock(step_s)
    yield
    for node in nodes:
        node.shim.step_clock(0.0)


@contextmanager
def strobing_clocks(room: Room, rng: Random) -> Iterator[None]:
    """Let all clocks jump, each for itself."""
    for _ in range(10):
        for node in room.nodes.values():
            node.shim.step_clock(rng.uniform(-HOUR_S, HOUR_S))
        time.sleep(STROBE_S)
    yield
    for node in room.nodes.values():
        node.shim.step_clock(0.0)


# Those that start processes again come first: of several at a time the first is mended last, when etcd is there again.
# A rolling restart is over when its turn is: nothing that keeps a broker from starting may be there before it.
FAULTS: dict[str, Kind] = {
    "rolling-restart": Kind(partial(restarted, everybody), least_s=0.0, most_s=1.0),
    "kill-master": Kind(partial(killed, master)),
    "kill-follower": Kind(partial(killed, follower)),
    "kill-two": Kind(partial(killed, master_and_follower)),
    "kill-all": Kind(partial(killed, everybody), most_s=4.0),
    "power-master": Kind(partial(without_power, master)),
    "power-follower": Kind(partial(without_power, follower)),
    "power-two": Kind(partial(without_power, master_and_follower), most_s=4.0, needs_flush=True),
    "power-all": Kind(partial(without_power, everybody), most_s=4.0, needs_flush=True),
    "stop-master": Kind(partial(stopped, master)),
    "pause-master": Kind(partial(paused, master), least_s=1.0, most_s=12.0),
    "pause-follower": Kind(partial(paused, follower), least_s=1.0),
    "pause-all": Kind(partial(paused, everybody), most_s=6.0),
    "cut-master": Kind(partial(cut_off, master), most_s=12.0),
    "cut-master-and-etcd-leader": Kind(cut_off_with_etcd, most_s=12.0),
    "cut-master-from-peers": Kind(partial(cut_from_peers, master), most_s=12.0),
    "cut-follower": Kind(partial(cut_off, follower)),
    "deaf-master": Kind(partial(deaf, master), most_s=12.0),
    "mute-master": Kind(partial(mute, master), most_s=12.0),
    "deaf-follower": Kind(partial(deaf, follower)),
    "mute-follower": Kind(partial(mute, follower)),
    "flapping-master": Kind(partial(flapping, master), least_s=0.0, most_s=1.0),
    "packet-loss": Kind(lossy),
    "slow-disk-master": Kind(partial(slow_disk, master)),
    "slow-disk-all": Kind(partial(slow_disk, everybody)),
    "full-disk-master": Kind(partial(full_disk, master), least_s=6.0, most_s=12.0),
    "full-disk-follower": Kind(partial(full_disk, follower), least_s=6.0, most_s=12.0),
    "clock-ahead-master": Kind(partial(stepped_clock, HOUR_S, master)),
    "clock-back-master": Kind(partial(stepped_clock, -HOUR_S, master)),
    "clock-strobe": Kind(strobing_clocks),
    "etcd-kill-one": Kind(partial(etcd_killed, 1)),
    "etcd-kill-all": Kind(partial(etcd_killed, 3)),
    "etcd-pause-all": Kind(partial(etcd_paused, 3)),
}
