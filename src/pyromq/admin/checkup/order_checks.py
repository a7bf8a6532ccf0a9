"""The checks of `pyromq doctor` that concern order: what name servers tell clients of order topics, and who pops FIFO
topics out of order."""

from __future__ import annotations

from collections.abc import AsyncIterator

from ...model.foreign_text import shell_word
from ...model.names import DLQ_PREFIX, RETRY_PREFIX
from ...model.topic import ORDER_TOPIC_CONFIG, order_text, parse_order
from ...text.values import plural
from .. import groups, offsets, settings
from .checked import BROKEN, GOOD, WARNING, CheckedCluster, CheckResult

MESSAGE_TYPE, FIFO = "message.type", "FIFO"


async def order_configs(checked: CheckedCluster) -> AsyncIterator[CheckResult]:
    """Find order topics whose entry at the name servers is nonsense, missing, or names other brokers and queues.

    Retry and dead-letter topics of orderly groups are order topics to a broker too, and need no entry: only brokers
    write to them."""
    entries = await settings.kv_list(checked.calls, ORDER_TOPIC_CONFIG)
    by_topic: dict[str, dict[str, int]] = {}
    for broker, each in checked.configs.items():
        for name, config in each.items():
            if config.order and not name.startswith((RETRY_PREFIX, DLQ_PREFIX)):
                by_topic.setdefault(name, {})[broker] = config.write_queue_nums
    for name in sorted(entries.keys() | by_topic.keys()):
        if checked.topic in (None, name):
            found = _order_config(checked, name, entries.get(name), by_topic.get(name, {}))
            if found is not None:
                yield found


def _order_config(
    checked: CheckedCluster, name: str, entry: str | None, at_brokers: dict[str, int]
) -> CheckResult | None:
    registered = {place.name for place in checked.brokers}
    if entry is None:
        if len(at_brokers) < 2:
            return None
        text = f"{name} is an order topic, and the name servers have no {ORDER_TOPIC_CONFIG} of it"
        cure = "While one of its brokers is away, keys move to the others. Set it, without --dry-run:"
        return CheckResult("order", WARNING, text, cure, _set_order(name, at_brokers))
    try:
        queues = parse_order(name, entry)
    except ValueError as fault:
        cure = "Set it to what its brokers have, without --dry-run:" if at_brokers else "It is no order topic:"
        return CheckResult("order", BROKEN, f"{fault}: sends to {name} fail", cure, _set_order(name, at_brokers))
    if gone := ", ".join(broker for broker in queues if broker not in registered):
        # Clients wait for it, as Java's do.
        text = f"{name} is ordered over {entry}, and {gone} is not registered: sends with the keys of its queues fail"
        cure = (
            f"Start {gone} again. Only if it never returns, and its keys shall go to other queues, without --dry-run:"
        )
        left = {broker: count for broker, count in queues.items() if broker in registered}
        return CheckResult("order", BROKEN, text, cure, _set_order(name, left))
    if at_brokers and queues != at_brokers and {*queues, *at_brokers} <= checked.configs.keys():
        text = f"{name} is ordered over {entry} by the name servers, and its brokers have {order_text(at_brokers)}"
        is_beyond = any(count > at_brokers.get(broker, 0) for broker, count in queues.items())
        effect = "Sends to queues that are not there fail" if is_beyond else "Nothing is sent to the queues left out"
        cure = f"{effect}. Set it when all is consumed, since keys move by it, without --dry-run:"
        return CheckResult("order", WARNING, text, cure, _set_order(name, at_brokers))
    return None


def _set_order(name: str, queues: dict[str, int]) -> str:
    change = f"set {ORDER_TOPIC_CONFIG} {shell_word(name)} {shell_word(order_text(queues))}"
    return f"pyromq kv {change if queues else f'delete {ORDER_TOPIC_CONFIG} {shell_word(name)}'} --dry-run"


async def fifo_groups(checked: CheckedCluster) -> AsyncIterator[CheckResult]:
    """Find groups that pop FIFO topics and are not orderly: gRPC clients cannot ask for order themselves.

    Our brokers tell who pops; Apache's do not, so nothing is found there."""
    fifo = {
        name
        for each in checked.configs.values()
        for name, config in each.items()
        if config.attributes.get(MESSAGE_TYPE) == FIFO and checked.topic in (None, name)
    }
    bad: set[tuple[str, str]] = set()
    for place in checked.masters if fifo else ():
        for name, config in (await groups.configs(checked.calls, place.address)).items():
            if checked.group not in (None, name) or groups.is_internal(name) or config.consume_message_orderly:
                continue
            popped = (await offsets.progress(checked.calls, place.address, name)).popped or []
            bad |= {(name, topic) for topic in popped if topic in fifo}
    for name, topic in sorted(bad):
        text = f"{name} pops {topic}, a FIFO topic, and is not orderly: its messages come in any order"
        command = f"pyromq group update {shell_word(name)} --orderly --dry-run"
        yield CheckResult("order", WARNING, text, "Let the group have them in order, without --dry-run:", command)
    if fifo and not bad:
        yield CheckResult("order", GOOD, f"{plural(len(fifo), 'FIFO topic')}: nobody pops out of order")
