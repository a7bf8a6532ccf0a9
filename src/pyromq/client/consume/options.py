"""The options of push and pull consumers, checked when they are given. Durations are seconds.

`on_unreadable` says what becomes of a record that nobody can read (a damaged or unknown compression, a body that grows
too large, a broken inner batch). It has its place among the messages of its queue, so that everything else is delivered
and the offset goes on. Consumers log each one once, and handlers never see it:

| option | push | broadcast | pull |
|---|---|---|---|
| `dead-letter` | the default: given back to the broker as a dead letter, as it is stored | | |
| `skip` | left out | the default | left out |
| `raise` | | | the default: `poll` raises `Unreadable` with its place; `seek` goes on behind it |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from ...model.group import ConsumeFromWhere
from ..arguments import check_begin, check_count, check_kind, check_length, check_retry, check_strategy
from ..core.allocation import Average, Strategy
from ..core.process_queue import FlowLimits
from ..core.retry import Retry
from ..errors import Error
from ..values import Codec, check_codec
from .pulling import PLAIN_BYTES

MOST_PULLED = 1024

NO_POP_BEGIN = "messages that are popped begin at the first or at the last, and not at a time"
POP_BEGIN_HINT = 'Give begin="first" or begin="last"; to go back in time, reset the group (pyromq group reset)'
_MODES = ("pull", "pop", "server")
_WAYS = ("dead-letter", "retry", "skip")
PushWay = Literal["dead-letter", "skip"]
ConsumeMode = Literal["pull", "pop", "server"]
UndecodableWay = Literal["dead-letter", "retry", "skip"]
PullWay = Literal["raise", "skip"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumeOptions:
    """How a group consumes. All members of a group should have the same."""

    mode: ConsumeMode = "pull"  # of queues; or messages one by one: "pop", or "server" as the brokers want it
    orderly: bool | None = None  # None: as the group is set at its brokers (consumeMessageOrderly)
    broadcast: bool = False
    concurrency: int = 20
    max_batch: int | None = None  # the handler takes lists of up to so many messages of one queue
    timeout_s: float = 15 * 60.0  # of one handler call; then it is cancelled, and the message retried
    slow_s: float = 60.0  # a handler that is busy for so long is named in the log, and whenever that has doubled
    retry: Retry | None = None  # None: 16 retries, orderly as many as the group has at its broker (16)
    begin: ConsumeFromWhere = ConsumeFromWhere.LAST_OFFSET  # of a group that was never here
    begin_ms: int | None = None  # with ConsumeFromWhere.TIMESTAMP
    strategy: Strategy = field(default_factory=Average)
    limits: FlowLimits = field(default_factory=FlowLimits)
    pull_messages: int = 32
    hold_s: float = 15.0
    invisible_s: float = 60.0  # pop: for which a message is hidden from others; renewed while its handler works
    renew_for_s: float = 3 * 3600.0  # pop: a handler that is busy for longer loses its message
    in_flight: int = 96  # pop: messages of a broker and topic that are handled or wait; more are not popped
    commit_s: float = 5.0
    rebalance_s: float = 20.0
    grace_s: float = 30.0  # for handlers at a stop
    on_unreadable: PushWay | None = None  # records that nobody can read: None is "dead-letter", in broadcast "skip"
    on_undecodable: UndecodableWay | None = None  # bodies that do not fit the handler's type: None as above
    codec: Codec | None = None  # for what the handler takes by type hint: None is the client's
    offsets_folder: Path = field(default_factory=lambda: Path.home() / ".rocketmq_offsets")  # broadcast only

    def __post_init__(self) -> None:
        check_begin(self.begin, self.begin_ms)
        if self.codec is not None:
            check_codec(self.codec)
        if self.orderly and self.broadcast:
            raise Error("orderly and broadcast do not go together", hint="An ordered queue has one reader by its lock")
        self._check_mode()
        for name, ways in (("on_unreadable", _WAYS[::2]), ("on_undecodable", _WAYS)):
            if getattr(self, name) is not None:
                check_way(name, getattr(self, name), ("skip",) if self.broadcast else ways)
        check_count("concurrency", self.concurrency)
        check_count("pull_messages", self.pull_messages, MOST_PULLED)
        if self.max_batch is not None:
            check_count("max_batch", self.max_batch, MOST_PULLED)
        check_retry(self.retry)
        check_strategy(self.strategy)
        check_kind("limits", self.limits, FlowLimits, "a pyromq.FlowLimits", hint="Write limits=pyromq.FlowLimits()")
        for name in ("messages", "bytes", "span"):
            check_count(name, getattr(self.limits, name), example=getattr(FlowLimits(), name))
        for name in ("timeout_s", "slow_s", "commit_s", "rebalance_s", "invisible_s", "renew_for_s"):
            check_length(name, getattr(self, name))
        for name in ("hold_s", "grace_s"):
            check_length(name, getattr(self, name), may_be_zero=True)

    def _check_mode(self) -> None:
        if self.mode not in _MODES:
            raise Error(f"mode={self.mode!r} is no way to consume", hint='Give "pull", "pop" or "server"')
        check_count("in_flight", self.in_flight, example=96)
        if self.mode != "pull" and self.broadcast:
            raise Error("messages that are popped go to one member each, and not to all", hint='Use mode="pull"')
        if self.mode != "pull" and self.begin is ConsumeFromWhere.TIMESTAMP:
            raise Error(NO_POP_BEGIN, hint=POP_BEGIN_HINT)

    @property
    def unreadable_way(self) -> PushWay:
        return self.on_unreadable or ("skip" if self.broadcast else "dead-letter")

    @property
    def undecodable_way(self) -> UndecodableWay:
        return self.on_undecodable or ("skip" if self.broadcast else "dead-letter")

    @property
    def retry_rule(self) -> Retry:
        return self.retry or Retry(of_group=bool(self.orderly))


@dataclass(frozen=True, slots=True, kw_only=True)
class PullOptions:
    """How a pull consumer reads and commits."""

    auto_commit: bool = True
    commit_s: float = 5.0
    begin: ConsumeFromWhere = ConsumeFromWhere.LAST_OFFSET  # of queues where the group was never
    begin_ms: int | None = None  # with ConsumeFromWhere.TIMESTAMP
    pull_messages: int = 32
    hold_s: float = 20.0
    strategy: Strategy = field(default_factory=Average)  # of `subscribe`
    rebalance_s: float = 20.0
    on_unreadable: PullWay = "raise"  # a record that nobody can read: `poll` raises Unreadable, or leaves it out
    plain_bytes: int = PLAIN_BYTES  # of one pull, decompressed; what is beyond comes with the next one
    codec: Codec | None = None  # for `Received.decode`: None is the client's

    def __post_init__(self) -> None:
        check_begin(self.begin, self.begin_ms)
        if self.codec is not None:
            check_codec(self.codec)
        check_count("pull_messages", self.pull_messages, MOST_PULLED)
        check_count("plain_bytes", self.plain_bytes, example=PLAIN_BYTES)
        check_way("on_unreadable", self.on_unreadable, ("raise", "skip"))
        check_strategy(self.strategy)
        check_length("commit_s", self.commit_s)
        check_length("rebalance_s", self.rebalance_s)
        check_length("hold_s", self.hold_s, may_be_zero=True)


def check_way(name: str, value: object, allowed: Sequence[str]) -> None:
    """Raise Error unless the option is one of these ways."""
    if value not in allowed:
        words = " or ".join(f'"{each}"' for each in allowed)
        raise Error(f"{name}={value!r} is no way for a message that cannot be read", hint=f"Give {words}")
