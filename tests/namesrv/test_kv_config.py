"""KV configuration: what is served is on disk, and a file that cannot be read is never taken for an empty one."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from pyromq.errors import ConfigError, RequestRefused
from pyromq.namesrv.kv_config import KvConfig
from tests.namesrv.world import at_once


class Disk:
    """A helper thread that writes when it is told to."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.writes = 0
        self.fault: Exception | None = None

    async def run(self, blocking: Callable[[], None]) -> None:
        await self.gate.wait()
        self.writes += 1
        if self.fault is not None:
            raise self.fault
        blocking()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "namesrv" / "kvConfig.json"


def on_disk(path: Path) -> str:
    return path.read_text("utf-8")


async def test_the_file_is_javas(path: Path) -> None:
    kv = KvConfig.open(path, at_once)
    assert kv.namespace("ORDER_TOPIC_CONFIG") is None
    await kv.put("ORDER_TOPIC_CONFIG", "TopicA", "broker-a:4;broker-b:4")
    assert on_disk(path) == '{"configTable":{"ORDER_TOPIC_CONFIG":{"TopicA":"broker-a:4;broker-b:4"}}}'
    await kv.delete("ORDER_TOPIC_CONFIG", "TopicA")
    assert on_disk(path) == '{"configTable":{"ORDER_TOPIC_CONFIG":{}}}'
    assert kv.namespace("ORDER_TOPIC_CONFIG") == {}
    assert on_disk(path.with_name("kvConfig.json.bak")).count("TopicA") == 1


def test_a_file_that_java_wrote_is_read(path: Path) -> None:
    path.parent.mkdir()
    path.write_text('{"configTable":{"ns":{"a":"1","gone":null},5:{"x":"y"}}}')
    kv = KvConfig.open(path, at_once)
    assert (kv.get("ns", "a"), kv.get("ns", "gone"), kv.get("5", "x")) == ("1", None, "y")


async def test_a_change_is_served_and_acknowledged_when_it_is_on_disk(path: Path) -> None:
    disk = Disk()
    kv = KvConfig.open(path, disk.run)
    put = asyncio.create_task(kv.put("ns", "k", "v"))
    await asyncio.sleep(0)
    assert not put.done()
    assert kv.get("ns", "k") is None
    disk.gate.set()
    await put
    assert kv.get("ns", "k") == "v"


async def test_changes_that_arrive_during_a_write_share_the_next_one(path: Path) -> None:
    disk = Disk()
    kv = KvConfig.open(path, disk.run)
    puts = [asyncio.create_task(kv.put("ns", "first", "0"))]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    puts += [asyncio.create_task(kv.put("ns", str(number), str(number))) for number in range(50)]
    await asyncio.sleep(0)
    disk.gate.set()
    await asyncio.gather(*puts)
    assert disk.writes == 2
    assert len(KvConfig.open(path, at_once).namespace("ns") or {}) == 51


async def test_a_failed_write_is_refused_for_all_it_covers_and_later_ones_may_succeed(path: Path) -> None:
    disk = Disk()
    disk.gate.set()
    disk.fault = OSError(28, "No space left on device")
    kv = KvConfig.open(path, disk.run)
    results = await asyncio.gather(kv.put("ns", "a", "1"), kv.put("ns", "b", "2"), return_exceptions=True)
    assert all(isinstance(one, RequestRefused) for one in results)
    assert f"cannot write {path}: No space left on device" in str(results[0])
    assert kv.namespace("ns") is None
    disk.fault = None
    await kv.put("ns", "c", "3")
    assert kv.namespace("ns") == {"c": "3"}


@pytest.mark.parametrize("fault", [MemoryError(), RuntimeError("can't start new thread")])
async def test_whoever_waits_for_a_write_that_fails_by_want_of_memory_has_an_answer(
    path: Path, fault: Exception
) -> None:
    disk = Disk()
    disk.gate.set()
    disk.fault = fault
    kv = KvConfig.open(path, disk.run)
    with pytest.raises(RequestRefused, match=f"{type(fault).__name__}.*try again later"):
        await kv.put("ns", "a", "1")
    disk.fault = None
    await kv.put("ns", "a", "1")
    assert kv.namespace("ns") == {"a": "1"}


async def test_what_changes_nothing_is_not_written(path: Path) -> None:
    disk = Disk()
    disk.gate.set()
    kv = KvConfig.open(path, disk.run)
    await kv.delete("ns", "never there")
    assert disk.writes == 0
    await kv.put("ns", "k", "v")
    await kv.put("ns", "k", "v")
    assert disk.writes == 1


async def test_one_who_gives_up_does_not_take_the_others_with_it(path: Path) -> None:
    disk = Disk()
    kv = KvConfig.open(path, disk.run)
    impatient, patient = asyncio.create_task(kv.put("ns", "a", "1")), asyncio.create_task(kv.put("ns", "b", "2"))
    await asyncio.sleep(0)
    impatient.cancel()
    await asyncio.sleep(0)
    disk.gate.set()
    await patient
    await kv.close()
    assert kv.get("ns", "b") == "2"


@pytest.mark.parametrize("content", [b"", b"  \n", b"{", b"[]", b'{"configTable":3}', b'{"configTable":{"ns":{"k":'])
def test_an_unreadable_file_is_refused_with_its_path_and_what_to_do(path: Path, content: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(content)
    with pytest.raises(ConfigError) as refusal:
        KvConfig.open(path, at_once)
    assert str(path) in str(refusal.value)
    assert f"there is no {path}.bak either" in str(refusal.value)
    path.with_name("kvConfig.json.bak").write_text('{"configTable":{"ns":{"a":"1","b":"2"}}}')
    with pytest.raises(ConfigError) as refusal:
        KvConfig.open(path, at_once)
    assert f"{path}.bak can be read (2 entries): `mv {path} {path}.broken; cp {path}.bak {path}`" in str(refusal.value)
    path.with_name("kvConfig.json.bak").write_text("")
    with pytest.raises(ConfigError, match="nor can"):
        KvConfig.open(path, at_once)


def test_a_file_that_this_user_may_not_read_is_not_replaced_by_its_bak(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.parent.mkdir()
    for name in ("kvConfig.json", "kvConfig.json.bak"):
        path.with_name(name).write_text('{"configTable":{"ns":{"a":"1"}}}')
    readable = Path.read_bytes

    def read_bytes(file: Path) -> bytes:
        if file == path:
            raise PermissionError(errno.EACCES, "Permission denied", str(file))
        return readable(file)

    monkeypatch.setattr(Path, "read_bytes", read_bytes)
    with pytest.raises(ConfigError) as refusal:
        KvConfig.open(path, at_once)
    assert f"{path}: Permission denied; chown or chmod it" in str(refusal.value)
    assert ".bak" not in str(refusal.value)


def test_a_folder_in_place_of_the_file_is_refused(path: Path) -> None:
    path.mkdir(parents=True)
    with pytest.raises(ConfigError, match="cannot read the KV configuration"):
        KvConfig.open(path, at_once)
