"""A server that answers a few codes as it is told."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from pyromq.ambient import SystemClock
from pyromq.protocol.requests import RequestCode as Code
from pyromq.transport.dispatch import Dispatcher, Reply
from pyromq.transport.server import Server


@asynccontextmanager
async def a_broker_that(**answers: Reply) -> AsyncIterator[str]:
    """A server that answers these codes, and nothing else."""
    replies = {getattr(Code, name).code: reply for name, reply in answers.items()}
    handlers = dict.fromkeys(replies, lambda request: replies[request.command.code])
    server = Server(Dispatcher(handlers), clock=SystemClock())
    address = await server.start("127.0.0.1", 0)
    try:
        yield address
    finally:
        await server.stop(0)
