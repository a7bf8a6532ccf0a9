"""The threads of a daemon that block in its place."""

from __future__ import annotations

import asyncio
import gc
import threading
from typing import Any

import pytest

from pyromq.machine.helper_threads import helper_threads


async def test_all_threads_exist_before_the_first_call() -> None:
    before = threading.active_count()
    with helper_threads(3) as run_blocking:
        assert threading.active_count() == before + 3
        assert (await run_blocking(threading.current_thread)).name.startswith("pyromq-blocking")
        assert threading.active_count() == before + 3
    assert threading.active_count() == before


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

    with helper_threads(1) as run_blocking:
        caller = asyncio.ensure_future(run_blocking(job))
        await asyncio.sleep(0)
        await asyncio.to_thread(begun.wait)
        caller.cancel()
        await asyncio.sleep(0)
        go_on.set()
        await asyncio.wait((caller,))
    assert caller.cancelled()
    gc.collect()  # a future whose fault nobody has heard says so when it goes
    assert not unheard
    (line,) = [record.getMessage() for record in caplog.records if record.name == "pyromq.machine"]
    assert line == 'a job failed while the daemon stopped why="OSError: no such disk"'
