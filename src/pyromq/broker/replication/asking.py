"""One broker asks another: a request by its row, the answer typed; and a slave its master for whole tables.

CallFailed, CallRefused or Malformed if it fails."""

from __future__ import annotations

from typing import TypeVar

from ...errors import CallRefused, Malformed
from ...model.codes import ResponseCode
from ...protocol.bodies.body import encode_body
from ...protocol.bodies.groups import SubscriptionGroupConfig
from ...protocol.bodies.stats import TimerMetrics
from ...protocol.bodies.topics import TopicConfig
from ...protocol.command import Command
from ...protocol.headers.admin import GetAllSubscriptionGroup, GetAllTopicConfig
from ...protocol.headers.header import Header
from ...protocol.json import ANSWER_LIMITS
from ...protocol.requests import RequestCode as Code
from ...protocol.row import Row
from ...store.timer.timer_state import TimerCheck, read_packed
from ...transport.client import RemotingClient
from .adoption import Pages

H = TypeVar("H", bound=Header | None)
A = TypeVar("A", bound=Header | None)
B = TypeVar("B")
R = TypeVar("R")
C = TypeVar("C")

TIMEOUT_S = 10.0
PAGE = 2_000  # topics or groups, as Java's slave asks


async def ask(
    client: RemotingClient, address: str, row: Row[H, B, A, R], header: H | None = None, timeout_s: float = TIMEOUT_S
) -> tuple[A, R]:
    """Return header and body of a successful answer."""
    fields = {} if header is None else header.to_fields()
    answer = await client.call(address, Command(code=row.code, fields=fields), timeout_s)
    if answer.code != ResponseCode.SUCCESS:
        raise CallRefused(answer.code, answer.remark, address)
    return row.gives.read_header(answer.fields), row.gives.read_body(answer.body, ANSWER_LIMITS)


async def masters_topics(client: RemotingClient, address: str) -> Pages[TopicConfig]:
    pages: Pages[TopicConfig] = Pages()
    while not pages.is_whole:
        wanted = GetAllTopicConfig(topic_seq=pages.next, data_version=_text(pages), max_topic_num=PAGE)
        header, body = await ask(client, address, Code.GET_ALL_TOPIC_CONFIG, wanted)
        pages.take(body.data_version, body.topic_config_table, header.total_topic_num)
    return pages


async def masters_groups(
    client: RemotingClient, address: str
) -> tuple[Pages[SubscriptionGroupConfig], dict[str, dict[str, int]]]:
    """Return the groups, and which topics each may not read."""
    pages: Pages[SubscriptionGroupConfig] = Pages()
    forbidden: dict[str, dict[str, int]] = {}
    while not pages.is_whole:
        wanted = GetAllSubscriptionGroup(group_seq=pages.next, data_version=_text(pages), max_group_num=PAGE)
        header, body = await ask(client, address, Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, wanted)
        pages.take(body.data_version, body.subscription_group_table, header.total_group_num)
        forbidden = (forbidden if pages.entries else {}) | body.forbidden_table
    return pages, forbidden


async def masters_timer(client: RemotingClient, address: str) -> TimerCheck | None:
    """Return how far the master's timer is; None: it has none (timerWheelEnable=false of Java's)."""
    try:
        _, packed = await ask(client, address, Code.GET_TIMER_CHECK_POINT)
    except CallRefused:
        return None
    check = read_packed(packed)
    if check is None:
        raise Malformed(f"{address} answered request 60 with {len(packed)} bytes: a timer's check point has 56")
    return check


async def masters_counts(client: RemotingClient, address: str) -> TimerMetrics | None:
    """Return how many messages wait in the master's timer, by topic; None: it has none."""
    try:
        return (await ask(client, address, Code.GET_TIMER_METRICS))[1]
    except CallRefused:
        return None


def _text(pages: Pages[C]) -> str:
    """Return the version as Java's requests carry it."""
    return "" if pages.version is None else encode_body(pages.version).decode()
