"""The proxy's side of native receives, acks and changes: which need no look by the RPCs. Event loop only.

A verdict on receives depends on the client, the group, the topic and on settings; each change of one of them revokes it
at once. What the pop itself rests on is judged by the broker's feed, as for remoting clients.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from typing import cast

from ...kernel.grpc_pops import PLACE, AckVerdict, HandedMessages, Meaning, PopRules, ReceiveVerdict
from ...kernel.pops import CheckPoint
from ...model.message import Property
from ...model.pop_names import popped_topic
from ...model.receipt import NORMAL, RETRY_V1, RETRY_V2, Receipt
from ...protocol.grpc import v2
from ...protocol.grpc.v2 import Code
from ...protocol.record import decode_record
from ...proxy.calls import Caller
from ...proxy.clients.settings import max_attempts
from ...proxy.messages.convert import message_of
from ...proxy.messages.filters import TAG, expression_of, wanted_tags
from ...proxy.messages.limits import RESERVED
from ...proxy.messages.names import check_group
from ...proxy.messages.popped import Popped, own_receipt
from ...proxy.methods import PATH
from ...proxy.queues import readable_brokers
from ...proxy.receipts import change_refusal
from ...proxy.renewals import YOUNG_MS
from ...proxy.rpc import receive
from ...proxy.statuses import OK, Denied, status, status_of
from ...transport.peer import Peer
from ..config import BrokerConfig
from ..pop.tickets import AnyPop, KernelPop
from ..pop.waiting import HeldPops
from ..pop.young.lanes import Lanes
from .foundation import Foundation
from .grpc import GrpcParts

_PLACE = struct.Struct(PLACE)
_OWN = ("maxMsgNums", "invisibleTime", "pollTime", "bornTime", "order")  # each receive has its own, or none
MEANINGS = {
    **dict.fromkeys(RESERVED, Meaning.HIDDEN),
    Property.TAGS: Meaning.TAG,
    Property.KEYS: Meaning.KEYS,
    Property.UNIQ_KEY: Meaning.ID,
    Property.BORN_HOST: Meaning.BORN_HOST,
    Property.POP_CK: Meaning.RECEIPT,
    Property.SHARDING_KEY: Meaning.USER | Meaning.GROUP,
    Property.TRACE_CONTEXT: Meaning.USER | Meaning.TRACE,
    **dict.fromkeys(
        (
            *(Property.TIMER_DELAY_SEC, Property.TIMER_DELAY_MS, Property.TIMER_DELIVER_MS, Property.DELAY),
            *(Property.TRAN_MSG, Property.PRIORITY, Property.LITE_TOPIC),
            *(Property.DLQ_ORIGIN_TOPIC, Property.DLQ_ORIGIN_MESSAGE_ID),
        ),
        Meaning.ODD,
    ),
}


class GrpcPopVerdicts:
    """One listener's. Implements `kernel.grpc_pops.GrpcPopHost`."""

    def __init__(self, base: Foundation, grpc: GrpcParts, held: HeldPops[AnyPop], kernel: type) -> None:
        """`held`: the pops that wait."""
        self._base, self._services, self._backend, self._held = base, grpc.services, grpc.backend, held
        self.kernel = kernel(self, grpc.services.renewals.held, self._rules(base.live.config))
        base.topics.watch(self._table_changed)
        base.groups.watch(self._table_changed)
        base.live.watch(lambda config: self.kernel.use(self._rules(config)))
        grpc.services.clients.watch(self.kernel.revoke_client)

    def _table_changed(self, name: str) -> None:
        self.kernel.revoke_all()

    def _rules(self, config: BrokerConfig) -> PopRules:
        settings = self._services.settings
        return PopRules(
            receive_path=PATH + "ReceiveMessage",
            ack_path=PATH + "AckMessage",
            change_path=PATH + "ChangeInvisibleDuration",
            broker=config.broker_name,
            least_poll_ms=settings.grpc_client_consumer_min_long_polling_timeout_millis,
            most_poll_ms=settings.grpc_client_consumer_max_long_polling_timeout_millis,
            reserve_ms=receive.RESERVE_MS,
            least_invisible_ms=settings.min_invisible_time_mills_for_recv,
            most_invisible_ms=settings.max_invisible_time_mills,
            renewed_ms=settings.default_invisible_time_mills if settings.enable_proxy_auto_renew else 0,
            messages=settings.grpc_client_consumer_long_polling_batch_size,
            names=MEANINGS,
            ok_status=OK.SerializeToString(),
            no_match=receive.NO_MATCH,
        )

    # --- verdicts -------------------------------------------------------------------------------------------------

    def judge_receive(
        self, client_id: str, group: str, topic: str, broker: str, filter_type: int, expression: str
    ) -> ReceiveVerdict | None:
        client = self._services.clients.find(client_id)
        config = self._base.groups.find(group)
        if client is None or client.stream is None or (config is not None and config.consume_message_orderly):
            return None
        try:
            self._services.check_topic(topic)
            check_group(group)
            kind, text = expression_of(v2.FilterExpression(type=v2.FilterType(filter_type), expression=expression))
            own = readable_brokers(self._backend.own_route(topic))
        except Denied:
            return None
        if kind != TAG or not own:
            return None
        fields = receive.pop_header(receive.ReceivedFrom(group, topic, own[0]), kind, text).to_fields()
        return ReceiveVerdict(
            client_id=client_id,
            group=group,
            topic=topic,
            broker=own[0],
            tags=wanted_tags(kind, text),
            attempts=max_attempts(config),
            timeout_ms=client.request_timeout_ms,
            fields={name: value for name, value in fields.items() if name not in _OWN},
        )

    def judge_ack(self, group: str, topic: str) -> AckVerdict | None:
        try:
            self._services.check_topic(topic)
            check_group(group)
        except Denied:
            return None
        return AckVerdict([popped_topic(topic, group, mark) for mark in (NORMAL, RETRY_V1, RETRY_V2)])

    def now_ms(self) -> int:
        return self._services.clock.now_ms()

    def is_renewed(self, client_id: str, group: str, receipt: str) -> bool:
        return self._services.renewals.is_renewed(client_id, group, receipt)

    # --- messages -------------------------------------------------------------------------------------------------

    def message(self, verdict: ReceiveVerdict, record: bytes, handed: HandedMessages) -> bytes | None:
        found = decode_record(record, verify=False)
        receipt = own_receipt(found) or next(_receipts(verdict, handed))
        one = Popped(found, receipt._replace(position=found.physical_offset))
        source, caller = _source(verdict), _caller(verdict)
        if receive.is_set_aside(self._services, caller, source, one, verdict.tags, verdict.attempts):
            return None
        made = message_of(found, handed.pop_time, one.receipt.encode_with_position(), handed.invisible_ms)
        return made.SerializeToString()

    def is_there(self, verdict: ReceiveVerdict) -> bool:
        client = self._services.clients.find(verdict.client_id)
        return client is not None and client.stream is not None

    def delivered(self, verdict: ReceiveVerdict, handed: HandedMessages) -> bool:
        if not self.is_there(verdict):
            self.give_back(verdict, handed)
            return False
        for queue_id, start, places, retry in handed.shares:
            receipt = _receipt(verdict, handed, queue_id, start, retry)
            self._services.renewals.hold_answer(verdict.client_id, verdict.group, verdict.topic, receipt, places)
        return True

    def give_back(self, verdict: ReceiveVerdict, handed: HandedMessages) -> None:
        receipts = list(_receipts(verdict, handed))
        self._services.spawn(receive.give_back(self._services, _caller(verdict), _source(verdict), receipts))

    def abandoned(self, peer: object, stream: int) -> bool:
        return self._held.forget(cast(Peer, peer), partial(_is_of, stream))

    def gone(self, peer: object) -> None:
        self._held.drop(cast(Peer, peer))

    def refused(self, method: str, code: int, remark: str, answer: bytes) -> Sequence[bytes]:
        if method == "AckMessage":
            acked = v2.AckMessageResponse.FromString(answer)
            failed = status(Code.INTERNAL_SERVER_ERROR, "ack failed: status is abnormal")
            for entry in acked.entries:
                entry.status.CopyFrom(failed)
            acked.status.CopyFrom(status(Code.INTERNAL_SERVER_ERROR))
            return (acked.SerializeToString(),)
        if method == "ChangeInvisibleDuration":
            shown = status_of(change_refusal(code, remark), method)
            return (v2.ChangeInvisibleDurationResponse(status=shown).SerializeToString(),)
        try:
            if code < 0:
                raise Denied(Code.MESSAGE_NOT_FOUND, receive.DISCONNECTED.format(remark))
            receive.check_found(code, remark)
        except Denied as fault:
            shown = status_of(fault, method)
        last = receive.last_element(self.now_ms())
        return (v2.ReceiveMessageResponse(status=shown).SerializeToString(), last)


class OpenMessages:
    """Implements `proxy.renewals.OpenReceipts` by the broker's own table. Event loop only."""

    def __init__(self, lanes: Lanes) -> None:
        self._lanes = lanes

    def open_offsets(self, group: str, topic: str, receipt: Receipt) -> Collection[int]:
        lane = self._lanes.find(group, popped_topic(topic, group, receipt.retry), receipt.queue_id)
        if lane is None:
            return ()
        found: CheckPoint | None = self._lanes.table.point(lane, receipt.start, receipt.pop_time)
        return () if found is None else found.open_offsets


def _source(verdict: ReceiveVerdict) -> receive.ReceivedFrom:
    return receive.ReceivedFrom(verdict.group, verdict.topic, verdict.broker)


def _caller(verdict: ReceiveVerdict) -> Caller:
    return Caller(verdict.client_id, "", "", "127.0.0.1:0")


def _receipt(verdict: ReceiveVerdict, handed: HandedMessages, queue_id: int, start: int, retry: int) -> Receipt:
    """Return the receipt of a check point of an answer, but for the message's own place."""
    times = handed.pop_time, handed.invisible_ms, handed.revive_queue
    return Receipt(start, *times, str(retry), verdict.broker, queue_id, start)


def _is_of(stream: int, pop: AnyPop) -> bool:
    """Return whether a pop that waits was made of the call on this stream."""
    return isinstance(pop, KernelPop) and pop.frame.endswith(b'"opaque":%d}' % stream)


def _receipts(verdict: ReceiveVerdict, handed: HandedMessages) -> Iterator[Receipt]:
    for queue_id, start, places, retry in handed.shares:
        receipt = _receipt(verdict, handed, queue_id, start, retry)
        for offset, position, _ in _PLACE.iter_unpack(places):
            yield receipt._replace(offset=offset, position=position)


def leaving(grpc: GrpcParts, points: Sequence[CheckPoint]) -> None:
    """Look at what clients hold before check points leave memory that are younger than expected."""
    renewals, now_ms = grpc.services.renewals, grpc.services.clock.now_ms()
    if any(point.pop_time > now_ms - 2 * YOUNG_MS for point in points):
        renewals.grow(now_ms)
