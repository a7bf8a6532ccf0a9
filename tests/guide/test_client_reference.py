"""docs/client-reference.md names every option, argument, method and exception of the SDK, with its type and default."""

from __future__ import annotations

import dataclasses
import inspect
import re
import typing
from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import Enum
from pathlib import Path
from types import UnionType
from typing import Any, Literal, get_type_hints

import pytest

import pyromq
from pyromq.client.arguments import Seconds
from pyromq.client.core.allocation import Strategy
from pyromq.client.keywords import Begin
from pyromq.client.produce.queue_choice import QueueChoice

PAGE = (Path(__file__).parents[2] / "docs" / "client-reference.md").read_text("utf-8")
NEEDED = "needed"
# Types with a name of their own on the page.
NAMED: list[tuple[Any, str]] = [
    (Begin, "where to begin"),
    (Seconds, "seconds"),
    (QueueChoice, "function"),
    (Iterable[str], "strings"),
    (Mapping[str, str], "dict of strings"),
    (Strategy, "`Strategy`"),
]
Row = tuple[str, str, str]


def table(heading: str) -> list[list[str]]:
    """Return the cells of the first table below a heading, without its head."""
    section = re.split(rf"^#+ {re.escape(heading)}$", PAGE, flags=re.MULTILINE)[1]
    section = re.split(r"^#+ ", section, flags=re.MULTILINE)[0]
    lines = re.search(r"(?:^\|.*\n)+", section, re.MULTILINE)
    assert lines is not None, f"{heading} has no table"
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[0].splitlines()[2:]]


def names_in(cell: str) -> set[str]:
    return set(re.findall(r"`(\w+)", cell))


def type_text(kind: Any) -> str:
    """Write a type as the page does: `str` or None, "skip" or "retry"."""
    for known, text in NAMED:
        if kind == known:
            return text
    if typing.get_origin(kind) in (typing.Union, UnionType):
        parts = list(typing.get_args(kind))
        for known, text in NAMED:  # a union within a union is flat
            members = set(typing.get_args(known)) if typing.get_origin(known) in (typing.Union, UnionType) else set()
            if members and members < set(parts):
                return " or ".join([text, *(type_text(each) for each in parts if each not in members)])
        return " or ".join(type_text(each) for each in parts)
    if typing.get_origin(kind) is Literal:
        return " or ".join(f'`"{each}"`' for each in typing.get_args(kind))
    if typing.get_origin(kind) in (tuple, frozenset):
        return f"`{typing.get_origin(kind).__name__}` of `{typing.get_args(kind)[0].__name__}`"
    return "None" if kind is type(None) else f"`{kind.__name__}`"


def value_text(value: Any) -> str:
    """Write a default as the page does."""
    if value in (dataclasses.MISSING, inspect.Parameter.empty):
        return NEEDED
    if value is pyromq.ConsumeFromWhere.LAST_OFFSET:
        return '`"last"`'
    if isinstance(value, Enum):
        return f"`{type(value).__name__}.{value.name}`"
    if value is None or isinstance(value, bool):
        return f"`{value}`"
    if isinstance(value, str):
        return f'`"{value}"`'
    if isinstance(value, int) and value and value % (1 << 20) == 0:
        return f"{value >> 20} MiB"
    if isinstance(value, int | float):
        return f"{value:g}"
    if isinstance(value, Path):
        return f"`~/{value.relative_to(Path.home())}`"
    return "`()`" if value == () else f"`{type(value).__name__}()`"


def fields_of(kind: Any, keywords: Any = None) -> list[Row]:
    types = get_type_hints(keywords or kind)
    found = []
    for each in dataclasses.fields(kind):
        if each.name in types:
            default = each.default if each.default_factory is dataclasses.MISSING else each.default_factory()
            found.append((each.name, type_text(types[each.name]), value_text(default)))
    return found


def parameters_of(function: Any) -> list[Row]:
    types = get_type_hints(function)
    keywords = [each for each in inspect.signature(function).parameters.values() if each.kind is each.KEYWORD_ONLY]
    return [(each.name, type_text(types[each.name]), value_text(each.default)) for each in keywords]


OPTIONS = {
    "Settings of a client": fields_of(pyromq.ClientConfig, pyromq.ClientSettings),
    "ClientTls": fields_of(pyromq.ClientTls),
    "Arguments of a send": parameters_of(pyromq.Producer.send),
    "SendPolicy": fields_of(pyromq.SendPolicy),
    "Packing": fields_of(pyromq.Packing),
    "Batching": fields_of(pyromq.Batching),
    "Options of a push consumer": fields_of(pyromq.ConsumeOptions, pyromq.ConsumeSettings),
    "Retry": fields_of(pyromq.Retry),
    "FlowLimits": fields_of(pyromq.FlowLimits),
    "Options of a pull consumer": fields_of(pyromq.PullOptions, pyromq.PullSettings),
    "Options of a simple consumer": fields_of(pyromq.SimpleOptions, pyromq.SimpleSettings),
}


@pytest.mark.parametrize("heading", OPTIONS)
def test_a_table_has_the_options_types_and_defaults_of_the_code(heading: str) -> None:
    written = [(name.strip("`"), kind, default) for name, kind, default, _ in table(heading)]
    assert sorted(written) == sorted(OPTIONS[heading])


@pytest.mark.parametrize("heading", OPTIONS)
def test_every_option_is_explained(heading: str) -> None:
    assert [row[0] for row in table(heading) if len(row[3]) < 10] == []


def public_names(kind: type) -> set[str]:
    inherited = set(dir(object))
    return {name for name in dir(kind) if not name.startswith("_") and name not in inherited}


METHODS = {
    "Client": pyromq.Client,
    "Producer": pyromq.Producer,
    "PushConsumer": pyromq.PushConsumer,
    "PullConsumer": pyromq.PullConsumer,
    "SimpleConsumer": pyromq.SimpleConsumer,
    "Popped": pyromq.Popped,
    "Received": pyromq.Received,
    "Transaction": pyromq.Transaction,
    "SendResult": pyromq.SendResult,
}
# Called by other parts of the SDK, not by users.
INSIDE = {
    "Client": {"session", "running_handlers"},
    "Producer": {"received", "transactions"},
    "PushConsumer": {"received", "note_refusal", "describe", "facts", "members_changed", "reset", "try_now"},
    "PullConsumer": {"note_refusal", "describe", "members_changed"},
    "SimpleConsumer": {"note_refusal", "describe", "members_changed"},
    "Popped": {"acking", "receipt", "state", "until"} | public_names(pyromq.Received),
    "Received": {"deadline", "ends", "is_alone", "namespace", "undecodable", "wanted_s", "wire_topic"},
    "Transaction": {"properties", "decision"},
    "SendResult": set[str](),
}


@pytest.mark.parametrize("name", METHODS)
def test_a_class_has_all_its_methods_in_its_table(name: str) -> None:
    written = {each for row in table(name) for each in names_in(row[0])}
    assert written == public_names(METHODS[name]) - INSIDE[name]


ASYNC_ONLY = {"assigned", "running", "is_paused", "rebalance"}


@pytest.mark.parametrize("name", ["Client", "Producer", "PushConsumer", "PullConsumer", "SimpleConsumer", "Popped"])
def test_the_blocking_class_has_the_same_names(name: str) -> None:
    blocking = public_names(getattr(pyromq.sync, name))
    assert public_names(METHODS[name]) - INSIDE[name] - blocking <= ASYNC_ONLY


def test_every_exception_is_in_the_table() -> None:
    raised = {each for each in pyromq.__all__ if _is_exception(getattr(pyromq, each))}
    written = {
        name for heading in ("Exceptions", "Raised by handlers") for row in table(heading) for name in names_in(row[0])
    }
    assert written == raised


def _is_exception(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, Exception)


@pytest.mark.parametrize("name", [each for each in pyromq.__all__ if each != "__version__"])
def test_every_public_name_stands_on_the_page(name: str) -> None:
    assert re.search(rf"\b{name}\b", PAGE)


def test_the_checks_can_fail() -> None:
    assert type_text(bool | None) == "`bool` or None"
    assert type_text(Seconds | None) == "seconds or None"
    assert type_text(Literal["a", "b"] | None) == '`"a"` or `"b"` or None'
    assert type_text(datetime) == "`datetime`"
    assert [value_text(each) for each in (None, "x", 3 << 20, 0.005, ())] == [
        "`None`",
        '`"x"`',
        "3 MiB",
        "0.005",
        "`()`",
    ]
    assert names_in("`seek(queue, 3)`, `pause`") == {"seek", "pause"}
