"""What DuckDB says of a query that does not work, in words that name topic, column, and what to type."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from difflib import get_close_matches

from ..errors import ConfigError, PyroError
from .columns import NAMES

_NO_TABLE = re.compile(r"Table with name (.+?) does not exist")
_NO_COLUMN = re.compile(r'Referenced column "(.+?)" not found|does not have a column named "(.+?)"')
_CANDIDATES = re.compile(r"Candidate bindings: (.+)")
_NO_FILE = re.compile(r'Cannot access (?:file|directory) "(.+?)"')
_NEAR = re.compile(r'syntax error at (?:or near "(.*?)"|end of input)')


class QueryFault(PyroError):
    """A query cannot be answered. The text says what to write instead."""


def explained(text: str, query: str, topics: Sequence[str], tables: Collection[str]) -> PyroError:
    """Return the error for DuckDB's text. `topics` are all that there are, `tables` also those of files."""
    first = text.splitlines()[0] if text else "no reason was given"
    if found := _NO_TABLE.search(text):
        return _no_table(found[1], topics, tables)
    if found := _NO_COLUMN.search(text):
        return _no_column(found[1] or found[2], text)
    if found := _NO_FILE.search(text):
        return ConfigError(
            f"the query opens {found[1]}, which was not named: write --file NAME={found[1]}, and NAME in the query. "
            "Nothing is written, and nothing is loaded"
        )
    if "Malformed JSON" in text:
        return QueryFault(
            f"a body is no JSON ({first.partition('Malformed JSON ')[2]}): write try(body->>'name') to get null for "
            "such messages, or leave them out with WHERE json_valid(body)"
        )
    if "Parser Error" in text:
        return _not_parsed(first, text, query, topics)
    return QueryFault(first)


def _no_table(name: str, topics: Sequence[str], tables: Collection[str]) -> PyroError:
    plain = name.strip('"')
    near = get_close_matches(plain, {*topics, *tables}, 3)
    hint = f"Closest: {', '.join(map(repr, near))}. " if near else ""
    return QueryFault(
        f"there is no topic {plain!r}. {hint}pyromq topic list shows all; a file is given by --file {plain}=PATH"
    )


def _no_column(name: str, text: str) -> PyroError:
    found = _CANDIDATES.search(text)
    near = get_close_matches(name, NAMES, 1, 0.5)
    hint = f"Did you mean {near[0]!r}? " if near else f"There are {found[1]}. " if found else ""
    return QueryFault(
        f"there is no column {name!r}. {hint}Topics have {', '.join(NAMES)}; a part of a JSON body is "
        f"body->>'{name}', a property is properties['{name}']"
    )


def _not_parsed(first: str, text: str, query: str, topics: Sequence[str]) -> PyroError:
    odd = [name for name in topics if not name.isidentifier() and name in query and f'"{name}"' not in query]
    if odd:
        return QueryFault(f'{first}. Names with other signs than letters, digits and _ stand in quotes: "{odd[0]}"')
    found = _NEAR.search(text)
    near = found[1] if found else ""
    if near and f"{near}".lower() in {name.lower() for name in topics}:
        return QueryFault(f'{first}. {near} is a word of SQL: write it as "{near}" where it is a topic')
    return QueryFault(first)
