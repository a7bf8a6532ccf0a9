"""Real time and chance are reached for in one file only; everything else is handed a clock and a generator."""

from __future__ import annotations

import ast

import pytest

from tests.house.source import Module, module, modules

ALLOWED = {"pyromq.ambient", "pyromq.testing.clock"}  # the two clocks
BANNED_MODULES = {"time", "secrets", "sched"}
BANNED_NAMES = {
    "asyncio": {"sleep", "timeout", "timeout_at", "wait_for"},
    "os": {"urandom", "getrandom"},
    "uuid": {"uuid1", "uuid4"},
    "datetime": {"datetime.now", "datetime.utcnow", "datetime.today", "date.today"},
    "threading": {"Timer"},
}
BANNED_METHODS = {"call_later", "call_at"}  # of an event loop under whatever name
CLOCK_NAMES = {"clock", "_clock"}  # `clock.call_later` is the way it is meant to be


def breaches(each: Module) -> list[str]:
    """Every place of a module that reaches for real time or chance."""
    known = _imported_names(each.tree)
    return [
        f"{each.name}:{getattr(node, 'lineno', 0)} {what}"
        for node in ast.walk(each.tree)
        for what in _reaches(node, known)
    ]


def _imported_names(tree: ast.Module) -> dict[str, str]:
    """Local name to dotted origin: `import os as o` gives o: os, `from datetime import datetime` datetime.datetime."""
    names = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update({alias.asname or alias.name.split(".")[0]: alias.name for alias in node.names})
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names.update({alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names})
    return names


def _reaches(node: ast.AST, known: dict[str, str]) -> list[str]:
    if isinstance(node, ast.Import):
        return [one.name for one in node.names if one.name in BANNED_MODULES]
    if isinstance(node, ast.ImportFrom) and not node.level:
        return [name for one in node.names if _banned(name := f"{node.module}.{one.name}")]
    if isinstance(node, ast.Attribute):
        dotted = _dotted(node, known)
        on_a_clock = dotted.split(".")[-2] in CLOCK_NAMES
        return [dotted] if _banned(dotted) or (node.attr in BANNED_METHODS and not on_a_clock) else []
    if isinstance(node, ast.Call):
        return _call_reaches(node, _dotted(node.func, known))
    return []


def _call_reaches(call: ast.Call, called: str) -> list[str]:
    """A generator is fine with a seed, and `asyncio.wait` without a time."""
    if called == "random.Random" and not call.args:
        return ["random.Random() without a seed"]
    if called == "asyncio.wait" and any(keyword.arg == "timeout" for keyword in call.keywords):
        return ["asyncio.wait with a timeout"]
    return []


def _banned(dotted: str) -> bool:
    top, _, rest = dotted.partition(".")
    if top == "random":
        return rest != "Random"  # the class is what parts are handed; anything else is the shared generator
    return top in BANNED_MODULES or rest in BANNED_NAMES.get(top, ())


def _dotted(node: ast.expr, known: dict[str, str]) -> str:
    """`a.b.c` with the first name replaced by what was imported under it; `?` for anything computed or local."""
    if isinstance(node, ast.Attribute):
        if isinstance(node.value, ast.Name):
            return f"{known.get(node.value.id, '?.' + node.value.id)}.{node.attr}"
        return f"{_dotted(node.value, known)}.{node.attr}"
    return known.get(node.id, "?") if isinstance(node, ast.Name) else "?"


def test_real_time_and_chance_stand_in_one_file() -> None:
    found = [breach for name, each in modules().items() if name not in ALLOWED for breach in breaches(each)]
    assert found == []


def test_the_one_file_does_reach_for_them() -> None:
    assert breaches(modules()["pyromq.ambient"]) != []


@pytest.mark.parametrize(
    "text",
    [
        "import time",
        "import time as t",
        "from time import monotonic",
        "import random\nrandom.choice([1])",
        "import random\nrandom.Random()",
        "from random import Random as R\nR()",
        "from random import randint",
        "import asyncio\nasyncio.wait([], timeout=1)",
        "import secrets",
        "import asyncio\nasyncio.sleep(1)",
        "import asyncio as aio\naio.timeout(1)",
        "from asyncio import wait_for",
        "from asyncio import sleep as rest",
        "import asyncio\nasyncio.get_running_loop().call_later(1, print)",
        "def f(loop):\n    loop.call_at(1, print)",
        "class A:\n    def f(self):\n        self._loop.call_later(1, print)",
        "from datetime import datetime\ndatetime.now()",
        "import datetime\ndatetime.datetime.utcnow()",
        "from datetime import date as d\nd.today()",
        "import uuid\nuuid.uuid4()",
        "from uuid import uuid4",
        "import os\nos.urandom(8)",
        "from os import urandom",
        "from threading import Timer",
        "import concurrent.futures, time",
    ],
)
def test_the_check_finds(text: str) -> None:
    assert len(breaches(module("pyromq.made_up", text))) == 1


@pytest.mark.parametrize(
    "text",
    [
        "import asyncio\nasyncio.create_task(x)",
        "async def f(clock):\n    await clock.sleep(1)",
        "class A:\n    def f(self):\n        self._clock.call_later(1, print)",
        "from datetime import UTC, datetime\ndatetime.fromtimestamp(1, UTC)",
        "import os\nos.path.join('a', 'b')",
        "from .ambient import Clock\nfrom .time import wheel",
        "def f(random):\n    return random.random()",
        "import random\ndef f(rng: random.Random):\n    return rng.random()",
        "from random import Random\nRandom(7)",
        "import asyncio\nasyncio.wait([])",
    ],
)
def test_the_check_lets_through(text: str) -> None:
    assert breaches(module("pyromq.made_up", text)) == []
