"""Imports point down, nothing goes round in circles, and rooms of one level do not know each other."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter

import pytest

from tests.house.source import LEVEL, LEVELS, NEVER, ROOT, Module, dependencies, module, modules

CODE = modules()

# Inside broker/ each folder is a capability. Administration and metrics look into all of them; the way into the log
# (intake/), the tables of metadata/ and clients/, the counters of stats/, the expressions of filters/ and the rules
# of election/ may be handed to everybody. Otherwise capabilities meet in the log. wiring/ is the composition root's:
# it makes the parts of all of them, and nobody but broker.py and surface.py knows it.
BROKER_LOOKS_INTO_ALL = ("admin", "messages", "metrics", "wiring")
BROKER_SHARED = ("intake", "metadata", "clients", "filters", "reading", "stats", "election")


def upward(code: dict[str, Module]) -> list[str]:
    """Imports of a room above, beside, or forbidden to this one."""
    found = []
    for name, imported in dependencies(code).items():
        room = code[name].room
        for target in sorted(imported):
            other = code[target].room
            if room == other or not other or not room:
                continue
            if LEVEL[other] >= LEVEL[room] or other in NEVER.get(room, ()):
                found.append(f"{name} imports {target}")
    return found


def circles(code: dict[str, Module]) -> list[str]:
    """Import cycles between modules. A package's front door may be imported by what it re-exports from."""
    graph = {
        name: {one for one in imported if not (code[one].is_package and name.startswith(one + "."))}
        for name, imported in dependencies(code).items()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as cycle:
        return [str(one) for one in cycle.args[1]]
    return []


def capability(name: str, code: dict[str, Module]) -> str | None:
    """`pyromq.broker.pop.ack` belongs to pop; None for what stands between the capabilities."""
    parts = name.split(".")
    if len(parts) < 3 or parts[1] != "broker":
        return None
    if code[".".join(parts[:3])].is_package:
        return parts[2]
    return None


def neighbours(code: dict[str, Module]) -> list[str]:
    """Capabilities of the broker that reach for one another."""
    found = []
    for name, imported in dependencies(code).items():
        own = capability(name, code)
        if own is None or own in BROKER_LOOKS_INTO_ALL:
            continue
        found += [
            f"{name} imports {target}"
            for target in sorted(imported)
            if capability(target, code) not in (None, own, *BROKER_SHARED)
        ]
    return found


def test_every_room_has_a_level() -> None:
    assert {each.room for each in CODE.values()} - {""} - LEVEL.keys() == set()


def test_imports_point_down() -> None:
    assert upward(CODE) == []


def test_no_import_cycles() -> None:
    assert circles(CODE) == []


def test_capabilities_of_the_broker_do_not_import_one_another() -> None:
    assert neighbours(CODE) == []


def test_model_and_protocol_touch_no_event_loop() -> None:
    outside = {"asyncio", "socket", "ssl", "selectors", "threading"}
    found = [
        f"{name} imports {one}"
        for name, each in CODE.items()
        if each.room in ("model", "protocol")
        for one in each.imports()
        if one.split(".")[0] in outside
    ]
    assert found == []


def test_the_architecture_page_draws_these_levels() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    standing = {each.room for each in CODE.values()}
    drawing = page.split("<!-- levels -->")[1].split("```")[1].strip().splitlines()[::-1]
    drawn = [set(line.split()[1:]) for line in drawing if line.strip()]
    assert drawn == [set(rooms) & standing for rooms in LEVELS if set(rooms) & standing]


def code_of(**texts: str) -> dict[str, Module]:
    """A made-up house: `store__log="import ..."` is pyromq.store.log."""
    names = {"pyromq." + key.replace("__", "."): text for key, text in texts.items()}
    parts = [name.split(".") for name in names]
    packages = {".".join(each[:depth]) for each in parts for depth in range(1, len(each))} - names.keys()
    made = {name: module(name, text) for name, text in names.items()}
    return made | {name: module(name, "", is_package=True) for name in packages}


@pytest.mark.parametrize(
    "house",
    [
        code_of(protocol__frame="from ..transport import server", transport__server=""),
        code_of(protocol__frame="from pyromq.transport.server import Server", transport__server="Server = 1"),
        code_of(protocol__frame="def late():\n    import pyromq.transport.server", transport__server=""),
        code_of(store__log="from ..transport.server import x", transport__server=""),
        code_of(namesrv__table="from .. import cli", cli__main=""),
        code_of(model__topic="from .. import logs", logs=""),
        code_of(errors="from .model import topic", model__topic=""),
    ],
)
def test_the_check_finds_an_import_that_points_up_or_sideways(house: dict[str, Module]) -> None:
    assert len(upward(house)) >= 1


def test_the_check_lets_imports_down_through() -> None:
    assert upward(code_of(transport__server="from ..protocol.frame import x", protocol__frame="x = 1")) == []


def test_the_check_finds_a_cycle() -> None:
    assert circles(code_of(store__a="from . import b", store__b="from .c import x", store__c="from .a import y"))
    assert circles(code_of(store__a="from . import b", store__b="")) == []


@pytest.mark.parametrize(
    "house",
    [
        code_of(broker__pop__ack="from ..timing import park", broker__timing__park=""),
        code_of(broker__pop__ack="from ..send.checks import x", broker__send__checks="x = 1"),
        code_of(broker__pull__pull="from ..pop.ack import x", broker__pop__ack="x = 1"),
        code_of(broker__pop__ack="from ..wiring.pop import x", broker__wiring__pop="x = 1"),
    ],
)
def test_the_check_finds_capabilities_that_know_each_other(house: dict[str, Module]) -> None:
    assert len(neighbours(house)) >= 1


def test_the_check_lets_the_composition_root_and_the_tables_through() -> None:
    assert neighbours(code_of(broker__broker="from .pop import ack", broker__pop__ack="")) == []
    assert neighbours(code_of(broker__wiring__pop="from ..pop import ack", broker__pop__ack="")) == []
    assert neighbours(code_of(broker__pop__ack="from ..metadata import topics", broker__metadata__topics="")) == []
