"""Which event loop: uvloop where it is installed, plain asyncio elsewhere; `PYROMQ_LOOP=asyncio|uvloop` forces one.

`run` also says how long other threads of the process may keep the loop waiting for the interpreter.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from ..errors import ConfigError
from ..text.extras import install_command

T = TypeVar("T")

# A helper thread in Python code gives way after this: Python's own 5 ms is a stall by itself. Not much shorter: a loop
# that is made to give way waits until the other thread has had a CPU, and it gives way by itself each turn.
SWITCH_S = 0.001

LoopFactory = Callable[[], asyncio.AbstractEventLoop]


def loop_factory(wanted: str | None = None) -> LoopFactory:
    """Return what makes the loop that is wanted: by the environment, unless `wanted` says."""
    wanted = wanted or os.environ.get("PYROMQ_LOOP") or "auto"
    if wanted not in ("auto", "asyncio", "uvloop"):
        raise ConfigError(f"PYROMQ_LOOP={wanted} is no event loop: asyncio or uvloop (unset takes the faster one)")
    if wanted == "asyncio":
        return asyncio.new_event_loop
    try:
        import uvloop
    except ImportError:
        if wanted == "uvloop":
            raise ConfigError(f"PYROMQ_LOOP=uvloop, but it is not installed: {install_command('fast')}") from None
        return asyncio.new_event_loop
    return uvloop.new_event_loop


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a daemon or tool to its end on the chosen loop."""
    try:
        factory = loop_factory()
    except ConfigError:
        main.close()  # or Python warns behind the error that it was never awaited
        raise
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_S)
    try:
        with asyncio.Runner(loop_factory=factory) as runner:
            return runner.run(main)
    finally:
        sys.setswitchinterval(before)
