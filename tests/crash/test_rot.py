"""Any file is flipped, zeroed, cut or gone: opening copes, nothing wrong is shown, only what was hit is lost.

A log file that is gone or cut below what was synced is the owner's to decide about: opening refuses until then.

Rot in queues and index may stay unnoticed by opening, which reads only their ends; then verify finds it, and a rebuild
brings everything back.

A queue file of a store that was not stopped cleanly is flipped or gone: what is zeroed or cut off at its end looks like
what a power cut leaves.
"""

from __future__ import annotations

from random import Random

import pytest

from pyromq.store.config import FlushMode
from pyromq.store.errors import StoreDamaged
from pyromq.store.message_store import MessageStore
from pyromq.store.recovery.store_state import missing_log, read_store_state
from pyromq.store.tools.by_hand import accept_loss
from pyromq.store.tools.rebuild import rebuild_store
from pyromq.store.tools.verify import verify_store
from pyromq.testing.clock import ManualClock
from pyromq.testing.simulated_disk import SimulatedDisk
from tests.crash.history import Put
from tests.crash.lives import Story, check_clean
from tests.crash.test_simulated import everything_but_gaps

SEEDS = 150


def all_files(disk: SimulatedDisk, folder: str = "") -> list[str]:
    names: list[str] = []
    for name in disk.list(folder):
        path = f"{folder}/{name}" if folder else name
        names += all_files(disk, path) if disk.is_folder(path) else [path]
    return names


def rot(disk: SimulatedDisk, rng: Random, clean_stop: bool) -> tuple[str, int, int]:
    """Harm one file other than the tables; its name, and the range that was hit."""
    name = rng.choice([name for name in all_files(disk) if not name.startswith("config/") and disk.size(name)])
    size = disk.size(name)
    offset = rng.randrange(size)
    is_queue = name.startswith("consumequeue/")
    kind = rng.choice(["flip", "zero", "cut", "gone"] if clean_stop or not is_queue else ["flip", "gone"])
    if kind == "flip":
        disk.flip_bit(name, offset, rng.randrange(8))
        return name, offset, offset + 1
    file = disk.open(name)
    if kind == "zero":
        length = min(rng.choice([1, 512, 4096]), size - offset)
        file.pwrite(offset, bytes(length))
        file.sync()
        return name, offset, offset + length
    if kind == "cut":
        file.truncate(offset)
        file.sync()
        return name, offset, size
    disk.remove(name)
    disk.sync_folder(name.rpartition("/")[0])
    return name, 0, size


@pytest.mark.parametrize("stop", ["clean", "killed"])
def test_rot_in_any_file_costs_only_what_it_hit(stop: str) -> None:
    for seed in range(SEEDS):
        rng, clock = Random(seed), ManualClock()
        story = Story(Random(seed), FlushMode.SYNC, SimulatedDisk(now_ms=clock.now_ms), clock)
        store = story.open()
        for _ in range(25):
            story.put(store)
        if stop == "clean":
            story.close(store)
        else:
            story.flush_all(store)
            story.disk = story.disk.kill()
        hit = rot(story.disk, rng, stop == "clean")
        try:
            verify_store(story.disk, story.config)
            check_after(story, hit)
        except BaseException as fault:
            fault.add_note(f"seed {seed}: {hit}")
            raise


def check_after(story: Story, hit: tuple[str, int, int]) -> None:
    name, low, high = hit
    accept_what_is_missing(story, name)
    store = MessageStore(story.disk, story.config, story.clock)
    shown = {record.body for record in everything_but_gaps(store)}
    bodies = {put.body for put in story.history.puts}
    assert shown <= bodies
    if name.startswith("commitlog/"):
        base = int(name.rpartition("/")[2])
        lost = [put for put in story.history.puts if put.body not in shown]
        assert all(overlaps(put, base + low, base + high) for put in lost)
    for _ in range(5):  # it goes on
        story.put(store)
    store.close()
    if not name.startswith("commitlog/"):
        check_derived(story)


def accept_what_is_missing(story: Story, name: str) -> None:
    missing = missing_log(story.disk, story.config, read_store_state(story.disk))
    if not missing:
        return
    assert name.startswith("commitlog/")
    with pytest.raises(StoreDamaged, match="accept-loss"):
        MessageStore(story.disk, story.config, story.clock)
    assert accept_loss(story.disk, story.config) == missing


def check_derived(story: Story) -> None:
    """The log was not touched: whatever is wrong is found, and nothing is lost for good."""
    if verify_store(story.disk, story.config).exit_code:
        rebuild_store(story.disk, story.config, story.clock, 1)
    check_clean(story.disk, story.config)
    store = MessageStore(story.disk, story.config, story.clock)
    assert {record.body for record in everything_but_gaps(store)} == {put.body for put in story.history.puts}
    story.history.check_keys(store, story.history.puts)
    store.close()


def overlaps(put: Put, low: int, high: int) -> bool:
    return put.position < high and put.end > low
