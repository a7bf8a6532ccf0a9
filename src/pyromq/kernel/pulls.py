"""What a native feed of pulls and the broker say to each other: verdicts asked for, what was handed out told.

The kernel reads and decides nothing; the broker (`broker/pull/pull_verdicts.py`) implements `PullHost`. A pull that the
kernel does not answer (nothing is there, an expression, a cold page, a damaged record, a wrong offset) goes to Python
untouched, and nothing of it was told before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
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


class PullVerdict(Protocol):
    """What a verdict was given for: it holds while the broker has these very objects under these names."""

    @property
    def config(self) -> Any: ...
    @property
    def topic(self) -> Any: ...
    @property
    def group(self) -> Any: ...
    @property
    def queue(self) -> Any:
        """With `min_offset` and `readable_end`."""
        ...

    @property
    def topic_name(self) -> str: ...
    @property
    def group_name(self) -> str: ...
    @property
    def queue_id(self) -> int: ...
    @property
    def pair(self) -> str:
        """Topic and group as the table of offsets has them."""
        ...

    @property
    def members(self) -> Any:
        """Not None: it depends on more than these objects, so the broker is asked each time."""
        ...


class PullSights(NamedTuple):
    """The broker's own objects that a feed looks at for each pull, as they are then.

    If all are those of the verdict it need not ask (`PullHost.look`): the answer would be yes. What it hands out it
    notes in the last four as Python does; the counters are told when they are asked for (`take_counts`).
    """

    live: Any  # `config`: the settings, one object until one changes
    topics: Mapping[str, Any]
    groups: Mapping[str, Any]
    queues: Mapping[str, Mapping[int, Any]]  # the store's, by topic and number
    resets: Mapping[str, Any]  # pending ones: while there is any, the broker is asked
    log: Any  # the commit log: `end`, and its files
    monotonic: Callable[[], float]
    pulled: dict[str, dict[int, int]]  # up to where each queue was asked for, by topic and group
    pulled_changed: set[str]  # keys of it, to be saved
    backlog: Any  # `behind`: bytes of log between where a group reads and the end
    handler: Any  # `longest_ms` that a pull took


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
        """A pull came for this offset, and says that all before `commit` is consumed (-1: does not). Not told if it
        does not and the group has pulled from the topic before: the feed notes that itself."""
        ...

    def hold(self, connection: Any, grant: Any, frame: bytes, offset: int, wait_ms: int) -> bool:
        """There is nothing yet: keep the request until there is, then call `again`. False: Python shall answer."""
        ...

    def settle(self) -> None:
        """The feed has much for the statistics: call `take_counts`."""
        ...
