"""Holds every request to the quotas of who sends it and of what it is about, before its handler is called.

Stands around the handlers, and costs one look at a flag while there is no quota. Beyond one, the request is refused
with SYSTEM_BUSY (gRPC: 42900), which names the quota, its use, and when to try again; `retryAfterMs` among the fields
of the answer says that once more for programs. What was read is charged when it is answered.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial

from ...ambient import Clock
from ...protocol.requests import RequestCode as Code
from ...transport.dispatch import Answer, Handler, Reply, Request
from ..reading.charging import count_messages, read_of
from . import held as holding
from .counts import QuotaCounts
from .half_messages import HalfMessages
from .limits import Limit, QuotaKind, QuotaSubject
from .loop_time import GROUP_FIELDS, LoopTime
from .quotas import Quotas
from .refusal import BeyondQuota, beyond
from .scopes import RequestScope, Scopes
from .use import QuotaUse

_LONG_SENDS = (Code.SEND_MESSAGE, Code.SEND_REPLY_MESSAGE)
_SHORT_SENDS = (Code.SEND_MESSAGE_V2, Code.SEND_BATCH_MESSAGE, Code.SEND_REPLY_MESSAGE_V2)
_READS = (
    Code.PULL_MESSAGE,
    Code.LITE_PULL_MESSAGE,
    Code.POP_MESSAGE,
    Code.PEEK_MESSAGE,
    Code.QUERY_MESSAGE,
    Code.VIEW_MESSAGE_BY_ID,
)
_FLAT_S = 1.0  # after which to try again where no rate says it


class QuotaGate:
    """Event loop only."""

    def __init__(self, quotas: Quotas, counts: QuotaCounts, halves: HalfMessages, clock: Clock, scopes: Scopes) -> None:
        self._quotas = quotas
        self._scopes = scopes
        self._counts = counts
        self._halves = halves
        self._clock = clock

    def around(self, handlers: Mapping[int, Handler]) -> dict[int, Handler]:
        found = dict(handlers)
        rules: list[tuple[tuple[int, ...], Callable[[Handler, Request], Answer]]] = [
            (_LONG_SENDS, partial(self._send, ("topic", "producerGroup", "properties", "batch"))),
            (_SHORT_SENDS, partial(self._send, ("b", "a", "i", "m"))),
            (_READS, self._read),
            ((Code.HEART_BEAT,), self._beat),
            ((Code.UPDATE_AND_CREATE_TOPIC, Code.UPDATE_AND_CREATE_TOPIC_LIST), self._create_topics),
            ((Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST), self._groups),
        ]
        for codes, rule in rules:
            for code in codes:
                if code in found:
                    found[code] = self._held_to(rule, found[code])
        time = LoopTime(self._quotas, self._clock, self._uses_of_anybody, self._scopes.is_spared, self._out_of_time)
        return {code: time.around(code, handler) for code, handler in found.items()}

    def _held_to(self, rule: Callable[[Handler, Request], Answer], handler: Handler) -> Handler:
        quotas = self._quotas

        def held(request: Request) -> Answer:
            if quotas.is_empty:
                return handler(request)
            try:
                return rule(handler, request)
            except BeyondQuota as refusal:
                if refusal.holds:
                    return self._refuse_later(refusal)
                raise

        return held

    def _out_of_time(self, uses: list[QuotaUse]) -> Answer:
        try:
            self._check_rates(uses, {Limit.LOOP_TIME: 0})
        except BeyondQuota as refusal:
            return self._refuse_later(refusal)
        return None

    def _refuse_later(self, refusal: BeyondQuota) -> Awaitable[Reply]:
        """Refuse after a moment: a client that tries again at once, as Java's do, cannot flood us with that.

        What waits is the answer: an exception that is kept, and raised again, is in a circle with its frames, and
        thousands of those make Python's search for garbage stop the broker."""
        return self._answer_later(Reply(refusal.code, remark=str(refusal), fields=refusal.fields))

    async def _answer_later(self, reply: Reply) -> Reply:
        await self._clock.sleep(holding.HELD_S)
        return reply

    # --- sends --------------------------------------------------------------------------------------------------------

    def _send(self, names: tuple[str, str, str, str], handler: Handler, request: Request) -> Answer:
        topic, group, properties, _ = (request.command.fields.get(name, "") for name in names)
        uses = self._halves.limited(self.uses(self._scopes.of(request, topic, group)), properties)
        serve = partial(self._send_now, names, handler)
        return self._send_half(uses, serve, request) if uses else serve(request)

    async def _send_half(
        self, uses: list[QuotaUse], serve: Callable[[Request], Answer], request: Request
    ) -> Reply | None:
        try:
            return await self._halves.send(uses, serve, request)
        except BeyondQuota as refusal:
            if refusal.holds:
                return await self._refuse_later(refusal)
            raise

    def _send_now(self, names: tuple[str, str, str, str], handler: Handler, request: Request) -> Answer:
        fields, body = request.command.fields, request.command.body
        topic, group, properties, batch = (fields.get(name, "") for name in names)
        scope = self._scopes.of(request, topic, group, properties)
        is_batch = batch == "true" or request.command.code == Code.SEND_BATCH_MESSAGE
        amounts = {Limit.SEND_BYTES: len(body), Limit.SEND_MESSAGES: count_messages(body) if is_batch else 1}
        uses = list(self.uses(scope))
        self.check_connections(uses, scope)
        self.check_waiting(uses, scope)
        makers = self._check_new(QuotaKind.TOPIC, [topic], scope)
        self._check_rates(uses, amounts)
        now = self._clock.monotonic()
        for use in uses:
            for limit, amount in amounts.items():
                if (bucket := use.buckets.get(limit)) is not None:
                    bucket.take(amount, now)
        return self._make(QuotaKind.TOPIC, makers, handler, request)

    # --- reads --------------------------------------------------------------------------------------------------------

    def _read(self, handler: Handler, request: Request) -> Answer:
        fields = request.command.fields
        scope = self._scopes.of(request, fields.get("topic", ""), fields.get("consumerGroup", ""))
        uses = list(self.uses(scope))
        self.check_connections(uses, scope)
        self._check_rates(uses, {Limit.READ_BYTES: 1, Limit.READ_MESSAGES: 1})
        charge = partial(self._charge, uses)
        request.on_answer = charge  # of one that is suspended
        answer = handler(request)
        if isinstance(answer, Reply):
            charge(answer)
        return answer if answer is None or isinstance(answer, Reply) else self._charged(charge, answer)

    async def _charged(self, charge: Callable[[Reply], None], answer: Awaitable[Reply | None]) -> Reply | None:
        reply = await answer
        if reply is not None:
            charge(reply)
        return reply

    def _charge(self, uses: list[QuotaUse], reply: Reply) -> None:
        found = read_of(reply)
        if found is None:
            return
        size, messages = found
        now = self._clock.monotonic()
        for use in uses:
            if (bucket := use.buckets.get(Limit.READ_BYTES)) is not None:
                bucket.take(size, now)
            if (bucket := use.buckets.get(Limit.READ_MESSAGES)) is not None:
                bucket.take(messages, now)

    # --- groups, topics -----------------------------------------------------------------------------------------------

    def _beat(self, handler: Handler, request: Request) -> Answer:
        body = request.body
        for consumer in body.consumer_data_set:
            scope = self._scopes.of(request, "", consumer.group_name)
            uses = list(self.uses(scope))
            self.check_connections(uses, scope)
            self._check_flat(uses, Limit.SUBSCRIPTIONS, len(consumer.subscription_data_set))
        scope = self._scopes.of(request)
        makers = self._check_new(QuotaKind.GROUP, [one.group_name for one in body.consumer_data_set], scope)
        for producer in body.producer_data_set:
            of_group = self._scopes.of(request, "", producer.group_name)
            self.check_connections(list(self.uses(of_group)), of_group)
        return self._make(QuotaKind.GROUP, makers, handler, request)

    def _create_topics(self, handler: Handler, request: Request) -> Answer:
        if request.command.code == Code.UPDATE_AND_CREATE_TOPIC:
            header = request.header
            wanted = {header.topic: max(header.read_queue_nums, header.write_queue_nums)}
        else:
            topics = request.body.topic_config_list
            wanted = {one.topic_name: max(one.read_queue_nums, one.write_queue_nums) for one in topics}
        for topic, queues in wanted.items():
            use = self._quotas.use(QuotaKind.TOPIC, topic)
            self._check_flat([] if use is None else [use], Limit.QUEUES, queues)
        new = self._check_new(QuotaKind.TOPIC, list(wanted), self._scopes.of(request))
        return self._make(QuotaKind.TOPIC, new, handler, request)

    def _groups(self, handler: Handler, request: Request) -> Answer:
        body = request.body
        one = request.command.code == Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
        names = [body.group_name] if one else [each.group_name for each in body.group_config_list]
        new = self._check_new(QuotaKind.GROUP, names, self._scopes.of(request))
        return self._make(QuotaKind.GROUP, new, handler, request)

    def _check_new(self, kind: QuotaKind, names: list[str], scope: RequestScope) -> list[str]:
        """Return which of these are not there yet; refuse them where their maker has enough."""
        new = [name for name in dict.fromkeys(names) if name and not self._counts.exists(kind, name)]
        if not new:
            return []
        limit = Limit.TOPICS if kind is QuotaKind.TOPIC else Limit.GROUPS
        for use in self.uses(scope):
            if use.owner.kind in (QuotaKind.USER, QuotaKind.ADDRESS) and limit in use.limits:
                made = self._quotas.made_by(kind, use.owner)
                there = sum(self._counts.exists(kind, name) for name in made)
                self._check_flat([use], limit, there + len(new))
        return new

    def _make(self, kind: QuotaKind, names: list[str], handler: Handler, request: Request) -> Answer:
        """Serve what may make these. Those that are there then, of a refused request too, count for who sent it."""
        if not names:
            return handler(request)
        note = partial(self._note_makers, kind, names, self._scopes.of(request))
        try:
            answer = handler(request)
        finally:
            note()
        return answer if answer is None or isinstance(answer, Reply) else self._made(note, answer)

    async def _made(self, note: Callable[[], None], answer: Awaitable[Reply | None]) -> Reply | None:
        try:
            return await answer
        finally:
            note()

    def _note_makers(self, kind: QuotaKind, names: list[str], scope: RequestScope) -> None:
        makers = [QuotaSubject(QuotaKind.USER, scope.user)] if scope.user else []
        for name in (each for each in names if self._counts.exists(kind, each)):
            self._quotas.note_maker(kind, name, [*makers, QuotaSubject(QuotaKind.ADDRESS, scope.host)])

    # --- what is allowed ----------------------------------------------------------------------------------------------

    def uses(self, scope: RequestScope) -> Iterator[QuotaUse]:
        """Yield what is used by everybody and everything that a request concerns, where there is a quota of it."""
        named = ((QuotaKind.USER, scope.user), (QuotaKind.GROUP, scope.group), (QuotaKind.TOPIC, scope.topic))
        for kind, name in (*named, (QuotaKind.ADDRESS, scope.host)):
            use = self._quotas.use(kind, name) if name else None
            if use is not None:
                yield use

    def _uses_of_anybody(self, request: Request) -> Iterator[QuotaUse]:
        """Yield what is used by whoever sent a request of any kind, and by the group that it is about."""
        fields, code = request.command.fields, request.command.code
        name = "a" if code in _SHORT_SENDS else GROUP_FIELDS.get(code, "producerGroup")
        return self.uses(self._scopes.of(request, group=fields.get(name, "")))

    def check_waiting(self, uses: list[QuotaUse], scope: RequestScope) -> None:
        """Refuse a send for what waits or is stored already."""
        self._counts.check_waiting(uses, scope.properties)

    def _check_rates(self, uses: list[QuotaUse], amounts: Mapping[Limit, int]) -> None:
        now = self._clock.monotonic()
        for use in uses:
            for limit in amounts:
                bucket = use.buckets.get(limit)
                if bucket is not None and (wait_s := bucket.wait_s(now)) > 0:
                    raise beyond(use, limit, f"{bucket.used(now):.0f}", wait_s, holds=True)

    def check_connections(self, uses: list[QuotaUse], scope: RequestScope) -> None:
        """Refuse a connection that is one too many; note that the others were heard of."""
        now = self._clock.monotonic()
        for use in uses:
            most = use.limits.get(Limit.CONNECTIONS)
            if most is None:
                continue
            if scope.address not in use.connections and (count := use.count_connections(now)) >= most:
                raise beyond(use, Limit.CONNECTIONS, str(count), _FLAT_S)
            use.heard_of(scope.address, now)

    def _check_flat(self, uses: list[QuotaUse], limit: Limit, wanted: int) -> None:
        """Refuse what would make it more than there may be."""
        for use in uses:
            most = use.limits.get(limit)
            if most is not None and wanted > most:
                raise beyond(use, limit, f"{wanted} wanted", _FLAT_S)
