"""A stateDir that is lost, and a second capture elsewhere: sinks go on, and the one that is older is refused."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyromq.cdc.beginning import may_be_ours
from pyromq.cdc.events import Op
from pyromq.cdc.outgoing.queue_ends import Furthest
from pyromq.cdc.rules import Rules
from tests.cdc.mariadb import MariaDb
from tests.cdc.world import CaptureWorld, check_once, rows_of


@pytest.fixture(params=["window", "none"])
def world(request: pytest.FixtureRequest, mariadb: MariaDb, tmp_path: Path) -> Iterator[CaptureWorld]:
    if mariadb.program is None:
        mariadb.start()
    mariadb.run("DROP DATABASE shop", "CREATE DATABASE shop CHARACTER SET utf8mb4")
    settings = ("duplicate_window_enable = true",) if request.param == "window" else ()
    made = CaptureWorld(tmp_path, mariadb.url, broker_settings=settings)
    yield made
    made.close()


async def test_numbers_go_on_behind_those_in_the_topics(world: CaptureWorld, mariadb: MariaDb) -> None:
    mariadb.run("CREATE TABLE shop.t (id INT PRIMARY KEY, a INT)", "CREATE TABLE shop.gone (id INT PRIMARY KEY)")
    mariadb.run("INSERT INTO shop.t SELECT seq, 0 FROM shop.seq_1_to_50", "INSERT INTO shop.gone VALUES (1), (2)")
    for _ in range(2):
        world.start_capture()
        await world.status_once(lambda found: found["phase"] == "stream")
        mariadb.run("UPDATE shop.t SET a = a + 1", "DELETE FROM shop.gone WHERE id = 1")
        await world.status_once(lambda found: found["messages"] >= 100 and not found["under way"])
        world.kill_capture()
    before = await world.events("cdc-shop-t") + await world.events("cdc-shop-gone")
    highest = max(each.number for each in before)
    mariadb.run("DROP TABLE shop.gone")
    shutil.rmtree(world.folder / "cdc")
    program = world.start_capture()
    program.wait_for("this source was captured before")
    await world.status_once(lambda found: found["phase"] == "stream")
    mariadb.run("UPDATE shop.t SET a = 77 WHERE id = 7")
    events = await world.settled("cdc-shop-t", lambda found: rows_of(found).get('{"id": 7}', {}).get("a") == 77)
    check_once(events)  # also: the numbers of each key rise
    again = [each for each in events if each.number > highest]
    assert {each.key["id"] for each in again if each.key and each.op is Op.READ} == set(range(1, 51))


async def test_a_capture_elsewhere_takes_over_and_the_older_one_says_so(mariadb: MariaDb, tmp_path: Path) -> None:
    if mariadb.program is None:
        mariadb.start()
    mariadb.run("DROP DATABASE shop", "CREATE DATABASE shop CHARACTER SET utf8mb4")
    mariadb.run("CREATE TABLE shop.t (id INT PRIMARY KEY)", "INSERT INTO shop.t VALUES (1)")
    for name in ("71", "72"):  # MariaDB would end the stream of one with the same number
        (tmp_path / f"{name}.toml").write_text(f"server_id = {name}")
    world = CaptureWorld(tmp_path, mariadb.url, more=("-c", str(tmp_path / "71.toml")))
    try:
        older = world.start_capture()
        await world.status_once(lambda found: found["phase"] == "stream")
        world.more = ("-c", str(tmp_path / "72.toml"), "--state-dir", str(tmp_path / "elsewhere"))
        world.start_capture().wait_for("this source was captured before")
        await world.status_once(lambda found: found["phase"] == "stream")
        for number in range(2, 10):  # some go to the queues that the newer one has sent to
            mariadb.run(f"INSERT INTO shop.t VALUES ({number})")
        older.wait_for("another capture of this source has taken over")
        assert older.process.wait(60) != 0
        world.more = ("-c", str(tmp_path / "71.toml"))
        again = world.command("run")  # with the older state
        assert (again.returncode, "was captured since then with another stateDir" in again.stderr) == (78, True)
        mariadb.run("INSERT INTO shop.t VALUES (99)")
        events = await world.settled("cdc-shop-t", lambda found: any(each.key == {"id": 99} for each in found))
        assert {each.key["id"] for each in events if each.key} == {*range(1, 10), 99}
    finally:
        world.close()


def test_topics_that_may_have_events_of_a_source() -> None:
    rules = Rules(rename=("shop.orders=orders",), prefix="db")
    assert [each for each in ("orders", "db-shop-t", "db-dead", "cdc-shop-t", "dbx") if may_be_ours(each, rules)] == [
        "orders", "db-shop-t", "db-dead",
    ]  # fmt: skip
    assert Furthest(7, 2, 5).and_also(Furthest(3, 4, 9)) == Furthest(7, 4, 14)
    assert Furthest(7, 4, 14).number == 14  # what has expired had numbers, too
