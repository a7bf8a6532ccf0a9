"""A job can be asked to end: by `stop.asked`, which streams look at between their waits. The command sets it at Ctrl-C.

An interrupt that is raised in the middle of a call into the JVM leaves the connection broken, and shows as tracebacks
of its own: so nothing is raised there, and what is to end is asked to. Jobs that are called as functions have a stop
that nobody asks.
"""

from __future__ import annotations

from contextvars import ContextVar
from threading import Event

from ...errors import PyroError


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
