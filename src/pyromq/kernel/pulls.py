"""What a native feed of pulls and the broker say to each other: verdicts asked for, what was handed out told.

The kernel reads and decides nothing; the broker (`broker/pull_verdicts.py`) implements `PullHost`. A pull that the
kernel does not answer (nothing is there, an expression, a cold page, a damaged record, a wrong offset) goes to Python
untouched, and nothing of it was told before.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol


class Question(NamedTuple):
    """Everything of a pull that a verdict depends on, as it came."""

    code: int
    group: bytes
    topic: bytes
    queue_id: int
    sys_flag: int
    max_count: int
    max_bytes: int | None
    sub_version: int
    subscription: bytes | None
    kind: bytes | None  # of the expression


class PullHost(Protocol):
    """What a feed asks of the broker, on the event loop, within one call of `feed` or `again`."""

    def judge(self, question: Question) -> Any:
        """The `PullGrant` for such pulls; None: leave them to Python."""
        ...

    def look(self, verdict: Any) -> tuple[int, int, int, int] | None:
        """Minimum and readable end of the queue, start and end of the log, as they are now. None: the verdict
        no longer holds, or something is pending that Python has to see."""
        ...

    def asked(self, verdict: Any, offset: int, commit: int) -> None:
        """A pull that is held came for this offset, and says that all before `commit` is consumed (-1: does not)."""
        ...

    def gave(self, verdict: Any, messages: int, size: int, position: int, offset: int, commit: int) -> None:
        """Messages were handed out; `position` is where the first of them lies. If they answer a pull that came just
        now, `offset` and `commit` are its own as above; -1 for one that was held."""
        ...

    def hold(self, connection: Any, grant: Any, frame: bytes, offset: int, wait_ms: int) -> bool:
        """There is nothing yet: keep the request until there is, then call `again`. False: Python shall answer."""
        ...
