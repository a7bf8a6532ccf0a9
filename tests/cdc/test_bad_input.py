"""What goes wrong around a capture: it says so in words that help, and nothing is lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pyromq import admin
from pyromq.admin.calls import Calls
from pyromq.cdc.config import CdcConfig
from pyromq.cdc.events import NEW_KEY_PROPERTY, OLD_KEY_PROPERTY, Op
from pyromq.client.client import connect
from pyromq.errors import ConfigError
from tests.cdc.mariadb import MariaDb
from tests.cdc.world import CaptureWorld, check_once


def world_of(mariadb: MariaDb, folder: Path, *more: str, settings: tuple[str, ...] = ()) -> CaptureWorld:
    if mariadb.program is None:
        mariadb.start()
    mariadb.run("DROP DATABASE shop", "CREATE DATABASE shop CHARACTER SET utf8mb4")
    rules = ["mask = ['shop.t.secret']", "leave_out = ['shop.t.noise']", "rename = ['shop.other=else']"]
    (folder / "cdc.toml").write_text("\n".join(rules))
    return CaptureWorld(folder, mariadb.url, more=("-c", str(folder / "cdc.toml"), *more), broker_settings=settings)


async def test_a_deleted_topic_is_made_again_and_a_change_that_is_too_large_is_a_dead_letter(
    mariadb: MariaDb, tmp_path: Path
) -> None:
    world = world_of(mariadb, tmp_path, settings=("auto_create_topic_enable = true", "max_message_bytes = 65536"))
    try:
        mariadb.run("CREATE TABLE shop.t (id INT PRIMARY KEY, a LONGTEXT)", "INSERT INTO shop.t VALUES (1, 'x')")
        program = world.start_capture()
        program.wait_for("at least once.*duplicateWindowEnable")
        await world.settled("cdc-shop-t", lambda found: len(found) == 1)
        mariadb.run("INSERT INTO shop.t VALUES (2, REPEAT('x', 200000)), (3, 'y')")
        found = await world.settled("cdc-shop-t", lambda found: len(found) == 2)
        assert sorted(event.key["id"] for event in found if event.key) == [1, 3]
        ((body, properties),) = await world.messages("cdc-dead")
        assert (properties["cdcKey"], properties["cdcTopic"]) == ('{"id":2}', "cdc-shop-t")
        assert "cdcCause" in properties
        assert body.startswith(b'{"before":null')
        async with connect(world.namesrv_address) as client:
            await _delete(Calls(client.session), "cdc-shop-t")
        mariadb.run("INSERT INTO shop.t VALUES (4, 'z')")
        found = await world.settled("cdc-shop-t", lambda found: any(each.key == {"id": 4} for each in found))
        assert [event.key for event in found] == [{"id": 4}]
        program.wait_for("a change is too large for its topic")
    finally:
        world.close()


async def _delete(calls: Calls, topic: str) -> None:
    for broker in await admin.cluster.masters(calls):
        await admin.topics.delete_in_broker(calls, broker.address, topic)
    await admin.topics.delete_in_name_servers(calls, topic)


async def test_rules_tombstones_moved_keys_and_a_second_capture(mariadb: MariaDb, tmp_path: Path) -> None:
    world = world_of(mariadb, tmp_path, "--tombstones", settings=("duplicate_window_enable = true",))
    try:
        mariadb.run(
            "CREATE TABLE shop.t (id INT PRIMARY KEY, secret TEXT, noise TEXT)",
            "CREATE TABLE shop.other (a INT)",
            "INSERT INTO shop.other VALUES (1), (1)",
        )
        program = world.start_capture()
        program.wait_for("each change is stored once")
        program.wait_for("no primary key")
        mariadb.run("INSERT INTO shop.t VALUES (1, 's', 'n'), (2, NULL, 'n')", "UPDATE shop.t SET id = 3 WHERE id = 1")
        found = await world.settled("cdc-shop-t", lambda found: len(found) == 5)
        check_once(found)
        by_number = sorted(found, key=lambda event: event.number)
        assert [(event.op, event.key) for event in by_number] == [
            (Op.CREATE, {"id": 1}), (Op.CREATE, {"id": 2}), (Op.DELETE, {"id": 1}), (Op.TOMBSTONE, {"id": 1}),
            (Op.CREATE, {"id": 3}),
        ]  # fmt: skip
        assert by_number[0].after == {"id": 1, "secret": "****"}
        assert by_number[1].after == {"id": 2, "secret": None}
        moved = [properties for _, properties in await world.messages("cdc-shop-t")]
        assert {'{"id":3}'} == {each[NEW_KEY_PROPERTY] for each in moved if NEW_KEY_PROPERTY in each}
        assert {'{"id":1}'} == {each[OLD_KEY_PROPERTY] for each in moved if OLD_KEY_PROPERTY in each}
        assert [event.op for event in await world.settled("else", lambda found: len(found) == 2)] == [Op.READ] * 2

        second = world.command("run")
        assert (second.returncode, "another pyromq cdc runs with this stateDir" in second.stderr) == (78, True)
        checked = world.command("check", "--json")
        assert checked.returncode == 0, checked.stdout + checked.stderr
        assert {"state": "ok", "what": "binlog_format", "found": "ROW", "to do": ""} in [
            json.loads(line) for line in checked.stdout.splitlines()
        ]
        world.kill_capture()
        told = json.loads(world.command("reset", "--yes", "--json").stdout)
        assert (told["source"], told["next"], told["number"] > 0) == ("test", "snapshot", True)
        assert world.status()["phase"] == "not begun"
        world.start_capture()
        found = await world.settled("cdc-shop-t", lambda found: sum(each.op is Op.READ for each in found) == 2)
        check_once(found)  # numbers went on
    finally:
        world.close()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"database_url": "oracle://a@b/c"}, "oracle is not captured"),
        ({"database_url": "postgresql://a@b"}, "names no database"),
        ({"database_url": "mariadb://host"}, "names no server and user"),
        ({"database_url": "mariadb://a@host:x"}, "cannot be read"),
        ({"name": "a b"}, "write letters, digits"),
        ({"rename": ("orders",)}, "write TABLE=TOPIC"),
        ({"rename": ("orders=a b",)}, "topic name"),
        ({"mask": ("password",)}, "write DATABASE.TABLE.COLUMN"),
        ({"prefix": ""}, "prefix"),
        ({"chunk_rows": 0}, "1 to 10000"),
    ],
)
def test_settings_that_cannot_be_followed_are_refused(settings: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        CdcConfig(**settings)  # type: ignore[arg-type]
