"""`pyromq topic`: what topics there are and how full they are; made, changed, deleted.

`forward` is in forward.py, `stats` in stats.py, `reset` in group/offsets.py.
"""

from __future__ import annotations

from collections import Counter
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import click

from ... import admin
from ...model.names import topic_fault
from ...model.topic import PERMISSIONS, permission
from ...text.values import plural
from ..group.offsets import reset_topic
from ..terminal.options import one_broker, one_cluster, together
from ..terminal.printing import print_lines
from ..terminal.shell import Shell, changes, talks
from ..terminal.tree import Fail, Tree, command
from ..terminal.validation import check_name_servers, check_own_topic, check_topic
from .forward import TYPE, forward
from .queue_changes import check_queues
from .stats import is_internal, stats

if TYPE_CHECKING:
    from ...admin.changes.topic_queues import Pairs, QueueLosses
    from ...admin.cluster import BrokerPlace
    from ...client.errors import Refused
    from ...protocol.bodies.topics import TopicConfig

TYPES = ("UNSPECIFIED", "NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED", "PRIORITY", "LITE")


@click.group(cls=Tree)
def topic() -> None:
    """Topics: list, describe, make, change, delete; traffic, and where their groups go on."""


for _command in (stats, reset_topic, forward):
    topic.add_command(_command)


@command("pyromq topic list", "pyromq topic list 'order*' --json", "pyromq topic list --all", of=topic, name="list")
@click.argument("pattern", default="*")
@click.option("--all", "everything", is_flag=True, help="Also retry and dead-letter topics, and the system's own.")
@one_cluster
@talks
async def list_topics(shell: Shell, pattern: str, everything: bool, cluster: str | None) -> None:
    """List topics, or those whose name fits PATTERN (`order*`). Exit code 1 if a broker does not answer."""
    rows: dict[str, dict[str, Any]] = {}

    async def fetch(place: BrokerPlace) -> None:
        for name, config in sorted((await admin.topics.configs(shell.calls, place.address)).items()):
            if fnmatchcase(name, pattern) and (everything or not is_internal(name, place)):
                before = rows.get(name, {"writeQueues": 0, "readQueues": 0, "brokers": []})
                rows[name] = {"topic": name, "type": config.attributes.get(TYPE, "UNSPECIFIED")} | _settings(config)
                rows[name]["writeQueues"] += before["writeQueues"]
                rows[name]["readQueues"] += before["readQueues"]
                rows[name]["brokers"] = [*before["brokers"], place.name]

    away = await shell.each(await shell.masters(cluster=cluster), fetch)
    nothing = f"no topic fits {pattern!r}" if pattern != "*" else "no topics yet"
    shell.rows([rows[name] for name in sorted(rows)], nothing)
    shell.end(away)


@command("pyromq topic describe orders", "pyromq topic describe orders --json", of=topic)
@click.argument("name")
@talks
async def describe(shell: Shell, name: str) -> None:
    """Show a topic's settings and queues on each broker, and who consumes it."""
    await shell.topic(name)
    found: dict[str, Any] = {"topic": name, "messages": 0, "perSecond": 0.0, "brokers": [], "queues": [], "groups": []}
    lags: Counter[str] = Counter()

    async def fetch(place: BrokerPlace) -> None:
        config = await admin.topics.config(shell.calls, place.address, name)
        if config is None:
            return
        attributes = dict(config.attributes)
        where = {"broker": place.name, "address": place.address, "type": attributes.pop(TYPE, "UNSPECIFIED")}
        found["brokers"].append(where | _settings(config) | {"attributes": attributes})
        stats = await admin.topics.stats(shell.calls, place.address, name)
        found["perSecond"] += stats.topic_put_tps
        found["messages"] += stats.count
        for queue, at in admin.topics.by_number(stats.offset_table):
            found["queues"].append(
                {"broker": place.name, "queue": queue.queue_id, "from": at.min_offset}
                | {"end": at.max_offset, "messages": at.count, "lastMs": at.last_update_timestamp}
            )
        for group in await admin.topics.groups(shell.calls, place.address, name):
            lags[group] += (await admin.offsets.progress(shell.calls, place.address, group, name)).lag

    away = await shell.each(await shell.masters(), fetch)
    found["groups"] = [{"group": group, "lag": lag} for group, lag in sorted(lags.items())]
    shell.report(found)
    shell.end(away)


@command("pyromq topic route orders", "pyromq topic route orders --json", of=topic)
@click.argument("name")
@talks
async def route(shell: Shell, name: str) -> None:
    """Show what the name server tells clients: which brokers, at which addresses, with which queues."""
    await shell.topic(name)
    found = await admin.topics.route(shell.calls, name)
    if found is None:
        raise Fail(f"the name server has no route of {name}: no broker that has it is registered")
    addresses = {one.broker_name: one for one in found.broker_datas}
    rows = [
        {"broker": one.broker_name, "cluster": addresses[one.broker_name].cluster, "writeQueues": one.write_queue_nums}
        | {"readQueues": one.read_queue_nums, "permission": permission(one.perm)}
        | {"addresses": {str(key): value for key, value in addresses[one.broker_name].broker_addrs.items()}}
        for one in sorted(found.queue_datas, key=lambda one: one.broker_name)
        if one.broker_name in addresses
    ]
    shell.rows(rows)


def _settings(config: TopicConfig) -> dict[str, Any]:
    queues = {"writeQueues": config.write_queue_nums, "readQueues": config.read_queue_nums}
    return queues | {"permission": permission(config.perm), "order": config.order}


_settings_options = together(
    click.argument("name"),
    one_cluster,
    one_broker,
    click.option("--queues", type=click.IntRange(min=1), help="Queues on each broker."),
    click.option("--read-queues", type=click.IntRange(min=1), help="Queues that are read, if others than written."),
    click.option("--perm", type=click.Choice(list(PERMISSIONS)), help="Read, write, both, none."),
    click.option("--order/--no-order", default=None, help="Keys keep their queue while a broker is away."),
    click.option("--type", "kind", type=click.Choice(TYPES, case_sensitive=False), help="Which messages it takes."),
    click.option("--attr", "attributes", multiple=True, metavar="+KEY=VALUE|-KEY", help="Set or drop an attribute."),
    click.option("--move-keys", is_flag=True, help="Change queues of an order topic though keys move by it."),
)


@command(
    "pyromq topic create orders",
    "pyromq topic create orders --queues 16 --type FIFO",
    "pyromq topic create orders -b broker-a --perm r --dry-run",
    of=topic,
)
@_settings_options
@changes
async def create(
    shell: Shell, name: str, broker: str | None, cluster: str | None, move_keys: bool, **wanted: Any
) -> None:
    """Make a topic, 8 queues on each broker unless told otherwise. Nothing is asked where nothing is lost by it.

    An order topic on a further broker moves keys to other queues: only when all is consumed, or with --move-keys.
    """
    from ...admin.changes.topic_changes import new_topic

    if (fault := topic_fault(name)) is not None:
        raise click.UsageError(fault)
    places = await shell.masters(broker, cluster)
    for place in places:
        if await admin.topics.config(shell.calls, place.address, name) is not None:
            raise Fail(f"topic {name!r} is on {place.name} already. Change it: pyromq topic update {name}")
    made = [(place, _changed(new_topic(name), wanted)) for place in places]
    losses = await check_queues(shell, [], made, move_keys=move_keys)
    await _put(shell, "make", made, wanted, losses, ask=bool(losses), force=move_keys)


@command(
    "pyromq topic update orders --queues 16", "pyromq topic update orders --attr +cleanup.policy=DELETE --yes", of=topic
)
@_settings_options
@changes
async def update(
    shell: Shell, name: str, broker: str | None, cluster: str | None, move_keys: bool, **wanted: Any
) -> None:
    """Change what is told, keep the rest. Messages in queues that are taken away are not read any more.

    So take away the queues to write first (--queues 2 --read-queues 4), and those to read when all is consumed.
    """
    if all(value is None or value == () for value in wanted.values()):
        raise click.UsageError("say what to change: --queues, --perm, --order, --type or --attr")
    pairs = await _present(shell, name, broker, cluster)
    changed = [(place, _changed(now, wanted)) for place, now in pairs]
    losses = await check_queues(shell, pairs, changed, move_keys=move_keys)
    await _put(shell, "change", changed, wanted, losses, ask=True, force=move_keys)


@command("pyromq topic perm orders r --yes", "pyromq topic perm orders rw -b broker-a", of=topic)
@click.argument("name")
@click.argument("perm", type=click.Choice(list(PERMISSIONS)))
@one_broker
@one_cluster
@changes
async def perm(shell: Shell, name: str, perm: str, broker: str | None, cluster: str | None) -> None:
    """Let a topic be read (r), written (w), both or none."""
    from ...admin.changes.topic_queues import QueueLosses

    pairs = await _present(shell, name, broker, cluster)
    changed = [(place, _changed(now, {"perm": perm})) for place, now in pairs]
    await _put(shell, "change", changed, {}, QueueLosses({}, {}), ask=True)


@command("pyromq topic delete orders --dry-run", "pyromq topic delete orders --yes", of=topic)
@click.argument("name")
@one_cluster
@changes
async def delete(shell: Shell, name: str, cluster: str | None) -> None:
    """Delete a topic with its messages, on all brokers and name servers.

    Brokers want the right Delete on the topic, name servers Update on the cluster; without that they still list it.
    """
    from ...admin.changes.topic_changes import present
    from ...admin.changes.topic_deletion import parts_of

    await shell.topic(name)  # it may be one that only name servers know any more
    pairs = await present(shell.calls, await shell.masters(None, cluster), name)

    plan: list[dict[str, Any]] = [
        {"topic": name, "broker": one.place.name, "messages": one.messages, "groups": one.groups}
        for one in await parts_of(shell.calls, [place for place, _ in pairs], name)
    ]
    await check_own_topic(shell, name, [place for place, _ in pairs])
    await check_name_servers(shell)
    shell.about_to(f"delete topic {name} with {sum(one['messages'] for one in plan)} messages", plan)
    for place, _ in pairs:
        await admin.topics.delete_in_broker(shell.calls, place.address, name)
    refusal = await admin.topics.forget_in_name_servers(shell.calls, name, cluster)
    if refusal is not None and not pairs:
        raise refusal
    shell.rows([one | {"deleted": True} for one in plan]) if shell.as_json else shell.say(f"topic {name} is deleted")
    if refusal is not None:
        print_lines(f"pyromq: {_still_listed(name, refusal)}", err=True)


def _still_listed(name: str, refusal: Refused) -> str:
    cure = f"It goes when who may Update the cluster (an administrator) types the same: pyromq topic delete {name}"
    return f"it is deleted on all brokers, and name servers still list it: {str(refusal).rstrip('.')}. {cure}"


async def _present(shell: Shell, name: str, broker: str | None, cluster: str | None) -> Pairs:
    """Return the brokers that have the topic. Fail if none has."""
    from ...admin.changes.topic_changes import present

    if broker is None:
        await shell.topic(name)
    places = await shell.masters(broker, cluster)
    found = await present(shell.calls, places, name)
    if not found:
        raise Fail(f"topic {name!r} is not on {', '.join(place.name for place in places)}")
    return found


def _changed(config: TopicConfig, wanted: dict[str, Any]) -> TopicConfig:
    from ...admin.changes.topic_changes import changed_topic

    return changed_topic(config, **{name: wanted.get(name) for name in ("queues", "read_queues", "perm", "order")})


def _attributes(wanted: dict[str, Any]) -> str | None:
    parts = list(wanted.get("attributes") or ())
    for part in parts:
        if not part.startswith(("+", "-")) or (part[0] == "+" and "=" not in part):
            raise click.UsageError(f"--attr {part}: write +KEY=VALUE to set, -KEY to drop")
    if wanted.get("kind"):
        parts.append(f"+{TYPE}={wanted['kind'].upper()}")
    return ",".join(parts) or None


async def _put(
    shell: Shell,
    verb: str,
    pairs: Pairs,
    wanted: dict[str, Any],
    losses: QueueLosses,
    *,
    ask: bool,
    force: bool = False,
) -> None:
    from ...admin.changes.topic_changes import put_order

    name, attributes = pairs[0][1].topic_name, _attributes(wanted)
    await check_topic(shell, pairs, attributes, is_new=verb == "make")
    plan: list[dict[str, Any]] = [
        {"topic": name, "broker": place.name, **_settings(config), "attributes": attributes}
        | losses.columns(place.name)
        for place, config in pairs
    ]
    if ask or shell.is_dry:
        what = f"{verb} topic {name} on {plural(len(pairs), 'broker')}"
        shell.about_to(what + losses.in_words(), plan)
    for place, config in pairs:
        await admin.topics.put(shell.calls, place.address, config, attributes, force=force)
    if wanted.get("order") is not None or any(config.order for _, config in pairs):
        await put_order(shell.calls, pairs)
    shell.rows(plan)
