"""`pyromq sql` as it is typed: how rows are printed, and what is said of a query that does not work."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from decimal import Decimal

import pytest
from click.testing import CliRunner, Result

from pyromq.cli.main import cli
from pyromq.cli.sql_output import QueryRows, bars, print_json, print_table
from tests.query.conftest import Shop


def sql(shop: Shop, query: str, *options: str) -> Result:
    return CliRunner().invoke(cli, ["sql", query, "-n", shop.namesrv, *options])


def test_a_table_json_csv_and_bars(shop: Shop) -> None:
    query = "SELECT queueId AS queue, count(*) AS n, min(storeTimestamp) AS at FROM orders GROUP BY 1 ORDER BY 1"
    assert sql(shop, query).stdout.splitlines()[0].split() == ["queue", "n", "at"]
    rows = [json.loads(line) for line in sql(shop, query, "--json").stdout.splitlines()]
    assert [(row["queue"], row["n"]) for row in rows] == [(queue, 75) for queue in range(4)]
    assert rows[0]["at"].endswith("Z")
    found = list(csv.reader(io.StringIO(sql(shop, query, "--csv").stdout)))
    assert [row[:2] for row in found] == [["queue", "n"], *([str(queue), "75"] for queue in range(4))]
    drawn = sql(shop, "SELECT queueId, count(*) AS n FROM orders GROUP BY 1 ORDER BY 1", "--plot").stdout.splitlines()
    assert (drawn[0], len(drawn)) == ("n", 5)
    assert all("█" in line and line.endswith(" 75") for line in drawn[1:])


def test_what_was_read_is_said(shop: Shop) -> None:
    told = sql(shop, "SELECT count(*) FROM orders WHERE queueId = 2", "--reads").stderr
    assert "orders: 75 messages in question, 75 rows came, 75 passed; columns topic, queueId" in told
    told = sql(shop, "SELECT count(*) FROM orders", "--reads", "--store", str(shop.store)).stderr
    assert "bytes of the log in question, 300 rows came" in told


@pytest.mark.parametrize(
    ("query", "code", "words"),
    [
        ("SELECT * FROM ordrs", 78, "there is no topic 'ordrs'. Closest: 'orders'"),
        ("SELECT tags FROM orders", 78, "there is no column 'tags'. Did you mean 'tag'? Topics have topic, brokerName"),
        ("SELECT price FROM orders", 78, "a part of a JSON body is body->>'price'"),
        ("SELECT * FROM order-events", 78, 'stand in quotes: "order-events"'),
        ("SELEC 1", 78, 'syntax error at or near "SELEC"'),
        ("SELECT body->>'a' FROM \"order-events\" WHERE tag IS NULL", 78, "write try(body->>'name')"),
        ("SELECT * FROM 'x.csv'", 78, "write --file NAME=x.csv, and NAME in the query"),
    ],
)
def test_errors_say_what_to_type(shop: Shop, query: str, code: int, words: str) -> None:
    refused = sql(shop, query)
    assert (refused.exit_code, refused.stdout) == (code, "")
    assert words in refused.stderr
    assert len(refused.stderr.splitlines()) == 1


def test_wrong_uses(shop: Shop) -> None:
    assert "give one of them" in sql(shop, "SELECT 1", "--json", "--csv").stderr
    assert "they are Spark's" in sql(shop, "SELECT 1", "--master", "local").stderr
    assert sql(shop, "SELECT 1", "-o", "mod=x").exit_code == 0  # of a read, and nothing is read
    assert "there is no such option; did you mean mode?" in sql(shop, "SELECT * FROM orders", "-o", "mod=x").stderr
    away = CliRunner().invoke(cli, ["sql", "SELECT * FROM orders", "-n", "127.0.0.1:1"])
    assert (away.exit_code, "no name server answers" in away.stderr) == (2, True)


def test_a_process_of_its_own_says_nothing_else(shop: Shop) -> None:
    words = [sys.executable, "-m", "pyromq", "sql", "SELECT count(*) AS n FROM orders", "-n", shop.namesrv, "--json"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, '{"n": 300}\n', "")


def test_values_of_every_kind(capsys: pytest.CaptureFixture[str]) -> None:
    values = [None, True, 1.5, float("nan"), Decimal("1.10"), b"\x00\xff", {"a": [1, b"x"]}, "a\nb"]
    names = [f"c{number}" for number in range(len(values))]
    print_json(QueryRows(names, iter([values])))
    row = json.loads(capsys.readouterr().out)
    assert list(row.values()) == [None, True, 1.5, "nan", "1.10", "AP8=", {"a": [1, "eA=="]}, "a\nb"]
    print_table(QueryRows(["x", "y"], iter([(number, None) for number in range(1200)])))
    shown = capsys.readouterr()
    assert len(shown.out.splitlines()) == 1001
    assert "these are the first 1,000 rows" in shown.err
    assert shown.out.splitlines()[1].split() == ["0", "NULL"]


def test_bars_are_to_scale() -> None:
    title, first, second, third = bars("n", [("a", 8), ("b", 4), ("long label that is cut off", -1)], 60)
    assert (title, first.count("█") // 2, third.count("█")) == ("n", second.count("█"), 0)
    assert second.count("█") > 5
    assert third.endswith("-1")
    assert max(map(len, (first, second, third))) <= 60
