"""What the grants of a MariaDB user allow, and how long its server keeps the binlog: read of its own answers. Pure.

A right counts for what it was granted on: SELECT on one table does not read another one, and of some columns alone
it does not read the table.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ...model.wire_text import decimal_number

_NAME = r"\*|`(?:[^`]|``)*`"
_GRANT = re.compile(
    rf"GRANT (?P<rights>.+?) ON (?:TABLE )?(?P<database>{_NAME})\.(?P<table>{_NAME}) TO ", re.IGNORECASE
)
_COLUMNS = re.compile(r"\([^)]*\)")
_ALL = "ALL PRIVILEGES"
# A right is there under any of these names: older servers have other ones.
_OTHER_NAMES = {"BINLOG MONITOR": ("REPLICATION CLIENT", "SUPER"), "REPLICATION SLAVE": ("REPLICATION REPLICA",)}
_DAY_S = 86_400


class UserGrant(NamedTuple):
    """Rights on one thing. `database` and `table` are * for all of them; a database's name may be a pattern."""

    rights: frozenset[str]
    database: str
    table: str

    def has(self, right: str) -> bool:
        return not self.rights.isdisjoint((_ALL, right, *_OTHER_NAMES.get(right, ())))

    def reaches(self, database: str, table: str) -> bool:
        if self.table != "*":
            return (self.database, self.table) == (database, table)
        return self.database == "*" or _matches(database, self.database)


def grants_of(lines: Iterable[str]) -> list[UserGrant]:
    """Return what the lines of SHOW GRANTS grant. Roles and rights on single columns are not among it."""
    return [
        UserGrant(_rights(found["rights"]), _unquoted(found["database"]), _unquoted(found["table"]))
        for line in lines
        if (found := _GRANT.match(line)) is not None
    ]


def _rights(text: str) -> frozenset[str]:
    """Return the rights on the whole of something: those with columns in brackets are on these columns alone."""
    parts = _COLUMNS.sub("()", text).upper().split(",")
    return frozenset(part.strip() for part in parts if "()" not in part)


def _unquoted(name: str) -> str:
    return name if name == "*" else name[1:-1].replace("``", "`")


def _matches(database: str, pattern: str) -> bool:
    r"""Return whether a database is meant by the name in a grant, in which _ and % stand for others, but not \_."""
    parts = re.split(r"(\\.|_|%)", pattern)
    words = {"_": ".", "%": ".*"}
    form = "".join(words.get(part) or re.escape(part.removeprefix("\\")) for part in parts)
    return re.fullmatch(form, database) is not None


def is_granted_everywhere(grants: Iterable[UserGrant], right: str) -> bool:
    """Return whether the right is granted on *.*, as all that concerns the server has to be."""
    return any(each.database == each.table == "*" and each.has(right) for each in grants)


def unreadable(grants: Iterable[UserGrant], tables: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the tables whose rows may not be read."""
    reading = [each for each in grants if each.has("SELECT")]
    return [(database, name) for database, name in tables if not any(each.reaches(database, name) for each in reading)]


def kept_s(values: Mapping[str, str]) -> float | None:
    """Return how long the server keeps its binlog, of its variables; None: until somebody purges it.

    Servers before 10.6 know no seconds.
    """
    seconds = decimal_number(values.get("binlog_expire_logs_seconds") or "0") or 0.0
    days = decimal_number(values.get("expire_logs_days") or "0") or 0.0
    return seconds or days * _DAY_S or None
