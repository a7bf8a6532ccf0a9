"""Static topics: made, and given more queues. The tool itself decides which broker holds which logical queue."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from ..admin import cluster, static_topics, topics
from ..protocol.bodies.body import decode_body, encode_body
from ..protocol.bodies.topics import (
    LogicQueueMappingItem,
    TopicConfigAndQueueMapping,
    TopicQueueMappingDetail,
    TopicRemappingDetailWrapper,
)
from .command import Failed, NotServed, Run, command
from .files import read_file, write_aside
from .options import may, need, one_of

STATIC = "static topics: logical queues that stay while brokers come and go"
WHERE = one_of(
    may("b", "brokers", "brokers that take queues, with commas"), may("c", "clusters", "clusters, with commas")
)
FORCE = may("fr", "forceReplace", "with -mf: true replaces what brokers know")
MAP_FILE = may("mf", "mapFile", "file with the mapping, as this command wrote it")
TOPIC = need("t", "topic", "the topic")
EPOCH_STEP_MS = 1000

Configs = dict[str, TopicConfigAndQueueMapping]  # by broker name


def extended(
    topic: str, known: Configs, targets: Collection[str], everyone: Iterable[str], total: int, now_ms: int
) -> Configs:
    """Configs for everyone; the new logical queues are on those targets that have the fewest."""
    old = len(_leaders(topic, known))
    if total <= old:
        raise Failed(f"{topic} has {old} queues already: static topics never get fewer, -qn must be more")
    configs = {name: known.get(name) or _empty(topic, name) for name in {*everyone, *targets, *known}}
    for queue in range(old, total):
        counts = {name: len(_mapping(configs[name]).hosted_queues) for name in targets}
        name = min(sorted(counts), key=lambda each: counts[each])
        config = configs[name]
        config.read_queue_nums += 1
        config.write_queue_nums += 1
        item = LogicQueueMappingItem(bname=name, queue_id=config.write_queue_nums - 1)
        _mapping(config).hosted_queues[queue] = [item]
    epoch = max([now_ms, *(_mapping(each).epoch + EPOCH_STEP_MS for each in known.values())])
    for config in configs.values():
        _mapping(config).epoch, _mapping(config).total_queues = epoch, total
    return configs


def _empty(topic: str, broker_name: str) -> TopicConfigAndQueueMapping:
    detail = TopicQueueMappingDetail(topic=topic, bname=broker_name)
    return TopicConfigAndQueueMapping(topic_name=topic, read_queue_nums=0, write_queue_nums=0, mapping_detail=detail)


def _mapping(config: TopicConfigAndQueueMapping) -> TopicQueueMappingDetail:
    if config.mapping_detail is None:
        raise Failed(f"{config.topic_name} is a topic of the usual kind: it cannot become static")
    return config.mapping_detail


def _leaders(topic: str, configs: Configs) -> dict[int, str]:
    """The broker that is written for each logical queue."""
    found = {
        queue: name
        for name, config in configs.items()
        for queue, items in _mapping(config).hosted_queues.items()
        if items and items[-1].bname == name
    }
    if sorted(found) != list(range(len(found))):
        raise Failed(f"the brokers do not agree on the queues of {topic}: they know {sorted(found)}")
    return found


@command(
    "updateStaticTopic",
    "Create a static topic, or give it more queues",
    WHERE,
    FORCE,
    MAP_FILE,
    need("qn", "totalQueueNum", "how many queues"),
    TOPIC,
    waits_for=STATIC,
)
async def update_static_topic(run: Run) -> None:
    topic, places = run["t"], await cluster.masters(run.calls)
    addresses = {place.name: place.address for place in places}
    if "mf" in run:
        wrapper = decode_body(TopicRemappingDetailWrapper, read_file(run["mf"]))
        if wrapper.topic != topic:
            raise Failed(f"{run['mf']} is the mapping of {wrapper.topic}, not of {topic}")
        await _put_all(run, wrapper.broker_config_map, addresses)
        return
    targets = _targets(run, places)
    clusters = {place.cluster for place in places if place.name in targets}
    everyone = [place.name for place in places if place.cluster in clusters]
    known: Configs = {}
    for name, address in addresses.items():
        config = await topics.config(run.calls, address, topic)
        if isinstance(config, TopicConfigAndQueueMapping):
            known[name] = config
    _keep(run, topic, known, "old", "before")
    configs = extended(topic, known, targets | known.keys(), everyone, run.number("qn"), run.clock.now_ms())
    _keep(run, topic, configs, "new", "after")
    await _put_all(run, configs, addresses)


def _targets(run: Run, places: list[cluster.BrokerPlace]) -> set[str]:
    wanted = {each.strip() for each in (run.get("b") or run.get("c")).split(",") if each.strip()}
    found = {place.name for place in places if (place.name if "b" in run else place.cluster) in wanted}
    missing = wanted - {place.name if "b" in run else place.cluster for place in places}
    if missing:
        raise Failed(f"the name server knows no master of {', '.join(sorted(missing))}")
    return found


def _keep(run: Run, topic: str, configs: Configs, word: str, suffix: str) -> None:
    """The mapping as a file, so that a change that failed half way can be repeated by -mf, or taken back."""
    epoch = max([_mapping(each).epoch for each in configs.values()], default=run.clock.now_ms())
    kind = "CREATE_OR_UPDATE"
    wrapper = TopicRemappingDetailWrapper(topic=topic, type=kind, epoch=epoch, broker_config_map=configs)
    path = Path(tempfile.gettempdir()) / f"{topic}-{epoch}.{suffix}"
    write_aside(path, encode_body(wrapper))
    run.say(f"The {word} mapping data is written to file {path}")


async def _put_all(run: Run, configs: Configs, addresses: Mapping[str, str]) -> None:
    missing = configs.keys() - addresses.keys()
    if missing:
        raise Failed(f"the name server knows no master of {', '.join(sorted(missing))}: nothing was changed")
    for name, config in configs.items():
        await static_topics.put(run.calls, addresses[name], config, force=run.truth("fr") and "mf" in run)


@command(
    "remappingStaticTopic",
    "Move the queues of a static topic to other brokers",
    WHERE,
    FORCE,
    MAP_FILE,
    TOPIC,
    waits_for=STATIC,
)
async def remapping_static_topic(run: Run) -> None:
    raise NotServed(f"remappingStaticTopic waits for {STATIC}; this tool makes them and gives them more queues")
