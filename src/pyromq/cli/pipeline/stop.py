"""Ctrl-C and SIGTERM while a Spark job runs: the job has its own thread and is asked to end; this one waits for it.

A handler that raises would break off the call into the JVM that the job is in. A second signal ends the command.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from types import FrameType

from ...pipelines.run import streaming

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_AGAIN_S = 0.5


def run_stoppable(work: Callable[[streaming.Stop], None], cancel: Callable[[], None]) -> None:
    """Run the work in a thread; once it is to end, call `cancel` again and again until it has.

    Once is not enough: a job may be about to begin its next part. A job that has begun a stream ends itself.
    """
    stop, done = streaming.Stop(), Future[None]()
    events: SimpleQueue[None] = SimpleQueue()  # may be put to by a signal's handler

    def run() -> None:
        streaming.use(stop)
        try:
            work(stop)
        except BaseException as fault:  # raised where it is waited for
            done.set_exception(fault)
        else:
            done.set_result(None)
        events.put(None)

    def ask() -> None:
        if stop.asked.is_set():
            raise KeyboardInterrupt
        stop.asked.set()
        events.put(None)

    with _signals_to(ask):
        threading.Thread(target=run, name="pipeline", daemon=True).start()
        while not done.done():
            with suppress(Empty):
                events.get(timeout=_AGAIN_S if stop.asked.is_set() else None)
            if stop.asked.is_set() and not stop.ends_itself and not done.done():
                cancel()
    done.result()


@contextmanager
def _signals_to(ask: Callable[[], None]) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are the main thread's
        return

    def handle(number: int, frame: FrameType | None) -> None:
        ask()

    before = {number: signal.signal(number, handle) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
