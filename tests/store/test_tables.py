"""The JSON tables: Java's text, durable replacement, .bak, shared writes."""

from __future__ import annotations

import asyncio
import logging
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyromq.store.files.disk import AccessDenied, DiskError, DiskFull, SyncFailed, read_whole
from pyromq.store.files.real_disk import RealDisk
from pyromq.store.tables import table_text
from pyromq.store.tables.json_tables import JsonTable, TableDamaged, table_names
from pyromq.store.tables.quarantine import TABLE as QUARANTINE
from pyromq.store.tables.quarantine import Quarantine
from pyromq.store.tables.table_saver import TableSaver
from pyromq.store.tools.verify import verify_store
from pyromq.testing.simulated_disk import PowerCut, SimulatedDisk
from tests.store.small import SMALL
from tests.support import deny_reads

GOLDEN = Path(__file__).parents[1] / "golden"
TOPICS = "config/topics.json"


@pytest.fixture(scope="module", params=["clean", "crashed"])
def golden(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> RealDisk:
    folder = tmp_path_factory.mktemp("golden")
    with tarfile.open(GOLDEN / f"store-{request.param}.tar.gz") as archive:
        archive.extractall(folder, [member for member in archive if "/config" in member.name], filter="data")
    return RealDisk(folder / "store")


def test_every_golden_table_is_read_and_written_back_byte_for_byte(golden: RealDisk) -> None:
    names = list(table_names(golden))
    assert {"config/topics.json", "config/consumerOffset.json", "config/delayOffset.json"} <= set(names)
    assert "config/timermetrics" in names
    for name in names:
        table = JsonTable(golden, name)
        table.load()
        java = read_whole(golden, name)
        table.save()
        assert read_whole(golden, name) == java, name
        assert read_whole(golden, name + ".bak") == java


def test_integer_keys_come_as_integers_and_leave_without_quotes() -> None:
    disk = SimulatedDisk()
    disk.make_folder("config")
    text = b'{"offsetTable":{"T@G":{0:5,1:7}},"pullOffsetTable":{}}'
    disk.open("config/consumerOffset.json", create=True).pwrite(0, text)
    table = JsonTable(disk, "config/consumerOffset.json")
    assert table.load()["offsetTable"] == {"T@G": {0: 5, 1: 7}}
    table.put("offsetTable", "T@G", {0: 6, 1: 7})
    table.save()
    expected = '{\n\t"offsetTable":{\n\t\t"T@G":{\n\t\t\t0:6,\n\t\t\t1:7\n\t\t}\n\t},\n\t"pullOffsetTable":{}\n}'
    assert read_whole(disk, "config/consumerOffset.json").decode() == expected


def test_null_members_are_left_out() -> None:
    disk = SimulatedDisk()
    table = JsonTable(disk, TOPICS)
    table.put("topicConfigTable", "T", {"perm": 6, "attributes": None})
    table.save()
    assert JsonTable(disk, TOPICS).load() == {"topicConfigTable": {"T": {"perm": 6}}}


def test_nothing_there_is_an_empty_table() -> None:
    assert JsonTable(SimulatedDisk(), TOPICS).load() == {}


def saved_twice() -> SimulatedDisk:
    disk = SimulatedDisk()
    table = JsonTable(disk, TOPICS)
    for name in ("first", "second"):
        table.put("topicConfigTable", name, {"perm": 6})
        table.save()
    return disk


@pytest.mark.parametrize("damage", [b"", b"   ", b'{"topicConfigTable":{"fi', b"[1]", b"\0" * 100])
def test_a_damaged_table_is_replaced_by_its_bak_with_a_loud_line(
    damage: bytes, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("pyromq"), "propagate", True)
    disk = saved_twice()
    file = disk.open(TOPICS)
    file.truncate(0)
    file.pwrite(0, damage)
    table = JsonTable(disk, TOPICS)
    with caplog.at_level(logging.ERROR, "pyromq.store"):
        assert list(table.load()["topicConfigTable"]) == ["first"]
    assert "TABLE DAMAGED" in caplog.text
    # The next save must not put the damaged text over the good .bak.
    table.put("topicConfigTable", "third", {"perm": 6})
    table.save()
    assert list(JsonTable(disk, TOPICS).load()["topicConfigTable"]) == ["first", "third"]
    disk.remove(TOPICS)
    assert list(JsonTable(disk, TOPICS).load()["topicConfigTable"]) == ["first"]


def test_both_damaged_is_refused_by_name() -> None:
    disk = saved_twice()
    for name in (TOPICS, TOPICS + ".bak"):
        disk.open(name).truncate(5)
    with pytest.raises(TableDamaged, match=r"config/topics.json.*config/topics.json.bak") as refusal:
        JsonTable(disk, TOPICS).load()
    assert "good copy" in str(refusal.value)


def test_an_unreadable_sector_is_refused_with_the_cure_and_the_bak_is_left_to_the_owner() -> None:
    disk = saved_twice()
    disk.fail_reads(TOPICS, 0)
    with pytest.raises(DiskError, match=r"config/topics.json.*Input/output error.*move it away to go on with its .bak"):
        JsonTable(disk, TOPICS).load()
    disk.rename(TOPICS, "aside")
    assert list(JsonTable(disk, TOPICS).load()["topicConfigTable"]) == ["first"]


@pytest.mark.parametrize("with_bak", [True, False])
def test_a_table_that_this_user_may_not_read_is_no_damaged_one(
    with_bak: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = RealDisk(tmp_path)
    table = JsonTable(disk, TOPICS)
    for name in ("first", "second"):
        table.put("topicConfigTable", name, {"perm": 6})
        table.save()
    if not with_bak:
        disk.remove(TOPICS + ".bak")
    with monkeypatch.context() as denied:
        deny_reads(denied, tmp_path / TOPICS)
        with pytest.raises(
            AccessDenied, match=r"config/topics.json: Permission denied; chown or chmod it for the user"
        ):
            JsonTable(disk, TOPICS).load()
        [finding] = [one for one in verify_store(disk, SMALL).findings if one.file == TOPICS]
        assert "Permission denied" in finding.what
    assert list(JsonTable(disk, TOPICS).load()["topicConfigTable"]) == ["first", "second"]


def test_a_list_of_quarantined_records_that_this_user_may_not_read_does_not_begin_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = JsonTable(RealDisk(tmp_path), QUARANTINE)
    table.save()
    deny_reads(monkeypatch, tmp_path / QUARANTINE)
    with pytest.raises(AccessDenied, match="Permission denied"):
        Quarantine(table, lambda: 0, lambda: None)


def test_old_or_new_at_every_power_cut_and_never_less_than_was_saved_3401_6096() -> None:
    """Issues 3401 and 6096 of RocketMQ: tables torn by a power cut."""
    for cut in range(1, 40):
        disk = SimulatedDisk()
        table = JsonTable(disk, TOPICS)
        saved = 0
        disk.cut_power_after(cut)
        try:
            for count in range(1, 5):
                table.put("topicConfigTable", f"topic-{count}", {"perm": 6})
                table.save()
                saved = count
        except PowerCut:
            pass
        for seed in range(40):
            after = disk.crash(seed)
            again = JsonTable(after, TOPICS)
            found = len(again.load().get("topicConfigTable", {}))
            assert saved <= found <= saved + 1
            again.put("topicConfigTable", "more", {})
            again.save()
            assert len(JsonTable(after, TOPICS).load()["topicConfigTable"]) == found + 1


def test_the_table_itself_is_there_at_every_moment() -> None:
    disk = saved_twice()
    for cut in range(1, 12):
        disk = disk.kill()
        table = JsonTable(disk, TOPICS)
        table.load()
        table.put("topicConfigTable", f"cut-{cut}", {})
        disk.cut_power_after(cut)
        try:
            table.save()
        except PowerCut:
            disk = disk.kill()
        assert read_whole(disk, TOPICS).endswith(b"}")


class Turns:
    """Blocking calls that the test lets go one by one."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Callable[[], None], asyncio.Future[None]]] = []

    async def run(self, call: Callable[[], None]) -> None:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.append((call, done))
        await done

    def go(self) -> None:
        call, done = self.waiting.pop(0)
        try:
            call()
        except Exception as fault:
            done.set_exception(fault)
        else:
            done.set_result(None)


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_change_is_saved_once_it_is_on_disk_and_not_before() -> None:
    disk, turns = SimulatedDisk(), Turns()
    table = JsonTable(disk, TOPICS)
    saver = TableSaver(table, turns.run)
    table.put("topicConfigTable", "T", {})
    first = asyncio.create_task(saver.saved())
    await settle()
    assert not first.done()
    turns.go()
    await first
    assert list(JsonTable(disk.crash(1), TOPICS).load()["topicConfigTable"]) == ["T"]
    await saver.saved()  # nothing new: no write
    assert saver.writes == 1


async def test_changes_during_a_write_share_the_next_one() -> None:
    disk, turns = SimulatedDisk(), Turns()
    table = JsonTable(disk, TOPICS)
    saver = TableSaver(table, turns.run)
    waiters = []
    for number in range(100):
        table.put("topicConfigTable", f"T{number}", {})
        waiters.append(asyncio.create_task(saver.saved()))
        await settle()
    turns.go()
    await settle()
    assert [waiter.done() for waiter in waiters] == [True] + [False] * 99
    turns.go()
    await asyncio.gather(*waiters)
    assert saver.writes == 2


async def test_fifty_thousand_topics_are_few_writes_and_each_is_encoded_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoded = 0

    def counting(value: Any, depth: int = 0, one_line: bool = False) -> str:
        nonlocal encoded
        encoded += 1
        return table_text.render(value, depth, one_line)

    monkeypatch.setattr("pyromq.store.tables.json_tables.render", counting)
    table = JsonTable(RealDisk(tmp_path), TOPICS)
    loop = asyncio.get_running_loop()
    saver = TableSaver(table, lambda call: loop.run_in_executor(None, call))
    config = {"attributes": {}, "order": False, "perm": 6, "readQueueNums": 8, "topicFilterType": "SINGLE_TAG"}

    async def create(first: int) -> None:
        """One client of 2,500, each of which waits for one topic before it asks for the next."""
        for number in range(first, 50_000, 2500):
            table.put("topicConfigTable", f"topic-{number}", config | {"topicName": f"topic-{number}"})
            await saver.saved()

    await asyncio.gather(*(create(first) for first in range(2500)))
    assert saver.writes == 20  # as many as one client has topics
    assert encoded == 50_000
    assert len(JsonTable(RealDisk(tmp_path), TOPICS).load()["topicConfigTable"]) == 50_000


async def test_a_full_disk_fails_those_who_wait_for_it_and_the_next_try_works() -> None:
    disk, turns = SimulatedDisk(), Turns()
    table = JsonTable(disk, TOPICS)
    saver = TableSaver(table, turns.run)
    table.put("topicConfigTable", "T", {})
    early = asyncio.create_task(saver.saved())
    await settle()
    table.put("topicConfigTable", "later", {})
    late = asyncio.create_task(saver.saved())
    await settle()
    disk.capacity = 0
    turns.go()
    with pytest.raises(DiskFull):
        await early
    disk.capacity = 1 << 30
    await settle()
    turns.go()
    await late
    assert list(JsonTable(disk, TOPICS).load()["topicConfigTable"]) == ["T", "later"]


async def test_a_failed_sync_is_never_reported_as_saved() -> None:
    disk, turns = SimulatedDisk(), Turns()
    table = JsonTable(disk, TOPICS)
    table.put("topicConfigTable", "old", {})
    table.save()
    saver = TableSaver(table, turns.run)
    table.put("topicConfigTable", "new", {})
    disk.fail_sync_once("topics.json.tmp")
    waiter = asyncio.create_task(saver.saved())
    await settle()
    turns.go()
    with pytest.raises(SyncFailed):
        await waiter
    assert all(list(JsonTable(disk.crash(s), TOPICS).load()["topicConfigTable"]) == ["old"] for s in range(30))
    retry = asyncio.create_task(saver.saved())
    await settle()
    turns.go()
    await retry
    assert all(list(JsonTable(disk.crash(s), TOPICS).load()["topicConfigTable"]) == ["old", "new"] for s in range(30))


async def test_a_waiter_that_gives_up_does_not_stop_the_write() -> None:
    disk, turns = SimulatedDisk(), Turns()
    table = JsonTable(disk, TOPICS)
    saver = TableSaver(table, turns.run)
    table.put("topicConfigTable", "T", {})
    first, second = asyncio.create_task(saver.saved()), asyncio.create_task(saver.saved())
    await settle()
    first.cancel()
    await settle()
    turns.go()
    await second
    assert saver.writes == 1
