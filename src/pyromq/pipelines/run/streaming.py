"""How every pipeline runs a stream: to the end of what is there, or for ever, with its checkpoint in its own folder.

A job can be asked to end: by `stop.asked`, which streams look at between their waits. The command sets it at Ctrl-C. An
interrupt that is raised in the middle of a call into the JVM leaves the connection broken, and shows as tracebacks of
its own: so nothing is raised there. Jobs that are called as functions have a stop that nobody asks. Needs no Spark.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from threading import Event
from typing import TYPE_CHECKING

from ...errors import PyroError
from .times import interval

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    Keep = Callable[[DataFrame, int], None]

_CHECK_EVERY_S = 1
_BATCH_S = 5.0  # for the batch in work to come to its end, once the stream is to end


class Stopped(PyroError):
    """It was asked to end, and has not come to its end."""


class Stop:
    """`ends_itself`: a stream has begun that looks at `asked`; what comes after it, its summary too, is let be."""

    def __init__(self) -> None:
        self.asked = Event()
        self.ends_itself = False

    def wait(self, seconds: float) -> bool:
        """Return whether a stop was asked for meanwhile."""
        return self.asked.wait(seconds)


_OF_THIS_JOB: ContextVar[Stop | None] = ContextVar("pyromq.stop", default=None)


def current() -> Stop:
    return _OF_THIS_JOB.get() or Stop()


def use(stop: Stop) -> None:
    """Let the calling thread use this stop."""
    _OF_THIS_JOB.set(stop)


def run_stream(sink: DataStreamWriter, keep: Keep, folder: str, every: str) -> None:
    """Run over what is there now, or with `every` until it is stopped (Ctrl-C, or `stop` of the query).

    `keep` gets each batch, the checkpoint is below `folder`. A stop is an end like any other: what was done is
    reported, and the next start goes on from there. Stopped if a run without `every` had not come to its end.
    """
    stop = current()
    stop.ends_itself = True
    if stop.asked.is_set():
        raise Stopped("stopped before it began")
    work = _Work(keep, stop)
    sink = sink.foreachBatch(work).option("checkpointLocation", f"{folder}/checkpoint")
    query = (
        sink.trigger(processingTime=interval("every", every)) if every else sink.trigger(availableNow=True)
    ).start()
    is_over: bool | None = False
    try:
        while not is_over and not stop.asked.is_set():
            is_over = query.awaitTermination(_CHECK_EVERY_S)
    except KeyboardInterrupt:  # as a function, in a shell
        query.stop()
        if not every:
            raise
        return
    if not is_over:
        work.idle.wait(_BATCH_S)
        query.stop()  # ends the jobs of a batch that is still in work, and waits for it
        if not every:
            raise Stopped("stopped before its end")


class _Work:
    """The batches of one stream. None is begun once it is to end, and one that was broken off says so in few words:
    Spark looks for its own reasons in the text of an error, by an expression that long texts are too much for."""

    def __init__(self, keep: Keep, stop: Stop) -> None:
        self._keep, self._stop = keep, stop
        self.idle = Event()
        self.idle.set()

    def __call__(self, batch: DataFrame, number: int) -> None:
        if self._stop.asked.is_set():
            raise Stopped("stopped")
        self.idle.clear()
        try:
            self._keep(batch, number)
        except Exception:
            if self._stop.asked.is_set():
                raise Stopped("stopped") from None
            raise
        finally:
            self.idle.set()
