"""Changes of a real PostgreSQL come to a real broker, each once, whatever is killed in between."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyromq.cdc.events import Op
from tests.cdc.postgres import Postgres
from tests.cdc.world import CaptureWorld, check_once, rows_of


@pytest.fixture
def database(postgres: Postgres) -> Postgres:
    if postgres.program is None:
        postgres.start()
    postgres.clear()
    return postgres


@pytest.fixture
def world(database: Postgres, tmp_path: Path) -> Iterator[CaptureWorld]:
    made = CaptureWorld(tmp_path, database.url)
    yield made
    made.close()


REST = (1, 2, 3)  # keys of the rows that are left in the end


def confirmed(database: Postgres) -> str:
    ((place,),) = database.rows("SELECT confirmed_flush_lsn FROM pg_replication_slots")
    return str(place)


async def test_rows_then_changes_each_once_with_kills_of_everything(world: CaptureWorld, database: Postgres) -> None:
    database.run(
        "CREATE TABLE orders (id int PRIMARY KEY, price numeric(10,2), note text)",
        "INSERT INTO orders SELECT i, i / 7.0, 'first' FROM generate_series(1, 3000) i",
    )
    world.start_capture().wait_for("snapshot.*rows")
    world.kill_capture()  # in the middle of the snapshot
    database.run("UPDATE orders SET note = 'meanwhile' WHERE id % 100 = 0", "DELETE FROM orders WHERE id = 7")
    world.start_capture().wait_for("ready")
    await world.status_once(lambda found: found["phase"] == "stream")
    begins = confirmed(database)
    for turn in range(3):
        database.run(f"UPDATE orders SET note = 'turn {turn}' WHERE id % 3 = {turn}")
        if turn == 0:
            world.kill_broker()
            database.run("INSERT INTO orders VALUES (90001, 1, 'broker away')")
            world.start_broker()
        elif turn == 1:
            world.kill_capture()
            database.run(
                "INSERT INTO orders VALUES (90002, 2, 'capture away')", "ALTER TABLE orders ALTER note TYPE varchar(80)"
            )
            world.start_capture()
        else:
            database.kill()
            database.start()
            database.run("INSERT INTO orders VALUES (90003, 3, 'database was away')")
    database.run("UPDATE orders SET id = 90004 WHERE id = 90003")

    rows = database.rows("SELECT id, price, note FROM orders")
    expected = {
        f'{{"id": {number}}}': {"id": number, "price": str(price), "note": note} for number, price, note in rows
    }
    events = await world.settled("cdc-shop-public-orders", lambda found: rows_of(found) == expected)
    check_once(events)
    read = Counter(str(event.key) for event in events if event.op is Op.READ)
    assert set(read.values()) == {1}, "a row was read twice"
    assert len(read) >= 2999  # row 7 may be gone before its turn
    assert {event.op for event in events} == {Op.READ, Op.CREATE, Op.UPDATE, Op.DELETE}
    await world.status_once(lambda found: found["under way"] == 0 and confirmed(database) != begins)
    status = world.status()
    assert [each["changes"] for each in status["schema changes"] if each["changes"]] == [
        [{"what": "retyped", "column": "note", "was": "text", "now": "character varying(80)"}]
    ]

    world.kill_capture()
    told = json.loads(world.command("reset", "--yes", "--json").stdout)
    assert (told["source"], told["next"], told["number"] > 0) == ("test", "snapshot", True)
    database.run("DELETE FROM orders WHERE id > 3")
    world.start_capture().wait_for("the slot of a former capture is dropped")
    again = await world.settled("cdc-shop-public-orders", lambda found: len(found) == len(events) + len(REST))
    check_once(again)  # numbers went on
    assert [event.op for event in sorted(again, key=lambda event: event.number)[-len(REST) :]] == [Op.READ] * len(REST)

    world.kill_capture()
    assert world.command("check").returncode == 0
    database.run("SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active")
    database.run("SELECT pg_drop_replication_slot('pyromq_test')")
    checked = world.command("check", "--json")
    assert checked.returncode == 1
    found = [json.loads(line) for line in checked.stdout.splitlines()]
    assert [each["to do"] for each in found if each["state"] == "bad"] == ["pyromq cdc reset, then run"]
    program = world.start_capture()
    program.wait_for("the slot pyromq_test is gone, and with it the")
    assert program.process.wait(60) != 0
