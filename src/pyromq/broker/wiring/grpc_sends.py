"""The proxy's side of native gRPC sends: which topics and messages need no look by the RPC. Event loop only.

A verdict depends on the topic and on settings; each change of one of them revokes it at once. Where calls must be
signed a guard stands before it (`grpc_guarding.py`).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from ...kernel.choice import native_http2
from ...kernel.grpc_beats import BeatRules
from ...kernel.grpc_sends import SendRules, TopicRules
from ...kernel.seam import Feed, feed_nothing
from ...model.message import Property
from ...proxy.config import ProxySettings
from ...proxy.messages.limits import RESERVED
from ...proxy.methods import PATH
from ...proxy.queues import write_queues
from ...proxy.rpc.clients import RENEWED, renews
from ...proxy.rpc.send import answer_of, is_checked, takes_kind
from ...proxy.statuses import OK, Denied
from ...transport.server import Server
from ..config import BrokerConfig
from ..pop.tickets import AnyPop
from ..pop.waiting import HeldPops
from .foundation import Foundation
from .grpc import GrpcParts
from .grpc_guarding import CallVerdicts
from .grpc_pops import GrpcPopVerdicts

BEATS = BeatRules(PATH + "Heartbeat", RENEWED.SerializeToString())

# Users may set them, and they say more than a property of theirs does.
_MEANINGFUL = (Property.SHARDING_KEY, Property.TRACE_CONTEXT, Property.TRAN_MSG, "__transferflag")


class GrpcSendVerdicts:
    """One listener's. Implements `kernel.grpc_sends.GrpcSendHost`."""

    def __init__(self, base: Foundation, grpc: GrpcParts, feed: Feed, kernel: type) -> None:
        self._services = grpc.services
        self._backend = grpc.backend
        self.kernel = kernel(self, feed, send_rules(grpc.services.settings))
        base.topics.watch(self.kernel.revoke)
        base.live.watch(self._changed)

    def judge(self, topic: str) -> TopicRules | None:
        try:
            self._services.check_topic(topic)
            queues = write_queues(self._backend.own_route(topic))
        except Denied:
            return None
        expected = self._backend.own_type(topic)
        if not queues or expected is None or not is_checked(topic):
            return None
        settings = self._services.settings
        plain, fifo = (takes_kind(settings, expected, kind) for kind in ("NORMAL", "FIFO"))
        return TopicRules(len(queues), plain, fifo, queues[0].broker)

    def answer_of(self, code: int, remark: str) -> bytes:
        answer: bytes = answer_of(code, remark).SerializeToString()
        return answer

    def _changed(self, config: BrokerConfig) -> None:
        self.kernel.revoke_all()


def send_rules(settings: ProxySettings) -> SendRules:
    """Return the limits of `proxy/messages/limits.py` as the kernel knows them."""
    return SendRules(
        path=PATH + "SendMessage",
        body_bytes=settings.max_message_bytes,
        properties=settings.user_property_max_num,
        property_bytes=settings.max_user_property_size,
        group_bytes=settings.max_message_group_size,
        names=(*RESERVED, *_MEANINGFUL),
        ok_status=OK.SerializeToString(),
    )


def serve_plain_calls(
    base: Foundation, grpc: GrpcParts, held: HeldPops[AnyPop], servers: Iterable[tuple[Server, Feed]]
) -> None:
    """Have the kernel serve plain calls on every listener that has a feed, where HTTP/2 is native. `held`: pops. The
    feeds stand behind no guard: calls have one of their own."""
    native, gate = native_http2(), base.access.gate
    if native is None:
        return
    guard = None if gate is None else CallVerdicts(gate, base.quotas, base.clock, native).kernel
    for server, feed in servers:
        if feed is not feed_nothing:
            sends = GrpcSendVerdicts(base, grpc, feed, native.HotSends).kernel
            sends.serve_pops(GrpcPopVerdicts(base, grpc, held, native.HotPops).kernel)
            sends.serve_beats(native.HotBeats(partial(renews, grpc.services), BEATS))
            if guard is not None:
                sends.admit_by(guard)
            server.serve_hot(sends)
