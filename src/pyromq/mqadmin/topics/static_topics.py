"""Static topics: made, given more queues, and moved between brokers. `static_mapping.py` decides what goes where."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from ...admin import cluster, topics
from ...protocol.bodies.body import decode_body, encode_body
from ...protocol.bodies.keyed import MessageQueue
from ...protocol.bodies.topics import TopicRemappingDetailWrapper
from ...protocol.headers.admin import CreateTopic
from ...protocol.json import ANSWER_LIMITS
from ...protocol.requests import RequestCode
from ..command import Failed, Run, command
from ..files import read_file, write_private
from ..options import TOPIC
from .static_mapping import Configs, Remapping, extended, mapping_of, moved, settle

STATIC = "static topics: logical queues that stay while brokers come and go"
WHERE = ("[-b brokers=]  brokers that take queues, with commas", "[-c clusters=]  clusters, with commas")
FORCE = "[-fr forceReplace=]  true: replace what brokers know, even if it is newer"
MAP_FILE = "[-mf mapFile=]  file with the mapping, as this command wrote it"


@command("Create a static topic, or give it more queues", WHERE, FORCE, MAP_FILE, TOPIC, waits_for=STATIC)
async def update_static_topic(run: Run) -> None:
    """-qn totalQueueNum=  how many queues"""
    topic, places = run["t"], await cluster.masters(run.calls)
    addresses = {place.name: place.address for place in places}
    if "mf" in run:
        wrapper = _from_file(run, topic)
        await _put_all(run, wrapper.broker_config_map, wrapper.broker_config_map, addresses)
        return
    targets = _targets(run, places)
    clusters = {place.cluster for place in places if place.name in targets}
    everyone = [place.name for place in places if place.cluster in clusters]
    known = await _known(run, topic, addresses)
    _keep(run, topic, Remapping(known, (), ()), "before", "The old mapping")
    configs = extended(topic, known, targets | known.keys(), everyone, run.number("qn"), run.clock.now_ms())
    _keep(run, topic, Remapping(configs, (), ()), "after", "The new mapping")
    await _put_all(run, configs, configs, addresses)


async def _known(run: Run, topic: str, addresses: Mapping[str, str]) -> Configs:
    found = {name: await topics.config(run.calls, at, topic, logical=True) for name, at in addresses.items()}
    return {name: config for name, config in found.items() if config is not None}


def _from_file(run: Run, topic: str) -> TopicRemappingDetailWrapper:
    wrapper = decode_body(TopicRemappingDetailWrapper, read_file(run["mf"]), ANSWER_LIMITS)
    if wrapper.topic != topic:
        raise Failed(f"{run['mf']} is the mapping of {wrapper.topic}, not of {topic}")
    return wrapper


def _targets(run: Run, places: list[cluster.BrokerPlace]) -> set[str]:
    wanted = {*run.words("b"), *run.words("c")}
    found = {place.name for place in places if (place.name if "b" in run else place.cluster) in wanted}
    missing = wanted - {place.name if "b" in run else place.cluster for place in places}
    if missing:
        raise Failed(f"the name server knows no master of {', '.join(sorted(missing))}")
    return found


def _keep(run: Run, topic: str, move: Remapping, suffix: str, what: str) -> None:
    """Write the mapping to a file, so that a change that failed half way can be repeated by -mf, or undone."""
    epoch = max([mapping_of(each).epoch for each in move.configs.values()], default=run.clock.now_ms())
    wrapper = TopicRemappingDetailWrapper(
        topic=topic,
        type="REMAPPING" if move.takers else "CREATE_OR_UPDATE",
        epoch=epoch,
        broker_config_map=move.configs,
        broker_to_map_in=list(move.takers),
        broker_to_map_out=list(move.givers),
    )
    path = write_private(Path(tempfile.gettempdir()), (), f"{topic}-{epoch}.{suffix}", encode_body(wrapper))
    run.say(f"{what} data is written to file {path}")


async def _put_all(run: Run, names: Iterable[str], configs: Configs, addresses: Mapping[str, str]) -> None:
    missing = configs.keys() - addresses.keys()
    if missing:
        raise Failed(f"the name server knows no master of {', '.join(sorted(missing))}: nothing was changed")
    for name in names:
        header = CreateTopic.of(configs[name], force=run.truth("fr"))
        await run.ask(addresses[name], RequestCode.UPDATE_AND_CREATE_STATIC_TOPIC, header, configs[name].mapping_detail)


@command("Move the queues of a static topic to other brokers", WHERE, FORCE, MAP_FILE, TOPIC, waits_for=STATIC)
async def remapping_static_topic(run: Run) -> None:
    topic, places = run["t"], await cluster.masters(run.calls)
    addresses = {place.name: place.address for place in places}
    if "mf" in run:
        wrapper = _from_file(run, topic)
        takers, givers = tuple(wrapper.broker_to_map_in), tuple(wrapper.broker_to_map_out)
        await _remap(run, topic, Remapping(wrapper.broker_config_map, takers, givers), addresses)
        return
    targets = _targets(run, places)
    known = await _known(run, topic, addresses)
    _keep(run, topic, Remapping(known, (), ()), "before", "The old mapping")
    move = moved(topic, known, targets, run.clock.now_ms())
    _keep(run, topic, move, "after", "The old mapping")  # Java's word for both files
    await _remap(run, topic, move, addresses)


async def _remap(run: Run, topic: str, move: Remapping, addresses: Mapping[str, str]) -> None:
    """Write takers first, so that there is somewhere to write; then givers stop, which settles where takers go on."""
    await _put_all(run, move.takers, move.configs, addresses)
    await _put_all(run, move.givers, move.configs, addresses)
    for giver in move.givers:
        ends = (await topics.stats(run.calls, addresses[giver], topic)).offset_table
        for queue, items in mapping_of(move.configs[giver]).hosted_queues.items():
            if len(items) < 2 or items[-1].logic_offset >= 0:
                continue
            place = MessageQueue(topic=topic, broker_name=giver, queue_id=items[-2].queue_id)
            if place not in ends:
                raise Failed(f"{giver} does not tell where queue {items[-2].queue_id} of {topic} ends")
            settle(items, ends[place].max_offset)
            mapping_of(move.configs[items[-1].bname]).hosted_queues[queue] = items
    await _put_all(run, move.takers, move.configs, addresses)
    others = move.configs.keys() - {*move.takers, *move.givers}
    await _put_all(run, sorted(others), move.configs, addresses)
