"""The broker's process: what it sets up around the broker."""

from __future__ import annotations

import asyncio
import gc
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from pyromq.broker import daemon


def test_what_stands_when_the_broker_is_ready_is_left_out_of_collections(monkeypatch: pytest.MonkeyPatch) -> None:
    collected: list[int] = []
    monkeypatch.setattr(gc, "collect", lambda: collected.append(gc.get_freeze_count()))
    gc.unfreeze()
    try:
        with daemon._settled():
            assert collected == [0]  # what is garbage already is not kept
            assert gc.get_freeze_count() > 1000
        assert gc.get_freeze_count() == 0
    finally:
        gc.freeze()  # as tests/conftest.py left it, for the tests that follow


async def test_a_job_that_fails_when_its_caller_is_gone_is_one_line_of_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    unheard: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, told: unheard.append(told))
    begun, go_on = threading.Event(), threading.Event()

    def job() -> None:
        begun.set()
        go_on.wait()
        raise OSError("no such disk")

    with ThreadPoolExecutor(1) as pool:
        caller = asyncio.ensure_future(daemon._in(pool)(job))
        await asyncio.sleep(0)
        await asyncio.to_thread(begun.wait)
        caller.cancel()
        await asyncio.sleep(0)
        go_on.set()
        await asyncio.wait((caller,))
    assert caller.cancelled()
    gc.collect()  # a future whose fault nobody has heard says so when it goes
    assert not unheard
    (line,) = [record.getMessage() for record in caplog.records if record.name == "pyromq.broker"]
    assert line == 'a job failed while the broker stopped why="OSError: no such disk"'


async def test_a_loop_that_ends_does_not_stop_the_daemon() -> None:
    stop_wanted = asyncio.Event()
    turns: list[int] = []

    async def ends() -> None:
        turns.append(1)

    async def runs() -> None:
        await asyncio.sleep(0)
        turns.append(2)
        stop_wanted.set()
        await asyncio.Event().wait()

    await asyncio.wait_for(daemon.until(stop_wanted, [ends(), runs()]), 20)
    assert turns == [1, 2]


async def test_what_is_no_loop_and_fails_is_raised() -> None:
    async def fails() -> None:
        raise KeyError("in start-up")

    with pytest.raises(KeyError, match="in start-up"):
        await daemon.until(asyncio.Event(), [fails()])
