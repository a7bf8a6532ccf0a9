"""A broker that may not have its store, or cannot open it, leaves the store's tables as they are."""

from __future__ import annotations

import asyncio
import logging
import random
from pathlib import Path
from typing import Any

import pytest

from pyromq.ambient import SystemClock
from pyromq.broker.broker import Broker
from pyromq.broker.config import BrokerConfig
from pyromq.config import Loaded
from pyromq.errors import ConfigError
from pyromq.store.files.disk import AccessDenied, StoreLocked
from pyromq.store.files.real_disk import RealDisk
from pyromq.store.message_store import run_at_once
from pyromq.store.recovery.checkpoint import was_stopped_cleanly
from pyromq.store.recovery.claim import claim_store
from pyromq.store.tables.json_tables import TableDamaged
from pyromq.transport.address import parse_address
from tests.broker.running import SMALL, running_broker, turn
from tests.support import deny_reads
from tests.transport.certificates import Authority


async def another_broker(folder: Path, **settings: Any) -> Broker:
    """Of another name: its first table would have a topic more."""
    own = SMALL | {"broker_name": "broker-y", "listen_port": 0, "store_path_root_dir": folder}
    return await Broker.open(
        Loaded(BrokerConfig(**(own | settings))),
        clock=SystemClock(),
        rng=random.Random(7),
        disk=RealDisk(folder),
        run_blocking=run_at_once,
    )


def tables(folder: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in (folder / "config").iterdir()}


async def nothing_follows(caplog: pytest.LogCaptureFixture) -> None:
    """Whatever was begun would have shown by now."""
    for _ in range(20):
        await turn()
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []


async def test_a_second_broker_does_not_touch_the_tables_of_the_first(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_broker(tmp_path) as running:
        await running.broker.tables.topic_save.saved()
        before = tables(tmp_path)
        with pytest.raises(StoreLocked, match="is held by"):
            await another_broker(tmp_path)
        await nothing_follows(caplog)
        assert tables(tmp_path) == before


async def test_the_lock_is_asked_for_before_a_table_is_read(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "topics.json").write_bytes(b"half a tab")  # as if read while the other one writes it
    lock = claim_store(RealDisk(tmp_path))
    with pytest.raises(StoreLocked):
        await another_broker(tmp_path)
    lock.release()


async def test_tls_files_that_cannot_be_used_leave_the_store_as_it_was(tmp_path: Path) -> None:
    store = tmp_path / "store"
    async with running_broker(store) as running:
        assert (await running.send()).code == 0
    before = {each.relative_to(store) for each in store.rglob("*")}
    one, other = Authority(tmp_path, "one").issue("a"), Authority(tmp_path, "other").issue("b")
    with pytest.raises(ConfigError, match="belong together"):
        await another_broker(store, tls_server_cert_path=one.certificate, tls_server_key_path=other.key)
    assert was_stopped_cleanly(RealDisk(store))
    assert {each.relative_to(store) for each in store.rglob("*")} == before


async def test_a_store_that_cannot_be_opened_keeps_its_tables(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with running_broker(tmp_path) as running:
        assert (await running.send()).code == 0  # where nothing is stored, files may get another size
    before = tables(tmp_path)
    with pytest.raises(ConfigError, match="was written with"):
        await another_broker(tmp_path, commit_log_file_bytes=1 << 24)
    await nothing_follows(caplog)
    assert tables(tmp_path) == before
    claim_store(RealDisk(tmp_path)).release()  # nobody holds it


@pytest.mark.parametrize(
    "name", ["subscriptionGroup.json", "consumerOffset.json", "consumerFilter.json", "delayOffset.json"]
)
async def test_a_table_that_cannot_be_read_leaves_the_others_as_they_are(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    """The broker's own topic is new, and was to be written when the next table turned out to be damaged."""
    async with running_broker(tmp_path):
        """It writes its first tables."""
    (tmp_path / "config" / f"{name}.bak").unlink(missing_ok=True)
    (tmp_path / "config" / name).write_bytes(b"{broken")
    before = tables(tmp_path)
    with pytest.raises(TableDamaged, match=rf"config/{name}: not JSON.*Put a good copy back"):
        await another_broker(tmp_path)
    await nothing_follows(caplog)
    assert tables(tmp_path) == before


@pytest.mark.parametrize("with_bak", [True, False])
@pytest.mark.parametrize("name", ["topics.json", "subscriptionGroup.json", "consumerOffset.json", "delayOffset.json"])
async def test_a_table_of_another_user_is_neither_damaged_nor_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, name: str, with_bak: bool
) -> None:
    async with running_broker(tmp_path):
        """It writes its first tables."""
    file = tmp_path / "config" / name
    if with_bak:
        file.with_name(f"{name}.bak").write_text("{}")
    else:
        file.with_name(f"{name}.bak").unlink(missing_ok=True)
    before = tables(tmp_path)
    deny_reads(monkeypatch, file)
    with pytest.raises(AccessDenied, match=rf"{file}: Permission denied; chown or chmod it for the user that runs"):
        await another_broker(tmp_path)
    await nothing_follows(caplog)
    assert tables(tmp_path) == before


async def test_an_opened_broker_knows_its_address_and_nobody_can_connect_before_it_starts(
    tmp_path: Path,
) -> None:
    broker = await another_broker(tmp_path)
    host, port = parse_address(broker.address)
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(host, port)
    assert await broker.start() == broker.address
    _, writer = await asyncio.open_connection(host, port)
    writer.close()
    await broker.stop()


async def test_a_broker_that_never_started_leaves_its_port_and_its_store(tmp_path: Path) -> None:
    first = await another_broker(tmp_path, fast_listen_port=0)
    port = parse_address(first.address)[1]
    await first.stop()
    second = await another_broker(tmp_path, listen_port=port, fast_listen_port=0)
    assert second.address == first.address
    await second.stop()


async def test_a_port_that_is_in_use_leaves_the_store_free(tmp_path: Path) -> None:
    async with running_broker(tmp_path / "other") as other:
        port = parse_address(other.address)[1]
        (tmp_path / "own").mkdir()
        with pytest.raises(ConfigError, match=f"port {port} .*is in use"):
            await another_broker(tmp_path / "own", listen_port=port)
        with pytest.raises(
            ConfigError, match=f"port {port} .*is in use.* second port of the broker on {port + 2}, two"
        ):
            await another_broker(tmp_path / "own", listen_port=port + 2)
    claim_store(RealDisk(tmp_path / "own")).release()
