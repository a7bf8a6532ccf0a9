"""The keywords of `connect`, of consumers and of sends, so that editors complete them and type checkers check them.

What each means, and its default, stands with `ClientConfig`, `ConsumeOptions`, `PullOptions`, `SimpleOptions` and
`Producer.send`.
`tests/client/test_keywords.py` keeps the lists equal to those.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Literal, TypedDict

from ..model.group import ConsumeFromWhere
from ..transport.tls import ClientTls
from .arguments import Seconds
from .consume.options import ConsumeMode, PullWay, PushWay, UndecodableWay
from .core.allocation import Strategy
from .core.process_queue import FlowLimits
from .core.retry import Retry
from .produce.queue_choice import QueueChoice
from .values import Codec

Begin = ConsumeFromWhere | Literal["first", "last"] | datetime | str  # a text: as `model.times.parse_time` reads it


class ClientSettings(TypedDict, total=False):
    """Keywords of `connect` and `App`: fields of `ClientConfig`."""

    endpoints: str
    instance: str
    tls: ClientTls | None
    call_timeout_s: float
    name_server_timeout_s: float
    name_server_patience_s: float
    route_refresh_s: float
    heartbeat_s: float
    trouble_pause_s: float
    namespace: str
    access_key: str
    secret_key: str
    security_token: str
    vip_channel: bool
    trace: bool | str
    codec: Codec


class ConsumeSettings(TypedDict, total=False):
    """Keywords of `push_consumer`, `subscribe` and `App.subscriber`: fields of `ConsumeOptions`."""

    mode: ConsumeMode
    orderly: bool | None
    broadcast: bool
    concurrency: int
    max_batch: int | None
    timeout_s: float
    slow_s: float
    retry: Retry | None
    begin: Begin
    begin_ms: int | None
    strategy: Strategy
    limits: FlowLimits
    pull_messages: int
    hold_s: float
    invisible_s: float
    renew_for_s: float
    in_flight: int
    commit_s: float
    rebalance_s: float
    grace_s: float
    on_unreadable: PushWay | None
    on_undecodable: UndecodableWay | None
    codec: Codec | None
    offsets_folder: Path


class PullSettings(TypedDict, total=False):
    """Keywords of `pull_consumer`: fields of `PullOptions`."""

    auto_commit: bool
    commit_s: float
    begin: Begin
    begin_ms: int | None
    pull_messages: int
    hold_s: float
    strategy: Strategy
    rebalance_s: float
    on_unreadable: PullWay
    plain_bytes: int
    codec: Codec | None


class SimpleSettings(TypedDict, total=False):
    """Keywords of `simple_consumer`: fields of `SimpleOptions`."""

    invisible_s: float
    ack_linger_s: float
    orderly: bool | None
    begin: Begin
    batch: int
    hold_s: float
    on_unreadable: PushWay
    codec: Codec | None


class PublishArguments(TypedDict, total=False):
    """Keywords of `App.publisher`, whose `order_key` may be a function too."""

    tag: str | None
    keys: Iterable[str]
    props: Mapping[str, str] | None
    queue: QueueChoice | None
    delay: Seconds | None
    deliver_at_ms: int | None
    delay_level: int | None
    timeout: Seconds | None
    codec: Codec | None


class SendArguments(PublishArguments, total=False):
    """Keywords of `App.publish`: those of `Producer.send`."""

    order_key: str | None
