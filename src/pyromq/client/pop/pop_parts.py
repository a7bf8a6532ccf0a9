"""The parts of a push consumer that pops, put together for `push_consumer.py`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf
from typing import Any

from ..connect.background import Tasks
from ..connect.session import Session
from ..consume.options import ConsumeOptions
from ..consume.send_back import ConsumerSendBack
from ..handle.attempts import Attempt
from ..handle.failures import Failures
from ..subscription import Filter
from ..values import Codec
from .leases import Leases
from .ordered_pop_service import OrderedPopService
from .pop_assignment import PopAssignment
from .pop_calls import Handed, PopCalls
from .pop_service import PopService
from .popped import Popped
from .pops import pops_of


def make_pop_parts(
    session: Session,
    groups: tuple[str, str],
    filters: Mapping[str, Filter],
    options: ConsumeOptions,
    attempt: Attempt,
    failures: Failures,
    codec: Codec,
    tasks: Tasks,
    calls: PopCalls | None = None,
) -> PopAssignment:
    """Make the parts that consume. `groups`: the group's name as brokers know it, and as the user does."""
    group, own_group = groups
    send_back = ConsumerSendBack(session, group, options.retry_rule)
    calls = calls or pops_of(session, group, options.retry_rule)
    leases = Leases(calls, session.clock, group, 0.0)

    def lease(handed: Iterable[Handed]) -> list[Popped]:
        namespace = session.config.namespace
        until = inf if calls.is_renewing else session.clock.monotonic() + options.invisible_s
        about: dict[str, Any] = {"until": until, "keeper": leases}
        found = [
            Popped(message, queue, namespace, own_group, codec, receipt=receipt, **about)
            for message, queue, receipt in handed
        ]
        leases.add(found)
        return found

    service = (OrderedPopService if options.orderly else PopService)(
        attempt=attempt,
        failures=failures,
        retry=options.retry_rule,
        most_retries=send_back.most_retries,
        concurrency=options.concurrency,
        max_batch=options.max_batch or 1,
        invisible_s=options.invisible_s,
        renew_for_s=options.renew_for_s,
        clock=session.clock,
        tasks=tasks,
    )
    return PopAssignment(
        session=session,
        group=group,
        filters=filters,
        options=options,
        calls=calls,
        leases=leases,
        lease=lease,
        service=service,
        tasks=tasks,
        by_server=options.mode == "server",
    )
