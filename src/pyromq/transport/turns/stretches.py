"""An answer that comes later, stretch by stretch: what it does between two awaits holds the event loop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Stretches(Generic[T]):
    """Awaitable as `answer` is. `note` hears of each stretch, in seconds."""

    answer: Awaitable[T]
    monotonic: Callable[[], float]
    note: Callable[[float], None]

    def __await__(self) -> Generator[Any, Any, T]:
        steps = self.answer.__await__()
        fault: BaseException | None = None
        while True:
            begun = self.monotonic()
            try:
                awaited = next(steps) if fault is None else steps.throw(fault)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            finally:
                self.note(self.monotonic() - begun)
            fault = None
            try:
                yield awaited
            except BaseException as thrown:  # a cancellation, or the end: for whoever waits inside
                fault = thrown
