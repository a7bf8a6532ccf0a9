"""Checks of `pyromq doctor` that concern topics and groups: routes, permissions, queues, subscriptions, lag."""

from __future__ import annotations

from collections.abc import AsyncIterator

from ...client.errors import Refused
from ...errors import CallFailed
from ...model import names
from ...model.filters.canonical import canonical
from ...model.foreign_text import shell_word
from ...model.message import Property, StoredMessage
from ...model.topic import Perm, permission
from ...protocol.bodies.topics import TopicConfig
from ...protocol.headers.admin import QueryConsumeTimeSpan
from ...protocol.requests import RequestCode
from ...text.similar import closest
from ...text.values import plural
from .. import groups, messages, offsets, topics
from ..cluster import BrokerPlace
from .checked import BROKEN, GOOD, WARNING, CheckedCluster, CheckResult

_UNLESS_MEANT = "If that is not meant:"
_MOVES_KEYS = (
    "It is an order topic: with more brokers most keys move to other queues, where their next messages may overtake "
    "those that wait, so it is refused until all is consumed (or with --move-keys). "
)
MOST_GIVEN_UP = 100  # of a broker: the newest ones are looked at
STUCK_S = 600  # the oldest message that waits is older, and nothing is consumed


async def routes(checked: CheckedCluster) -> AsyncIterator[CheckResult]:
    for place in checked.masters:
        checked.configs[place.name] = await topics.configs(checked.calls, place.address)
    own = {word for place in checked.brokers for word in (place.name, place.cluster)}  # topics of the brokers' own
    known = {name for each in checked.configs.values() for name in each if not topics.is_internal(name)} - own
    if checked.topic is not None and checked.topic not in known:
        text, cure = f"no broker has topic {checked.topic!r}.{closest(checked.topic, known)}", "If that is its name:"
        yield CheckResult("topic", BROKEN, text, cure, f"pyromq topic create {shell_word(checked.topic)}")
        return
    wanted = sorted(known) if checked.topic is None else [checked.topic]
    bad = 0
    async for one in _drained(checked, wanted):
        bad += 1
        yield one
    for name in wanted:
        async for one in _route(checked, name):
            bad += 1
            yield one
    if not bad:
        is_one = len({place.cluster for place in checked.masters}) < 2
        where = f"on all {len(checked.configs)} brokers" if is_one else "on all brokers of their clusters"
        yield CheckResult("topics", GOOD, f"{len(wanted)} topics have routes, {where}")


async def _drained(checked: CheckedCluster, wanted: list[str]) -> AsyncIterator[CheckResult]:
    """Find brokers that the name server keeps producers from, although their own topics may be written."""
    kept: dict[str, set[str]] = {place.name: set() for place in checked.masters}
    for name in wanted:
        route = checked.routes[name] = await topics.route(checked.calls, name)
        for part in [] if route is None else route.queue_datas:
            config = checked.configs.get(part.broker_name, {}).get(name)
            if config is not None and config.perm & Perm.WRITE and not part.perm & Perm.WRITE:
                kept[part.broker_name].add(name)
    drained = {broker: each for broker, each in kept.items() if each and broker not in checked.closed}
    is_all = len(drained) == len(checked.masters)
    for broker, each in drained.items():
        text = f"{broker} is drained: the name server tells producers not to write to {len(each)} of its topics"
        command = f"pyromq broker drain {shell_word(broker)} --undo"
        state = BROKEN if is_all else WARNING
        yield CheckResult("permission", state, text, "If nobody takes it down just now:", command)


async def _partly_placed(checked: CheckedCluster, name: str, having: set[str]) -> AsyncIterator[CheckResult]:
    """Find a topic that is on some brokers of a cluster and not on its others."""
    clusters: dict[str, set[str]] = {}
    for place in checked.masters:
        clusters.setdefault(place.cluster, set()).add(place.name)
    cure = "If that one fails, nothing can be sent. Unless it is meant so, make it on the others, without --dry-run:"
    for cluster_name, members in sorted(clusters.items()):
        here = sorted(members & having)
        if here and len(here) < len(members):
            where = f" of {cluster_name}" if len(clusters) > 1 else ""
            text = f"{name} is on {len(here)} of {len(members)} brokers{where} ({', '.join(here)})"
            same = _create_like(checked.configs[here[0]][name])
            command = " && ".join(f"{same} -b {shell_word(one)} --dry-run" for one in sorted(members - having))
            moves = _MOVES_KEYS if checked.configs[here[0]][name].order else ""
            yield CheckResult("topic", WARNING, text, f"{moves}{cure}", command)


def _create_like(config: TopicConfig) -> str:
    """Return the command that makes a topic with the settings of another broker's."""
    words = ["pyromq topic create", shell_word(config.topic_name), f"--queues {config.write_queue_nums}"]
    if config.read_queue_nums != config.write_queue_nums:
        words.append(f"--read-queues {config.read_queue_nums}")
    if config.perm & Perm.READ_WRITE != Perm.READ_WRITE:
        words.append(f"--perm {permission(config.perm)}")
    words += ["--order"] * config.order
    return " ".join(words + [f"--attr {shell_word(f'+{key}={value}')}" for key, value in config.attributes.items()])


async def _route(checked: CheckedCluster, name: str) -> AsyncIterator[CheckResult]:
    having = sorted(broker for broker, each in checked.configs.items() if name in each)
    async for one in _partly_placed(checked, name, set(having)):
        yield one
    if checked.routes[name] is None:
        cure = "The broker tells it within 30 s of a change; if it stays so, see its log for registrations that fail"
        yield CheckResult("route", BROKEN, f"the name server has no route of {name}", cure)
    for broker in having:
        config = checked.configs[broker][name]
        if (bits := config.perm & 6) != 6:
            words = {0: "neither read nor written", 2: "written, not read", 4: "read, not written"}[bits]
            command = f"pyromq topic perm {shell_word(name)} rw -b {shell_word(broker)}"
            yield CheckResult("permission", WARNING, f"{name} on {broker} can be {words}", _UNLESS_MEANT, command)
        reads, writes = config.read_queue_nums, config.write_queue_nums
        if reads < writes:
            text = f"{name} on {broker} has {writes} queues to write and {reads} to read"
            command = f"pyromq topic update {shell_word(name)} --read-queues {writes} -b {shell_word(broker)}"
            yield CheckResult("queues", BROKEN, text, "Nobody reads the rest. Let all be read:", command)


async def transactions(checked: CheckedCluster) -> AsyncIterator[CheckResult]:
    """Find transactions that our brokers have given up; Apache's do not say which were asked about again since."""
    own = [place for place in checked.masters if place.address in checked.inspected]
    for queue in await topics.queues(checked.calls, own, names.CHECKS_EXHAUSTED_TOPIC):
        given_up: dict[str, StoredMessage] = {}
        at = (checked.calls, queue.place.address, names.CHECKS_EXHAUSTED_TOPIC, queue.queue_id)
        async for page in messages.pages(*at, max(queue.first, queue.end - MOST_GIVEN_UP), queue.end):
            for each in page.messages:
                topic = each.properties.get(Property.REAL_TOPIC, "")
                if each.unique_id is None or checked.topic not in (None, topic):
                    continue
                life = await messages.life(checked.calls, queue.place.address, topic, each.unique_id)
                if life is not None and life["state"] == messages.GIVEN_UP:
                    given_up[each.unique_id] = each
        if not given_up:
            continue
        groups_of = sorted({each.properties.get(Property.PGROUP, "") for each in given_up.values()})
        text = f"{queue.place.name} has given up {plural(len(given_up), 'transaction')} that nobody decided"
        cure = (
            f"Let the check handlers of producer group {', '.join(groups_of)} run, then have them asked anew one by one"
            f" (pyromq msg query {names.CHECKS_EXHAUSTED_TOPIC} lists them):"
        )
        yield CheckResult("transactions", WARNING, text, cure, f"pyromq msg recheck {next(iter(given_up))}")


async def consumers(checked: CheckedCluster) -> AsyncIterator[CheckResult]:
    known: set[str] = set()
    for place in checked.masters:
        known |= (await groups.configs(checked.calls, place.address)).keys()
    if checked.group is not None and checked.group not in known:
        text = f"no broker has group {checked.group!r}.{closest(checked.group, known)}"
        cure = "If that is its name, it is made by its first consumer, or by:"
        yield CheckResult("group", BROKEN, text, cure, f"pyromq group create {shell_word(checked.group)}")
        return
    wanted = sorted(name for name in known if not groups.is_internal(name))
    bad = 0
    for name in wanted if checked.group is None else [checked.group]:
        async for one in _group(checked, name):
            bad += 1
            yield one
    if not bad:
        yield CheckResult("groups", GOOD, f"{len(wanted)} groups: no conflict, none stuck")


async def _group(checked: CheckedCluster, name: str) -> AsyncIterator[CheckResult]:
    for place in checked.masters:
        online = await groups.connections(checked.calls, place.address, name)
        cure = (
            f"Give all members of {name} the same topics and filters, or those that want others a group of their own; "
            f"who is in it: pyromq group clients {shell_word(name)}"
        )
        for text in await _conflicts(checked, place, name):
            yield CheckResult("subscriptions", BROKEN, f"on {place.name} messages are lost to {text}", cure)
        for text in _of_group(name, checked.inspected.get(place.address, {}).get("refusedConsumers", [])):
            yield CheckResult("subscriptions", WARNING, f"{place.name} refuses a consumer of {text}", cure)
        progress = await offsets.waiting(checked.calls, place.address, name)
        for topic in sorted({queue.topic for queue in progress.offset_table}):
            async for one in _stuck(checked, place, name, topic, online is not None):
                yield one


async def _conflicts(checked: CheckedCluster, place: BrokerPlace, name: str) -> list[str]:
    """Return where members want different things. Our broker says so; with Apache's, each member is asked."""
    if place.address in checked.inspected:
        return _of_group(name, checked.inspected[place.address].get("conflicts", []))
    online = await groups.connections(checked.calls, place.address, name)
    wants: dict[str, str] = {}
    for one in [] if online is None else online.connection_set:
        try:
            info = await groups.running_info(checked.calls, place.address, name, one.client_id)
        except (Refused, CallFailed):
            continue
        wanted = [each for each in info.subscription_set if not names.is_retry(each.topic)]
        texts = sorted(f"{each.topic}: {canonical(each.expression_type, each.sub_string)}" for each in wanted)
        if texts:  # else it reads queues of its own choice
            wants[f"{one.client_id} ({one.client_addr})"] = ", ".join(texts)
    if len(set(wants.values())) < 2:
        return []
    return [f"group {name}: " + "; ".join(f"{client} subscribes to {text}" for client, text in wants.items())]


def _of_group(name: str, texts: list[str]) -> list[str]:
    return [text for text in texts if text.startswith(f"group {name}: ")]


async def _stuck(
    checked: CheckedCluster, place: BrokerPlace, name: str, topic: str, is_online: bool
) -> AsyncIterator[CheckResult]:
    """Find messages that wait for long while nothing is consumed."""
    progress = await offsets.waiting(checked.calls, place.address, name, topic)
    behind = {queue.queue_id: one for queue, one in progress.offset_table.items() if one.lag}
    if not behind or progress.consume_tps > 0:
        return
    wanted = QueryConsumeTimeSpan(topic=topic, group=name)
    spans = (await checked.calls.ask(place.address, RequestCode.QUERY_CONSUME_TIME_SPAN, wanted)).body
    old = {
        one.message_queue.queue_id: one.delay_time / 1000
        for one in spans.consume_time_span_set
        if one.message_queue is not None and one.delay_time > STUCK_S * 1000 and one.message_queue.queue_id in behind
    }
    if not old:
        return
    queue = max(old, key=lambda one: old[one])
    waiting = f"{progress.lag} messages of {topic} on {place.name} wait, the oldest for {old[queue] / 60:.0f} min"
    if not is_online:
        cure = f"Start a consumer. Only if {name} shall never see them: what a skip leaves out is shown by"
        command = f"pyromq group skip {shell_word(name)} {shell_word(topic)} --dry-run"
        yield CheckResult("lag", WARNING, f"{name} has no member online; {waiting}", cure, command)
        return
    cure = (
        f"See what its members do with offset {behind[queue].consumer_offset} of queue {queue} (pyromq group stack). "
        f"Only if {name} shall never see that message: what a skip leaves out is shown by"
    )
    command = f"pyromq group skip {shell_word(name)} {shell_word(topic)} -b {shell_word(place.name)} --queue {queue}"
    text = f"{name} has members online and does not move; {waiting}"
    yield CheckResult("stuck", BROKEN, text, cure, f"{command} --messages 1 --dry-run")
