"""Which broker holds which logical queue of a static topic: decided here, sent to the brokers by `static_topics.py`.

A logical queue is a chain of stretches, each a physical queue of some broker; the last one is written. A move adds a
stretch on another broker, whose logical offset is set once the old one takes no more messages. Pure functions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from ...protocol.bodies.topics import LogicQueueMappingItem, TopicConfigAndQueueMapping, TopicQueueMappingDetail
from ..command import Failed, NotServed

EPOCH_STEP_MS = 1000
BLOCK = 10_000  # a moved queue goes on at a multiple of this, so that what the old broker still takes has room

Configs = dict[str, TopicConfigAndQueueMapping]  # by broker name


def mapping_of(config: TopicConfigAndQueueMapping) -> TopicQueueMappingDetail:
    if config.mapping_detail is None:
        raise NotServed(f"{config.topic_name} is a topic of the usual kind: it cannot become static")
    return config.mapping_detail


def leaders(topic: str, configs: Configs) -> dict[int, str]:
    """Return, for each logical queue, the broker that it is written to."""
    found = {
        queue: name
        for name, config in configs.items()
        for queue, items in mapping_of(config).hosted_queues.items()
        if items and items[-1].bname == name
    }
    if sorted(found) != list(range(len(found))):
        raise Failed(f"the brokers do not agree on the queues of {topic}: they know {sorted(found)}")
    return found


def extended(
    topic: str, known: Configs, targets: Collection[str], everyone: Iterable[str], total: int, now_ms: int
) -> Configs:
    """Return configs for everyone; the new logical queues are on those targets that have the fewest."""
    written = leaders(topic, known)
    old = len(written)
    if total <= old:
        raise Failed(f"{topic} has {old} queues already: static topics never get fewer, -qn must be more")
    configs = {name: known.get(name) or _empty(topic, name) for name in {*everyone, *targets, *known}}
    counts = Counter(written.values())
    for queue in range(old, total):
        name = min(sorted(targets), key=lambda each: counts[each])
        counts[name] += 1
        mapping_of(configs[name]).hosted_queues[queue] = [_new_item(configs[name], name)]
    _stamp(configs, known, total, now_ms)
    return configs


@dataclass(frozen=True, slots=True)
class Remapping:
    """What a remapping does: all configs, and who takes and who gives queues. No broker does both."""

    configs: Configs
    takers: tuple[str, ...]
    givers: tuple[str, ...]


def moved(topic: str, known: Configs, targets: Collection[str], now_ms: int) -> Remapping:
    """Put all logical queues on the targets, evenly, and move as few as possible."""
    written = leaders(topic, known)
    if not written:
        raise NotServed(f"{topic} is no static topic: updateStaticTopic makes one")
    configs = {name: known.get(name) or _empty(topic, name) for name in {*known, *targets}}
    share_left = _shares(written, targets)
    homeless = []
    for queue, name in written.items():
        if share_left[name] > 0:
            share_left[name] -= 1
        else:
            homeless.append(queue)
    takers = [name for name in sorted(share_left) for _ in range(share_left[name])]
    for queue, taker in zip(homeless, takers, strict=True):
        _move(configs, queue, written[queue], taker)
    _stamp(configs, known, len(written), now_ms)
    return Remapping(configs, tuple(sorted({*takers})), tuple(sorted({written[queue] for queue in homeless})))


def _shares(written: dict[int, str], targets: Collection[str]) -> Counter[str]:
    """Return how many queues each target is to have; those that have most already get what is left over."""
    before = Counter(written.values())
    share, extra = divmod(len(written), len(targets))
    order = sorted(targets, key=lambda name: (-before[name], name))
    return Counter({name: share + (place < extra) for place, name in enumerate(order)})


def _move(configs: Configs, queue: int, giver: str, taker: str) -> None:
    items = list(mapping_of(configs[giver]).hosted_queues[queue])
    last = _new_item(configs[taker], taker)
    last.gen = items[-1].gen + 1
    last.logic_offset = -1  # not known before the giver has stopped
    items.append(last)
    for name in (giver, taker):
        mapping_of(configs[name]).hosted_queues[queue] = items  # one list: both learn the offset


def _new_item(config: TopicConfigAndQueueMapping, name: str) -> LogicQueueMappingItem:
    config.read_queue_nums += 1
    config.write_queue_nums += 1
    return LogicQueueMappingItem(bname=name, queue_id=config.write_queue_nums - 1)


def _empty(topic: str, broker_name: str) -> TopicConfigAndQueueMapping:
    detail = TopicQueueMappingDetail(topic=topic, bname=broker_name)
    return TopicConfigAndQueueMapping(topic_name=topic, read_queue_nums=0, write_queue_nums=0, mapping_detail=detail)


def _stamp(configs: Configs, known: Configs, total: int, now_ms: int) -> None:
    """Set a new epoch, greater than all before, on every broker."""
    epoch = max([now_ms, *(mapping_of(each).epoch + EPOCH_STEP_MS for each in known.values())])
    for config in configs.values():
        mapping_of(config).epoch, mapping_of(config).total_queues = epoch, total


def settle(items: list[LogicQueueMappingItem], end_of_old: int) -> None:
    """Set the logical offset from which the taker writes; the giver's physical queue has ended at `end_of_old`."""
    old, new = items[-2], items[-1]
    if end_of_old < old.start_offset:
        raise Failed(
            f"queue {old.queue_id} of {old.bname} ends at {end_of_old}, before it begins at {old.start_offset}"
        )
    end = old.logic_offset + end_of_old - old.start_offset
    blocks = end // BLOCK + (1 if end % BLOCK < BLOCK // 2 else 2)
    new.logic_offset = blocks * BLOCK
