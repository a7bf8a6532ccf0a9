"""Switches by which a test makes a broker misbehave: refuse, be slow, cut connections, run out of disk."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ..broker.broker import Broker
from ..client.arguments import check_length
from ..model.codes import ResponseCode
from ..protocol.requests import RequestCode
from ..transport.dispatch import Answer, Handler, Reply, Request, await_answer
from .clock import ManualClock
from .simulated_disk import SimulatedDisk

SENDS: frozenset[int] = frozenset(
    (RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE)
)
PULLS: frozenset[int] = frozenset((RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE))
PLENTY_BYTES = 1 << 40


@dataclass(slots=True)
class _Fault:
    codes: frozenset[int] | None
    remaining: int | None  # None: until `clear`
    refusal: Reply | None = None
    delay_s: float = 0.0

    def takes(self, code: int) -> bool:
        if self.remaining == 0 or (self.codes is not None and code not in self.codes):
            return False
        if self.remaining is not None:
            self.remaining -= 1
        return True


class Faults:
    """Event loop only. `codes` are request codes, such as `SENDS`; without them all requests are meant.

    While a fault is active, the broker serves every request in Python, so that no kernel goes past it.
    """

    def __init__(self, clock: ManualClock, disk: Callable[[], SimulatedDisk], broker: Callable[[], Broker]) -> None:
        self._clock = clock
        self._disk = disk
        self._broker = broker
        self._active: list[_Fault] = []

    def refuse(
        self,
        codes: Iterable[int] | None = SENDS,
        *,
        code: int = ResponseCode.SYSTEM_BUSY,
        remark: str = "refused by the test",
        times: int | None = None,
    ) -> None:
        """Answer with this code, so many times or until `clear`."""
        self._active.append(_Fault(_set(codes), times, refusal=Reply(code, remark=remark)))

    def delay(self, seconds: float, codes: Iterable[int] | None = None, *, times: int | None = None) -> None:
        """Serve after so many seconds of the test's clock. Error, if that is no number."""
        check_length("delay", seconds, may_be_zero=True, example=2)
        self._active.append(_Fault(_set(codes), times, delay_s=seconds))

    def disconnect(self) -> None:
        """Cut every connection to the broker. Clients may connect again at once."""
        for server in self._broker().servers:
            for peer in tuple(server.peers()):
                peer.close("cut by the test")

    async def disk_full(self, full: bool = True) -> None:
        """Leave no free space on the disk, until it is switched off."""
        disk = self._disk()
        disk.capacity = disk.usage().used if full else PLENTY_BYTES
        await self._broker().retention.round()  # which looks at the disk

    def clear(self) -> None:
        """Stop all faults but a full disk."""
        self._active.clear()

    @property
    def are_active(self) -> bool:
        return any(each.remaining != 0 for each in self._active)

    def around(self, serve: Handler) -> Handler:
        """Return what the broker serves requests with in the place of its dispatcher."""

        def faulty(request: Request) -> Answer:
            fault = next((each for each in self._active if each.takes(request.command.code)), None)
            if fault is None:
                return serve(request)
            if fault.refusal is not None:
                return fault.refusal
            return self._later(fault.delay_s, serve, request)

        return faulty

    async def _later(self, seconds: float, serve: Handler, request: Request) -> Reply | None:
        await self._clock.sleep(seconds)
        request.arrived = self._clock.monotonic()  # a slow network, not an overloaded broker
        return await await_answer(serve(request))


def _set(codes: Iterable[int] | None) -> frozenset[int] | None:
    return None if codes is None else frozenset(codes)
