"""Statements in a binlog that make, change or drop tables: which tables they name. Pure."""

from __future__ import annotations

import re

_COMMENT = r"(?:\s|/\*.*?\*/|#[^\n]*\n|--\s[^\n]*\n)"
_ABOUT_TABLES = re.compile(
    rf"{_COMMENT}*(?P<verb>CREATE|ALTER|DROP|RENAME){_COMMENT}+(?:(?:OR\s+REPLACE|ONLINE|OFFLINE|IGNORE)\s+)*"
    rf"TABLES?{_COMMENT}+(?:IF\s+(?:NOT\s+)?EXISTS\s+)?",
    re.IGNORECASE | re.DOTALL,
)
_NAME = r"(?:`(?:[^`]|``)+`|[\w$]+)"
_TABLE = re.compile(rf"{_COMMENT}*(?P<first>{_NAME})(?:\s*\.\s*(?P<second>{_NAME}))?{_COMMENT}*", re.DOTALL)
_NEXT = re.compile(r"(?:,|TO\b)", re.IGNORECASE)
_NEW_NAME = re.compile(rf"\bRENAME\s+(?:TO\s+|AS\s+)?(?!COLUMN|INDEX|KEY)(?={_NAME})", re.IGNORECASE)


def tables_of(database: str, text: str) -> list[str]:
    """Return the full names of the tables that a statement makes, changes, drops or renames; none of another one."""
    begin = _ABOUT_TABLES.match(text)
    if begin is None:
        return []
    found, at = [], begin.end()
    while (name := _TABLE.match(text, at)) is not None:
        found.append(_full(database, name))
        further = _NEXT.match(text, name.end()) if begin["verb"].upper() in ("DROP", "RENAME") else None
        if further is None:
            break
        at = further.end()
    new = _NEW_NAME.search(text, at) if begin["verb"].upper() == "ALTER" else None
    if new is not None and (name := _TABLE.match(text, new.end())) is not None:
        found.append(_full(database, name))
    return found


def _full(database: str, name: re.Match[str]) -> str:
    parts = [_unquoted(part) for part in (name["first"], name["second"]) if part]
    return ".".join(parts if len(parts) == 2 else [database, *parts])


def _unquoted(name: str) -> str:
    return name[1:-1].replace("``", "`") if name.startswith("`") else name
