"""Which event loop is chosen."""

from __future__ import annotations

import asyncio
import inspect
import re
import sys

import pytest
import uvloop

from pyromq.errors import ConfigError
from pyromq.text.extras import install_command
from pyromq.transport.loop import loop_factory, run


@pytest.mark.parametrize(
    ("wanted", "factory"),
    [(None, uvloop.new_event_loop), ("uvloop", uvloop.new_event_loop), ("asyncio", asyncio.new_event_loop)],
)
def test_uvloop_unless_told_otherwise(monkeypatch: pytest.MonkeyPatch, wanted: str | None, factory: object) -> None:
    if wanted is None:
        monkeypatch.delenv("PYROMQ_LOOP", raising=False)
    else:
        monkeypatch.setenv("PYROMQ_LOOP", wanted)
    assert loop_factory() is factory


def test_without_uvloop_plain_asyncio_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYROMQ_LOOP", raising=False)
    monkeypatch.setitem(sys.modules, "uvloop", None)
    assert loop_factory() is asyncio.new_event_loop
    with pytest.raises(ConfigError, match=re.escape(install_command("fast"))):
        loop_factory("uvloop")


def test_an_unknown_loop_is_refused() -> None:
    with pytest.raises(ConfigError, match="PYROMQ_LOOP=trio is no event loop"):
        loop_factory("trio")


def test_what_cannot_run_for_an_unknown_loop_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def daemon() -> None: ...

    monkeypatch.setenv("PYROMQ_LOOP", "trio")
    main = daemon()
    with pytest.raises(ConfigError, match="PYROMQ_LOOP=trio"):
        run(main)
    assert inspect.getcoroutinestate(main) == inspect.CORO_CLOSED  # Python warns of one that was never begun


@pytest.mark.parametrize(("wanted", "module"), [("asyncio", "asyncio"), ("uvloop", "uvloop")])
def test_run_uses_it(monkeypatch: pytest.MonkeyPatch, wanted: str, module: str) -> None:
    async def which() -> str:
        return type(asyncio.get_running_loop()).__module__.partition(".")[0]

    monkeypatch.setenv("PYROMQ_LOOP", wanted)
    assert run(which()) == module


def test_other_threads_give_way_soon_while_it_runs() -> None:
    async def interval() -> float:
        return sys.getswitchinterval()

    before = sys.getswitchinterval()
    assert run(interval()) < before == sys.getswitchinterval()
