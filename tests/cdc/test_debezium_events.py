"""Our events are what Debezium's documentation shows, judged without our own decoding: values, schemas, boundaries.

The rows are those of its examples, in a real MariaDB and a real PostgreSQL. What we leave out is named here.
"""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from pyromq.cdc.changes import Position, RowChange
from pyromq.cdc.outgoing.captured import Captured
from pyromq.cdc.outgoing.heartbeats import heartbeat
from pyromq.cdc.outgoing.messages import messages_of
from pyromq.cdc.outgoing.transactions import Boundaries
from pyromq.cdc.rules import Rules
from tests.cdc import debezium_events as debezium
from tests.cdc.debezium_events import Json
from tests.cdc.mariadb import MariaDb
from tests.cdc.postgres import Postgres
from tests.cdc.test_mariadb_log import changes_since as binlog_since
from tests.cdc.test_mariadb_log import now
from tests.cdc.test_postgres_log import TYPES as POSTGRES_TYPES
from tests.cdc.test_postgres_log import begin
from tests.cdc.test_postgres_log import changes_since as log_since

RULES = Rules(schemas=True, transactions=True)
NOT_SENT = {"ts_us", "ts_ns", "thread", "query", "xmin"}  # optional in Debezium's schemas
CUSTOMERS = "(id int PRIMARY KEY, first_name varchar(255), last_name varchar(255), email varchar(255))"
STATEMENTS = [
    "INSERT INTO {table} VALUES (1004, 'Anne', 'Kretchmar', 'annek@noanswer.org')",
    "UPDATE {table} SET first_name = 'Anne Marie'",
    "DELETE FROM {table}",
]


def sent(changes: list[RowChange], rules: Rules = RULES) -> list[Captured]:
    return list(messages_of(changes, rules, 0, 1_465_491_411_815, Boundaries(None, rules)))


@pytest.fixture
def mariadb_events(mariadb: MariaDb) -> list[Json]:
    if mariadb.program is None:
        mariadb.start()
    mariadb.run("DROP DATABASE shop", "CREATE DATABASE shop CHARACTER SET utf8mb4")
    start = now(mariadb)
    mariadb.run(f"CREATE TABLE shop.customers {CUSTOMERS}")
    for each in STATEMENTS:  # each a transaction
        mariadb.run(each.format(table="shop.customers"))
    return [json.loads(each.body) for each in sent(binlog_since(mariadb, start))]


@pytest.fixture
def postgres_events(postgres: Postgres) -> list[Json]:
    if postgres.program is None:
        postgres.start()
    postgres.clear()
    postgres.run(f"CREATE TABLE customers {CUSTOMERS}", "ALTER TABLE customers REPLICA IDENTITY FULL")
    start = begin(postgres)
    postgres.run(*(each.format(table="customers") for each in STATEMENTS))
    return [json.loads(each.body) for each in sent(log_since(postgres, start))]


@pytest.mark.parametrize(
    ("events", "documented", "source_fields"),
    [
        ("mariadb_events", debezium.MARIADB, debezium.MARIADB_SOURCE),
        ("postgres_events", debezium.POSTGRESQL, debezium.POSTGRESQL_SOURCE),
    ],
)
def test_events_are_those_of_the_documentation(
    events: str, documented: list[Json], source_fields: list[Json], request: pytest.FixtureRequest
) -> None:
    found = request.getfixturevalue(events)
    rows = [each for each in found if "op" in each["payload"]]
    assert len(rows) == 3
    for ours, theirs in zip(rows, documented, strict=True):
        payload = ours["payload"]
        assert {name: payload[name] for name in ("before", "after", "op")} == {
            name: theirs[name] for name in ("before", "after", "op")
        }
        assert theirs.keys() - payload.keys() <= NOT_SENT
        assert_alike(payload, {name: value for name, value in theirs.items() if name in payload})
        assert (theirs["source"].keys() - payload["source"].keys()) - NOT_SENT <= {"sequence"}
        assert_fits(payload, ours["schema"])
        source = payload["source"]
        topic = "-".join(("cdc", source["db"], *([source["schema"]] if "schema" in source else []), "customers"))
        connector = theirs["source"]["connector"]
        assert_same_schema(ours["schema"], debezium.envelope(connector, source_fields, topic))
    boundaries = [each for each in found if "status" in each["payload"]]
    assert [each["payload"]["status"] for each in boundaries] == ["BEGIN", "END"] * 3
    for each in boundaries:
        assert_alike(each["payload"], debezium.BEGIN if each["payload"]["status"] == "BEGIN" else debezium.END)
        assert_fits(each["payload"], each["schema"])
        assert_same_schema(each["schema"], debezium.TRANSACTION_SCHEMA)
    assert [each["payload"]["transaction"]["id"] for each in rows] == [
        each["payload"]["id"] for each in boundaries if each["payload"]["status"] == "END"
    ]


def test_a_heartbeat_is_that_of_the_documentation() -> None:
    beat = heartbeat("server-1", Position(done="0-1-5"), RULES, 7, 1_486_500_577_125, 10)
    body = json.loads(beat.body)
    assert body["payload"] == debezium.HEARTBEAT
    assert json.loads(beat.properties["cdcKey"]) == debezium.HEARTBEAT_KEY
    assert_fits(body["payload"], body["schema"])


def test_every_type_fits_the_schema_that_is_sent_with_it(mariadb: MariaDb, postgres: Postgres) -> None:
    from tests.cdc.test_mariadb_log import TYPES as MARIADB_TYPES

    for server in (mariadb, postgres):
        if server.program is None:
            server.start()
    mariadb.run("DROP DATABASE shop", "CREATE DATABASE shop CHARACTER SET utf8mb4")
    start = now(mariadb)
    with mariadb.session() as cursor:
        cursor.execute("SET time_zone = '+00:00', sql_mode = ''")
        cursor.execute(
            f"CREATE TABLE types ({', '.join(f'{name} {kind}' for name, (kind, *_) in MARIADB_TYPES.items())})"
        )
        cursor.execute(f"INSERT INTO types VALUES ({', '.join(value for _, value, _ in MARIADB_TYPES.values())})")
    (event,) = rows_alone(sent(binlog_since(mariadb, start)))
    assert_fits(event["payload"], event["schema"], skip={"no_day"})  # a date that is none is text

    postgres.clear()
    kinds = {
        name: each for name, each in POSTGRES_TYPES.items() if each[0] not in ("mood", "mood[]", "pair", "positive")
    }
    postgres.run(f"CREATE TABLE types ({', '.join(f'{name} {kind}' for name, (kind, *_) in kinds.items())})")
    begun = begin(postgres)
    postgres.run(f"INSERT INTO types VALUES ({', '.join(value for _, value, _ in kinds.values())})".replace("%", "%%"))
    (event,) = rows_alone(sent(log_since(postgres, begun)))
    assert_fits(event["payload"], event["schema"], skip={"endless", "no_day", "bounds", "nested"})


def rows_alone(messages: list[Captured]) -> list[Json]:
    found: list[Json] = [json.loads(each.body) for each in messages]
    return [each for each in found if "op" in each["payload"]]


# --- a judge of its own -------------------------------------------------------------------------------------------


def assert_alike(ours: Any, theirs: Any) -> None:
    """The same fields with values of the same kind of JSON; null stands for any."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for name in ours:
            assert name in theirs, f"Debezium has no {name}"
            assert_alike(ours[name], theirs[name])
    elif isinstance(theirs, list) and isinstance(ours, list):
        for each in ours:
            assert_alike(each, theirs[0])
    else:
        assert ours is None or theirs is None or type(ours) is type(theirs), (ours, theirs)


def assert_same_schema(ours: Json, theirs: Json) -> None:
    """Each of our fields is Debezium's, by type and name. Whether a column may be NULL logs do not say."""
    assert (ours["type"], ours.get("name"), ours.get("version")) == (
        theirs["type"], theirs.get("name"), theirs.get("version"),
    )  # fmt: skip
    if ours["type"] == "array":
        assert_same_schema(ours["items"], theirs["items"])
    if ours["type"] != "struct":
        return
    known = {each["field"]: each for each in theirs["fields"]}
    for each in ours["fields"]:
        assert each["field"] in known, f"Debezium has no {each['field']}"
        assert_same_schema(each, known[each["field"]])
        if not ours["name"].endswith(".Value"):
            assert each["optional"] == known[each["field"]]["optional"]
    assert known.keys() - {each["field"] for each in ours["fields"]} <= NOT_SENT


def assert_fits(value: Any, schema: Json, path: str = "", skip: frozenset[str] | set[str] = frozenset()) -> None:
    """What Kafka Connect's converter demands of a value: each field declared, of its type, there if it must be."""
    if path.rpartition(".")[2] in skip:
        return
    if value is None:
        assert schema["optional"], f"{path} must not be null"
        return
    kind = schema["type"]
    if kind == "struct":
        fields = {each["field"]: each for each in schema["fields"]}
        assert value.keys() <= fields.keys(), f"{path} has fields that no schema declares"
        for name, each in fields.items():
            assert_fits(value.get(name), each, f"{path}.{name}", skip)
    elif kind == "array":
        for each in value:
            assert_fits(each, schema["items"], f"{path}[]", skip)
    elif kind.startswith("int"):
        bits = int(kind[3:])
        assert type(value) is int, (path, value)
        assert -(1 << bits - 1) <= value < 1 << bits - 1 or "unsigned" in str(schema), (path, value)
    elif kind == "bytes":
        base64.b64decode(value, validate=True)
    else:
        wanted = {"string": (str,), "boolean": (bool,), "float": (int, float), "double": (int, float)}[kind]
        assert isinstance(value, wanted), (path, value)
