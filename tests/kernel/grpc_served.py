"""A whole broker on virtual time whose gRPC calls the kernel serves, or the RPCs on the twin of its sessions."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pyromq.broker.wiring import grpc_sends
from pyromq.protocol.bodies.topics import TopicConfig
from pyromq.protocol.command import Command
from pyromq.testing.clock import ManualClock
from pyromq.transport import server as serving
from pyromq.transport.http2.session import ServerSession
from tests.broker.virtual import Virtual, virtual_broker
from tests.kernel.twins import choose, know_everybody, native_module, ready

A = TopicConfig(topic_name="A", read_queue_nums=3, write_queue_nums=3)


class Served(NamedTuple):
    life: Virtual
    sends: list[Any]  # the kernel's side, by listener

    def counts(self) -> tuple[int, int, int, int]:
        """Messages received, acked, changed and odd ones, without Python."""
        found = [(one.pops.received, one.pops.acked, one.pops.changed, one.pops.odd) for one in self.sends]
        received, acked, changed, odd = (sum(each) for each in zip(*found, strict=True)) if found else (0, 0, 0, 0)
        return received, acked, changed, odd

    def sent(self) -> int:
        """Messages that were stored without Python."""
        return sum(one.taken for one in self.sends)

    def renewed(self) -> int:
        """Heartbeats that were answered without Python."""
        return sum(one.beats.renewed for one in self.sends)


@asynccontextmanager
async def served(
    folder: Path,
    by_kernel: bool = True,
    sign: Callable[[Command], None] | None = None,
    strangers: bool = False,
    **settings: Any,
) -> AsyncIterator[Served]:
    """`sign`: signs what the test itself asks of the broker, where requests must be signed. `strangers`: connections
    have to show who they are before the kernel serves them."""
    with pytest.MonkeyPatch.context() as patch:
        choose(patch, native_module())
        if not by_kernel:
            patch.setattr(grpc_sends, "native_http2", lambda: None)
            patch.setattr(serving, "session_maker", lambda: ServerSession)
        if not strangers:
            know_everybody(patch)
        taken: list[Any] = []
        serve = serving.Server.serve_hot

        def serve_hot(server: serving.Server, sends: Any) -> None:
            taken.append(sends)
            serve(server, sends)

        patch.setattr(serving.Server, "serve_hot", serve_hot)
        async with virtual_broker(folder, clock=ManualClock(1_700_000_000_000), **settings) as life:
            life.sign = sign
            await ready(life)
            life.broker.topics.put(A)
            yield Served(life, taken)
