"""The broker's process: what it sets up around the broker."""

from __future__ import annotations

import asyncio
import gc

import pytest

from pyromq.broker.daemon_loops import until
from pyromq.machine.garbage import settled


def test_what_stands_when_the_broker_is_ready_is_left_out_of_collections(monkeypatch: pytest.MonkeyPatch) -> None:
    collected: list[int] = []
    monkeypatch.setattr(gc, "collect", lambda: collected.append(gc.get_freeze_count()))
    gc.unfreeze()
    try:
        with settled():
            assert collected == [0]  # what is garbage already is not kept
            assert gc.get_freeze_count() > 1000
        assert gc.get_freeze_count() == 0
    finally:
        gc.freeze()  # as tests/conftest.py left it, for the tests that follow


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

    await asyncio.wait_for(until(stop_wanted, [ends(), runs()]), 20)
    assert turns == [1, 2]


async def test_what_is_no_loop_and_fails_is_raised() -> None:
    async def fails() -> None:
        raise KeyError("in start-up")

    with pytest.raises(KeyError, match="in start-up"):
        await until(asyncio.Event(), [fails()])
