"""A damaged wheel is noticed when it is opened, after a stop and after a kill; a whole one is not taken for damaged."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyromq.store.timer.timer_log import UNIT_BYTES
from pyromq.store.timer.timer_state import CHECK_FILE, STATE_FILE
from pyromq.store.timer.timer_store import TimerStore
from pyromq.testing.simulated_disk import SimulatedDisk
from tests.store.test_timer_store import NOW, SMALL, drain, message, opened

SLOT_BYTES = 32
MESSAGES = 40
WHEEL, LOG = "timerwheel", "timerlog/00000000000000000000"


def place(ahead_s: int) -> int:
    """Of a slot in the wheel's file."""
    return (NOW // 1000 + ahead_s) % SMALL.wheel_slots * SLOT_BYTES


def filled(how: str) -> SimulatedDisk:
    """Forty messages in twenty slots, the older half in slots that were synced long ago."""
    disk = SimulatedDisk()
    store = opened(disk)
    for number in range(0, MESSAGES, 10):
        store.add([message(number + n, 20 + (number + n) // 2) for n in range(10)], NOW)
        store.flush(NOW + number)
    if how == "stop":
        store.close(NOW + MESSAGES)
        return disk
    return disk.kill()


def fed_again(store: TimerStore) -> list[int]:
    """What is delivered once the topic was read on from where the store says."""
    store.add([message(n, 20 + n // 2) for n in range(store.queue_offset, MESSAGES)], NOW)
    return sorted(position for _, positions in drain(store, NOW + 100_000) for position in positions)


def zeroed(disk: SimulatedDisk, start: int, length: int) -> None:
    file = disk.open(WHEEL)
    file.pwrite(start, bytes(length))
    file.sync()


DAMAGES: dict[str, Callable[[SimulatedDisk], None]] = {
    "all zeros": lambda disk: zeroed(disk, 0, disk.size(WHEEL)),
    "a page of zeros": lambda disk: zeroed(disk, place(20) // 4096 * 4096, 4096),
    "one slot of zeros": lambda disk: zeroed(disk, place(22), SLOT_BYTES),
    "tick in the past": lambda disk: disk.flip_bit(WHEEL, place(22) + 4, 6),
    "tick by one bit": lambda disk: disk.flip_bit(WHEEL, place(22) + 7),
    "first unit": lambda disk: disk.flip_bit(WHEEL, place(22) + 15, 3),
    "last unit": lambda disk: disk.flip_bit(WHEEL, place(22) + 23, 3),
}


@pytest.mark.parametrize("how", ["stop", "kill"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_wheel_is_noticed_and_nothing_is_lost(
    damage: str, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    disk = filled(how)
    DAMAGES[damage](disk)
    store = opened(disk, NOW + MESSAGES)
    assert (store.queue_offset, store.known_before) == (0, MESSAGES)
    assert "made anew" in caplog.text
    assert fed_again(store) == [1000 + n * 100 for n in range(MESSAGES)]


def test_after_a_stop_a_flipped_count_is_noticed() -> None:
    disk = filled("stop")
    disk.flip_bit(WHEEL, place(22) + 27, 4)
    assert opened(disk).queue_offset == 0


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_whole_wheel_is_taken_as_it_is(how: str, caplog: pytest.LogCaptureFixture) -> None:
    store = opened(filled(how), NOW + MESSAGES)
    assert (store.queue_offset, store.known_before, store.waiting) == (MESSAGES, 0, MESSAGES)
    assert "made anew" not in caplog.text
    assert fed_again(store) == [1000 + n * 100 for n in range(MESSAGES)]


@pytest.mark.parametrize("pause_s", [40, 1500])
@pytest.mark.parametrize("seed", range(40))
def test_no_power_cut_looks_like_damage(seed: int, pause_s: int) -> None:
    """Slots come and go, are used by the next turn, and are carried: whatever is left, it is not made anew."""
    disk = SimulatedDisk()
    store = opened(disk)
    now, number = NOW, 0
    for step in range(6 + seed % 5):
        ahead = (2, 30, 3000, 7190)
        store.add([message(number + n, ahead[(n + step) % 4] + n % 3, now_ms=now) for n in range(6)], now)
        number += 6
        if step == 4:
            store.copied(store.pending_before(1200, 0, 100))
            store.carried(1200, now)
        if step % 3 == seed % 3:
            store.flush(now)
            if pause_s > 1000:
                disk.open(CHECK_FILE).sync()  # as the kernel does by itself before half a turn of the wheel is over
        now += (seed % 7 + 1) * pause_s * 1000
        while (slot := store.next_slot_ms()) is not None and slot + 1000 <= now:
            store.done(slot)
        store.passed(now)
    after = opened(disk.crash(seed), now)
    assert after.known_before == 0


def test_a_checkpoint_of_java_from_before_is_no_damage() -> None:
    """A kill between our state and Java's: slots that have left are looked at again."""
    disk = SimulatedDisk()
    store = opened(disk)
    store.add([message(0, 5), message(1, 9)], NOW)
    store.flush(NOW)
    before = disk.open(CHECK_FILE).pread(0, 56)
    drain(store, NOW + 7000)
    store.flush(NOW + 7000)
    disk.open(CHECK_FILE).pwrite(0, before)
    after = opened(disk.kill(), NOW + 7000)
    assert (after.known_before, after.waiting) == (0, 2)
    assert drain(after, NOW + 20_000) == [(5, [1000]), (9, [1100])]


def test_a_state_of_an_older_version_has_no_checksum_and_is_taken() -> None:
    disk = filled("stop")
    raw = disk.open(STATE_FILE).pread(0, disk.size(STATE_FILE))
    start = raw.index(b',"wheelChecksum"')
    file = disk.open(STATE_FILE)
    file.truncate(0)
    file.pwrite(0, raw[:start] + b"}")
    assert opened(disk).waiting == MESSAGES


def test_a_chain_that_ends_too_early_is_noticed_when_its_slot_comes() -> None:
    disk = SimulatedDisk()
    store = opened(disk)
    store.add([message(n, 5) for n in range(3)], NOW)
    store.close(NOW)
    disk.open(LOG).pwrite(2 * UNIT_BYTES + 4, (-1).to_bytes(8, "big", signed=True))  # the last unit's predecessor
    after = opened(disk)
    assert after.take(NOW + 5000) is None
    assert after.queue_offset == 0
