"""Cutting the end off a log: everything goes with it, and a crash at any moment leaves all of the cut or nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from pyromq.model.names import SCHEDULE_TOPIC, TIMER_TOPIC
from pyromq.protocol.replication.epochs import EpochList, MasterEpoch
from pyromq.store.config import StoreConfig
from pyromq.store.cutting import CUT_MARK, begin_cut, finish_cut, plan_cut, read_cut_mark
from pyromq.store.epochs import load_epochs, save_epochs
from pyromq.store.errors import StoreDamaged, StoreError
from pyromq.store.files.disk import DiskFull, StoreLocked, read_whole, replace_durably
from pyromq.store.files.real_disk import RealDisk
from pyromq.store.message_store import MessageStore
from pyromq.store.tables.json_tables import JsonTable, read_table
from pyromq.store.timer.timer_store import TimedRecord, TimerSettings, TimerStore
from pyromq.store.tools.cut import cut_store, preview_cut
from pyromq.store.tools.verify import verify_store
from pyromq.testing.clock import ManualClock
from pyromq.testing.simulated_disk import PowerCut, SimulatedDisk
from tests.store.conftest import GoldenStore
from tests.store.small import SMALL, bodies, by_key, message, opened, put

BODIES = [b"%03d" % number * 100 for number in range(60)]  # 300 bytes each: four log files


def filled() -> tuple[SimulatedDisk, list[int]]:
    """Sixty messages over two queues, stopped cleanly; where each begins, and where the log ends."""
    disk = SimulatedDisk()
    store = opened(disk)
    places = []
    for number, body in enumerate(BODIES):
        places.append(store.put([message(body, queue_id=number % 2, keys=f"k{number}")])[0].position)
    end = store.commit_log.end
    store.close()
    return disk, [*places, end]


def assert_cut(disk: SimulatedDisk, count: int, config: StoreConfig = SMALL) -> None:
    """Open it: it has so many messages, by queue and by key, and takes others behind them, also in another life."""
    store = MessageStore(disk, config, ManualClock())
    assert sorted(bodies(store, queue_id=0) + bodies(store, queue_id=1)) == BODIES[:count]
    for number in range(60):
        assert len(by_key(store, "T", f"k{number}")) == (number < count)
    put(store, b"new", queue_id=0)
    store.close()
    assert verify_store(disk, config).exit_code == 0, verify_store(disk, config).findings
    again = MessageStore(disk, config, ManualClock())
    assert bodies(again, queue_id=0) == [*BODIES[:count:2], b"new"]
    again.close()


@pytest.mark.parametrize("count", [0, 1, 2, 17, 18, 19, 20, 40, 59])
def test_the_log_ends_there_and_everything_with_it(count: int) -> None:
    disk, places = filled()
    whole = b"".join(read_whole(disk, f"commitlog/{name}") for name in disk.list("commitlog"))
    plan = preview_cut(disk, SMALL, places[count])
    assert (plan.records, plan.end, plan.bytes) == (60 - count, places[60], places[60] - places[count])
    copy = cut_store(disk, SMALL, ManualClock(), places[count])
    assert verify_store(disk, SMALL).exit_code == 0
    assert verify_store(disk, SMALL).log_end == places[count]
    assert read_whole(disk, copy) == whole[places[count] : places[60]]
    left = b"".join(read_whole(disk, f"commitlog/{name}") for name in disk.list("commitlog"))
    assert left.rstrip(b"\0") == whole[: places[count]].rstrip(b"\0")
    assert_cut(disk, count)


def test_a_cut_at_the_end_changes_nothing() -> None:
    disk, places = filled()
    assert cut_store(disk, SMALL, ManualClock(), places[60]) == ""
    assert not disk.list("pyromq/cut-off")
    assert_cut(disk, 60)


def test_a_second_cut_at_one_place_keeps_both_copies() -> None:
    disk, places = filled()
    first = cut_store(disk, SMALL, ManualClock(), places[50])
    store = opened(disk)
    put(store, b"other")
    store.close()
    second = cut_store(disk, SMALL, ManualClock(), places[50])
    assert (second, len(read_whole(disk, first)) > len(read_whole(disk, second))) == (first + ".2", True)
    assert_cut(disk, 50)


def test_between_two_files_the_log_may_be_cut_at_either_side_of_the_blank_record() -> None:
    disk, places = filled()
    last = max(number for number, place in enumerate(places) if place < 8192)
    kept = preview_cut(disk, SMALL, 8192).kept
    assert kept is not None
    behind = kept.end
    assert behind < 8192 == places[last + 1]
    for place in (behind, 8192):
        disk, _ = filled()
        cut_store(disk, SMALL, ManualClock(), place)
        assert_cut(disk, last + 1)


@pytest.mark.parametrize("moved", [1, -1, 200])
def test_no_record_is_cut_in_two(moved: int) -> None:
    disk, places = filled()
    before = disk.operations
    with pytest.raises(StoreError, match=rf"no record begins or ends at {places[30] + moved}.*before it is"):
        preview_cut(disk, SMALL, places[30] + moved)
    with pytest.raises(StoreError, match="the log ends at"):
        preview_cut(disk, SMALL, places[60] + 50)
    with pytest.raises(StoreError, match="cannot be cut to 999999"):
        preview_cut(disk, SMALL, 999999)
    assert disk.operations == before


def test_a_killed_store_is_recovered_first() -> None:
    disk, places = filled()
    store = opened(disk)
    put(store, b"never flushed")
    disk = disk.kill()
    cut_store(disk, SMALL, ManualClock(), places[33])
    assert_cut(disk, 33)


def test_a_store_in_use_is_refused() -> None:
    disk, places = filled()
    store = opened(disk)
    with pytest.raises(StoreLocked):
        cut_store(disk, SMALL, ManualClock(), places[33])
    store.close()
    assert_cut(disk, 60)


def test_without_room_for_the_copy_nothing_changes() -> None:
    disk, places = filled()
    disk.capacity = disk.usage().used + 4096
    with pytest.raises(DiskFull):
        cut_store(disk, SMALL, ManualClock(), places[5])
    assert not disk.exists(CUT_MARK)
    assert disk.list("pyromq/cut-off") == []
    disk.capacity = 1 << 30
    assert_cut(disk, 60)


def cut_then_epochs(disk: SimulatedDisk, position: int) -> None:
    begin_cut(disk, SMALL, plan_cut(disk, SMALL, position))
    finish_cut(disk, SMALL, ManualClock())


@pytest.mark.parametrize("kind", ["kill", "power"])
@pytest.mark.parametrize("count", [7, 40])
def test_a_crash_in_every_operation_leaves_all_of_the_cut_or_nothing(kind: str, count: int) -> None:
    """Also in the finish that the next opening does, where the first crash was an early one."""
    moment, outcomes = 0, set()
    while True:
        moment += 1
        disk, places = filled()
        disk.cut_power_after(moment)
        try:
            cut_then_epochs(disk, places[count])
        except PowerCut:
            pass
        else:
            break
        disk = disk.kill() if kind == "kill" else disk.crash(moment)
        if disk.exists(CUT_MARK) and moment % 3 == 0:
            disk.cut_power_after(moment)
            try:
                finish_cut(disk, SMALL, ManualClock())
            except PowerCut:
                disk = disk.kill() if kind == "kill" else disk.crash(moment + 1)
            else:
                disk = disk.kill()
        decided = disk.exists(CUT_MARK) or len(disk.list("pyromq/cut-off")) > 0
        store = opened(disk)
        end = store.commit_log.end
        store.close()
        assert not disk.exists(CUT_MARK)
        assert end in (places[count], places[60])
        assert decided or end == places[60]
        outcomes.add(end)
        assert_cut(disk, count if end == places[count] else 60)
    assert outcomes == {places[count], places[60]}
    assert moment > 30


def test_a_mark_that_cannot_be_read_keeps_the_store_closed() -> None:
    disk, places = filled()
    begin_cut(disk, SMALL, plan_cut(disk, SMALL, places[9]))
    mark = read_cut_mark(disk)
    assert mark is not None
    assert (mark.position, mark.last_position) == (places[9], places[8])
    disk.flip_bit(CUT_MARK, 12)
    with pytest.raises(StoreDamaged, match=r"pyromq/cutting: .* Remove the mark, then run `pyromq store cut"):
        opened(disk)
    report = verify_store(disk, SMALL)
    assert [(finding.file, finding.level.name) for finding in report.findings] == [(CUT_MARK, "DAMAGE")]


def test_verify_says_that_a_cut_was_begun() -> None:
    disk, places = filled()
    begin_cut(disk, SMALL, plan_cut(disk, SMALL, places[9]))
    report = verify_store(disk, SMALL)
    assert (report.exit_code, report.findings[0].file) == (1, CUT_MARK)
    assert f"the log is being cut to {places[9]}" in report.findings[0].what


# -- what remembers places of the log ----------------------------------------------------------------------------------


@pytest.fixture
def epochs() -> EpochList:
    return EpochList([MasterEpoch(1, 0), MasterEpoch(2, 5000)])


def test_epochs_are_cut_with_the_log_or_set(epochs: EpochList) -> None:
    disk, places = filled()
    save_epochs(disk, epochs)
    below = next(number for number, place in enumerate(places) if place > 5000) - 1
    cut_then_epochs(disk, places[below])
    assert load_epochs(disk) == EpochList([MasterEpoch(1, 0)])
    begin_cut(disk, SMALL, plan_cut(disk, SMALL, places[3]), EpochList([MasterEpoch(1, 0), MasterEpoch(7, 900)]))
    finish_cut(disk, SMALL, ManualClock())
    assert load_epochs(disk) == EpochList([MasterEpoch(1, 0), MasterEpoch(7, 900)])


def test_offsets_of_groups_and_delay_levels_go_back() -> None:
    disk, places = filled()
    offsets = JsonTable(disk, "config/consumerOffset.json")
    offsets.put("offsetTable", "T@g", {"0": 30, "1": 3})
    offsets.put("offsetTable", "U@g", {"0": 30})
    offsets.save()
    store = opened(disk)
    store.put([message("d", SCHEDULE_TOPIC, 2)])
    store.put([message("d", SCHEDULE_TOPIC, 2)])
    store.close()
    delays = JsonTable(disk, "config/delayOffset.json")
    delays.put("offsetTable", 3, 2)
    delays.save()
    cut_store(disk, SMALL, ManualClock(), places[20])
    table = read_table(disk, "config/consumerOffset.json").content["offsetTable"]
    assert table == {"T@g": {0: 10, 1: 3}, "U@g": {0: 30}}
    assert read_table(disk, "config/delayOffset.json").content["offsetTable"] == {3: 0}


def test_notes_of_records_that_went_are_forgotten() -> None:
    disk, places = filled()
    table = JsonTable(disk, "pyromq/quarantine.json")
    for place in (places[10], places[30]):
        note = {"position": place, "size": 9, "topic": "T", "queueId": 0, "loop": "l", "reason": "r", "timeMs": 1}
        table.put("records", str(place), note)
    table.save()
    cut_store(disk, SMALL, ManualClock(), places[20])
    assert list(json.loads(read_whole(disk, "pyromq/quarantine.json"))["records"]) == [str(places[10])]


def timed(places: list[int]) -> list[TimedRecord]:
    return [TimedRecord(number, place, 100, 60_000, TIMER_TOPIC, 0, False) for number, place in enumerate(places)]


def timers_of(disk: SimulatedDisk) -> TimerStore:
    return TimerStore(disk, TimerSettings(wheel_slots=1000), 0, lambda position: None)


def test_timers_of_records_that_went_wait_no_more() -> None:
    """Though the topic has grown to its old length again by other records."""
    disk = SimulatedDisk()
    store = opened(disk)
    places = [store.put([message(b"timed", TIMER_TOPIC)])[0].position for _ in range(4)]
    timers = timers_of(disk)
    timers.add(
        [TimedRecord(number, place, 100, 60_000, TIMER_TOPIC, 0, False) for number, place in enumerate(places)], 0
    )
    timers.close(0)
    store.close()
    cut_store(disk, SMALL, ManualClock(), places[2])
    store = opened(disk)
    put(store, *[b"another"] * 5, topic=TIMER_TOPIC)
    store.close()
    timers = timers_of(disk)
    timers.fit_to(7)
    assert (timers.queue_offset, timers.known_before, timers.waiting) == (0, 2, 0)
    timers.add(
        [TimedRecord(number, place, 100, 60_000, TIMER_TOPIC, 0, False) for number, place in enumerate(places[:2])], 0
    )
    timers.close(0)
    assert timers_of(disk).waiting == 2


# -- stores that Java wrote --------------------------------------------------------------------------------------------


def cuttable(golden: GoldenStore) -> Iterator[int]:
    messages = golden.manifest["store"]["messages"]
    for share in (0.05, 0.5, 0.95):
        yield messages[int(len(messages) * share)]["physicalOffset"]


def test_java_s_store_can_be_cut(golden_store: Callable[[str], GoldenStore]) -> None:
    golden = golden_store("clean")
    disk = RealDisk(golden.root)
    for position in sorted(cuttable(golden), reverse=True):
        plan = preview_cut(disk, golden.config, position)
        messages = golden.manifest["store"]["messages"]
        left = [one for one in messages if one["physicalOffset"] < position]
        cut_store(disk, golden.config, ManualClock(), position)
        report = verify_store(disk, golden.config)
        assert report.exit_code == 0, report.findings
        assert (report.records, report.log_end) == (len(left), position)
        assert plan.position == position
        replace_durably(disk, "config/touched", b"")  # a file of somebody else does not matter


def test_java_s_store_that_was_killed_can_be_cut(golden_store: Callable[[str], GoldenStore]) -> None:
    golden = golden_store("crashed")
    disk = RealDisk(golden.root)
    position = next(cuttable(golden))
    cut_store(disk, golden.config, ManualClock(), position)
    report = verify_store(disk, golden.config)
    assert (report.exit_code, report.log_end) == (0, position), report.findings
