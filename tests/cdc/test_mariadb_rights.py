"""What grants of MariaDB allow, and how long a server keeps its binlog: of the lines that servers answered."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pyromq.cdc.binlog.checks import check
from pyromq.cdc.binlog.rights import grants_of, is_granted_everywhere, kept_s, unreadable
from pyromq.cdc.changes import Finding
from tests.cdc.mariadb import MariaDb

TABLES = [("shop", "t"), ("shop", "u"), ("sho_", "t")]
HEAD = "GRANT SELECT, INSERT, REPLICATION SLAVE, BINLOG MONITOR ON *.* TO `cdc`@`%` IDENTIFIED BY PASSWORD '*B69'"


@pytest.mark.parametrize(
    ("line", "lacking"),
    [
        (HEAD, []),
        ("GRANT ALL PRIVILEGES ON *.* TO `c`@`%` IDENTIFIED BY PASSWORD '*B6' WITH GRANT OPTION", []),
        ("GRANT SELECT ON `shop`.* TO `c`@`%`", [("sho_", "t")]),
        ("GRANT ALL PRIVILEGES ON `sho_`.* TO `c`@`%`", []),  # a pattern, which `shop` is
        ("GRANT SELECT ON `sho%`.* TO `c`@`%`", []),
        (r"GRANT SELECT ON `sho\_`.* TO `c`@`%`", TABLES[:2]),
        ("GRANT SELECT, INSERT ON `shop`.`t` TO `c`@`%`", TABLES[1:]),
        ("GRANT SELECT (`id`, `b`), INSERT ON `shop`.`t` TO `c`@`%`", TABLES),
        ("GRANT INSERT ON `shop`.* TO `c`@`%`", TABLES),
        ("GRANT `select`@`*.*` TO `c`@`%`", TABLES),
        ("GRANT USAGE ON *.* TO `SELECT`@`%`", TABLES),
        ("GRANT EXECUTE ON PROCEDURE `shop`.`t` TO `c`@`%`", TABLES),
    ],
)
def test_reading_is_allowed_where_it_was_granted_and_nowhere_else(line: str, lacking: list[tuple[str, str]]) -> None:
    assert unreadable(grants_of([line]), TABLES) == lacking


def test_rights_on_the_server_are_granted_on_all_of_it_under_any_of_their_names() -> None:
    for right in ("REPLICATION SLAVE", "BINLOG MONITOR", "SELECT"):
        assert is_granted_everywhere(grants_of([HEAD]), right)
        assert not is_granted_everywhere(grants_of([f"GRANT {right} ON `shop`.* TO `cdc`@`%`"]), right)
    assert is_granted_everywhere(grants_of(["GRANT SUPER ON *.* TO `a`@`%`"]), "BINLOG MONITOR")
    assert not is_granted_everywhere(grants_of(["GRANT SUPER ON *.* TO `a`@`%`"]), "REPLICATION SLAVE")


@pytest.mark.parametrize(
    ("values", "seconds"),
    [
        ({"binlog_expire_logs_seconds": "900", "expire_logs_days": "0.010417"}, 900),
        ({"binlog_expire_logs_seconds": "86400", "expire_logs_days": "1.000000"}, 86400),
        ({"binlog_expire_logs_seconds": "0", "expire_logs_days": "0.000000"}, None),
        ({"expire_logs_days": "2"}, 172_800),  # 10.5 and older
        ({"expire_logs_days": "0"}, None),
    ],
)
def test_how_long_the_binlog_is_kept(values: dict[str, str], seconds: float | None) -> None:
    assert kept_s(values) == seconds


def test_check_reads_rights_and_retention_of_a_real_server(mariadb: MariaDb) -> None:
    if mariadb.program is None:
        mariadb.start()
    mariadb.run(
        "DROP DATABASE shop",
        "CREATE DATABASE shop CHARACTER SET utf8mb4",
        "CREATE TABLE shop.t (id INT PRIMARY KEY, a INT)",
        "CREATE TABLE shop.u (id INT PRIMARY KEY)",
        "CREATE OR REPLACE USER partly@'%' IDENTIFIED BY 'secret'",
        "GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO partly@'%'",
        "GRANT SELECT ON shop.t TO partly@'%'",
        "GRANT INSERT ON shop.u TO partly@'%'",
        "SET GLOBAL binlog_expire_logs_seconds = 900",
    )
    try:
        found = checked(mariadb, "partly")
        assert found["right SELECT"].found == "missing on shop.u"
        assert found["right SELECT"].mend == "GRANT SELECT ON `shop`.`u` TO 'partly'@'%'"
        assert (found["binlog kept"].found, found["binlog kept"].is_odd) == ("900 s", True)
        assert found["binlog kept"].mend.startswith("SET GLOBAL binlog_expire_logs_seconds = 604800:")
        mariadb.run(found["right SELECT"].mend, found["binlog kept"].mend.partition(":")[0])
        found = checked(mariadb, "partly")
        assert not found["right SELECT"].is_bad
        assert found["right SELECT"].found == "granted on the 2 tables that are seen"
        assert (found["binlog kept"].found, found["binlog kept"].is_odd) == ("604800 s", False)
        assert {each.found for what, each in found.items() if what.startswith("right REPL")} == {"granted"}
    finally:
        mariadb.run("SET GLOBAL binlog_expire_logs_seconds = 0")


def checked(server: MariaDb, user: str) -> dict[str, Finding]:
    address = replace(server.address, user=user)
    return {each.what: each for each in check(address, lambda table: table.startswith("shop."), None)}
