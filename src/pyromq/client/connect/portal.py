"""An event loop in a thread of its own, for callers that have none: `sync.py`, and Spark's driver."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError as FutureCancelled
from concurrent.futures import Future
from typing import Any, TypeVar

from ...transport.loop import loop_factory
from ..errors import Closed, Error

T = TypeVar("T")


class Portal:
    """A thread with an event loop. `call` brings a coroutine there and waits for its end."""

    def __init__(self) -> None:
        self._loop = loop_factory()()
        self._thread = threading.Thread(target=self._loop.run_forever, name="pyromq-client", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        if not self._thread.is_alive():
            work.close()
            raise Closed("this client is not started, or closed", hint="Use it inside its `with` block")
        if threading.current_thread() is self._thread:
            work.close()
            raise Error("a blocking call on the client's own loop would wait for itself", hint="Use the async client")
        future: Future[T] = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except KeyboardInterrupt:
            future.cancel()
            raise
        except FutureCancelled:
            raise Closed("this client was closed during the call") from None

    def do(self, act: Callable[[], T]) -> T:
        """Call a plain function on the loop's own thread, which must wake what it wakes; here, while no loop runs."""
        if not self._thread.is_alive() or threading.current_thread() is self._thread:
            return act()

        async def work() -> T:
            return act()

        return self.call(work())

    def stop(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()
