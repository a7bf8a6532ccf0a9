"""`pyromq group`: consumer groups, how far behind they are and why, who is in them, and where they go on.

Requests are RocketMQ's own, so it works with Java's brokers too. `skip` and `reset` are in offsets.py, `mode` is in
mode.py, `delete` in deletion.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from ... import admin
from ...model.foreign_text import shell_word
from ...model.names import group_fault
from ...text.values import plural
from ..terminal.called import as_called
from ..terminal.options import one_broker, one_cluster, together
from ..terminal.printing import print_lines, print_text
from ..terminal.shell import Shell, changes, talks
from ..terminal.tree import Fail, Tree, command, unknown
from ..terminal.validation import check_group
from .deletion import delete
from .mode import mode
from .offsets import clone, reset, skip

if TYPE_CHECKING:
    from ...admin.cluster import BrokerPlace
    from ...protocol.bodies.connections import ConsumerConnection
    from ...protocol.bodies.groups import SubscriptionGroupConfig


@click.group(cls=Tree)
def group() -> None:
    """Consumer groups: list, describe, lag, members, where they go on."""


for _command in (skip, reset, clone, mode, delete):
    group.add_command(_command)


@command("pyromq group list", "pyromq group list --all --json", of=group, name="list")
@click.option("--all", "everything", is_flag=True, help="Also groups of the system and of tools.")
@talks
async def list_groups(shell: Shell, everything: bool) -> None:
    """List groups: members online, messages that wait, how often they do not subscribe alike, topics.

    Exit code 1 if a broker does not answer.
    """
    rows: dict[str, dict[str, Any]] = {}
    online: dict[str, set[str]] = {}  # by group: who brokers know

    async def fetch(place: BrokerPlace) -> None:
        for name in sorted(await admin.groups.configs(shell.calls, place.address)):
            if everything or not admin.groups.is_internal(name):
                online.setdefault(name, set()).update(await _add(shell, rows, place, name))

    away = await shell.each(await shell.masters(), fetch)
    await _add_of_proxies(shell, rows, online)
    shell.rows([rows[name] for name in sorted(rows)], "no groups yet")
    if torn := [name for name in sorted(rows) if rows[name]["conflicts"]]:
        hint = f"More: pyromq doctor --group {shell_word(torn[0])}"
        shell.say(f"All members of a group must subscribe alike; not so in {', '.join(torn)}. {hint}")
    shell.end(away)


async def _add_of_proxies(shell: Shell, rows: dict[str, dict[str, Any]], online: dict[str, set[str]]) -> None:
    """Count members that brokers do not know: gRPC clients of gateways."""
    for name, by_proxy in (await admin.proxies.all_connections(shell.calls)).items():
        if name in rows:
            members = {one.client_id for each in by_proxy.values() for one in each.connection_set}
            rows[name]["members"] += len(members - online[name])


async def _add(shell: Shell, rows: dict[str, dict[str, Any]], place: BrokerPlace, name: str) -> set[str]:
    """Add what one broker says of a group. Return its members there."""
    fresh = {"group": name, "members": 0, "mode": "", "conflicts": 0, "lag": 0, "perSecond": 0.0, "topics": []}
    row = rows.setdefault(name, fresh)
    online = await admin.groups.connections(shell.calls, place.address, name)
    if online is not None:
        row["members"] = max(row["members"], len(online.connection_set))
        row["mode"] = _mode(online)
        conflicts = await admin.groups.conflicts(shell.calls, place.address, name)
        row["conflicts"] = max(row["conflicts"], len(conflicts))
    progress = await admin.offsets.waiting(shell.calls, place.address, name)
    row["perSecond"] += progress.consume_tps
    for queue, one in progress.offset_table.items():
        row["lag"] += one.lag
        if queue.topic not in row["topics"]:
            row["topics"].append(queue.topic)
    return set() if online is None else {one.client_id for one in online.connection_set}


def _mode(online: ConsumerConnection) -> str:
    return "" if online.message_model is None else online.message_model.value.lower()


@command("pyromq group describe billing", "pyromq group describe billing --json", of=group)
@click.argument("name", metavar="GROUP")
@one_broker
@talks
async def describe(shell: Shell, name: str, broker: str | None) -> None:
    """Show a group's settings, members, what they want, and where it is in each queue."""
    from ...admin.progress.group_state import online_in, queues_of

    places = await shell.masters_with(name, broker)
    found: dict[str, Any] = {"group": name, "lag": 0, "mode": "", "settings": [], "members": [], "subscriptions": []}
    for place in places:
        if (config := await admin.groups.config(shell.calls, place.address, name)) is not None:
            found["settings"].append({"broker": place.name} | admin.definitions.shown_settings(config))
    online = await online_in(shell.calls, places, name)
    for each in online.values():
        found["mode"] = _mode(each)
    queues = await queues_of(shell.calls, places, name, None)
    found |= {"members": _members(online), "subscriptions": _subscriptions(online), "queues": queues}
    found["lag"] = sum(one["lag"] for one in queues)
    conflicts = await _conflicts(shell, places, name)
    shell.report(found | ({"conflicts": conflicts} if shell.as_json else {}))
    _warn_beyond_end(shell, name, queues)


@command("pyromq group lag billing", "pyromq group lag billing orders --json", of=group)
@click.argument("name", metavar="GROUP")
@click.argument("topic", required=False)
@one_broker
@talks
async def lag(shell: Shell, name: str, topic: str | None, broker: str | None) -> None:
    """Tell how far GROUP is behind in each queue, and how many more consumers would help."""
    from ...admin.progress.group_lag import lag_of

    places = await shell.masters_with(name, broker)
    if topic is not None:
        await shell.topic(topic, None if broker is None else places)
    found = await lag_of(shell.calls, places, name, topic)
    for row in found["topics"]:
        row["advice"] = as_called(row["advice"])
    queues = found["queues"]
    await _conflicts(shell, places, name)
    shell.report(found)
    _warn_beyond_end(shell, name, queues)
    if not queues:
        shell.say(f"{name} has no offsets{f' in {topic}' if topic else ''}: it has consumed nothing yet")


@command("pyromq group clients billing", "pyromq group clients billing --json", of=group)
@click.argument("name", metavar="GROUP")
@talks
async def clients(shell: Shell, name: str) -> None:
    """List the members that are online. Exit code 1 if there is none."""
    from ...admin.progress.group_state import online_in

    places = await shell.masters_with(name)
    rows = _members(await online_in(shell.calls, places, name))
    await _conflicts(shell, places, name)
    shell.rows(rows)
    if not rows:
        raise Fail(f"group {name} has no member online")


@command("pyromq group stack billing", "pyromq group stack billing --client 10.0.0.7@42#1", of=group)
@click.argument("name", metavar="GROUP")
@click.option("--client", help="Only this member.")
@talks
async def stack(shell: Shell, name: str, client: str | None) -> None:
    """Show what the members do right now: the stacks of their threads or tasks. Exit code 1 if none is online."""
    from ...admin.progress.group_state import online_in

    places = await shell.masters_with(name)
    online = await online_in(shell.calls, places, name)
    address = {place.name: place.address for place in places}
    stacks: dict[str, str] = {}
    for broker, each in online.items():
        for one in each.connection_set if broker in address else ():  # a proxy is not asked
            if one.client_id not in stacks and client in (None, one.client_id):
                asked = (shell.calls, address[broker], name, one.client_id)
                stacks[one.client_id] = (await admin.groups.running_info(*asked, with_stacks=True)).jstack or ""
    if not stacks and client is not None and online:
        raise unknown("member", client, {one.client_id for each in online.values() for one in each.connection_set})
    if not stacks:
        raise Fail(f"group {name} has no member online")
    if shell.as_json:
        shell.rows([{"client": member, "stack": text} for member, text in sorted(stacks.items())])
        return
    for member, text in sorted(stacks.items()):
        print_lines(member)
        print_text(f"{text.rstrip() or '(it tells no stack)'}\n")


def _members(online: dict[str, ConsumerConnection]) -> list[dict[str, Any]]:
    rows: dict[str, dict[str, Any]] = {}
    for broker, each in online.items():
        for one in each.connection_set:
            fresh = {"client": one.client_id, "address": one.client_addr, "language": one.language or ""}
            row = rows.setdefault(one.client_id, fresh | {"version": one.version, "brokers": []})
            row["brokers"].append(broker)
    return [rows[client] for client in sorted(rows)]


def _subscriptions(online: dict[str, ConsumerConnection]) -> list[dict[str, Any]]:
    found = {
        (topic, wanted.sub_string, wanted.expression_type)
        for each in online.values()
        for topic, wanted in each.subscription_table.items()
    }
    return [{"topic": topic, "filter": text, "kind": kind} for topic, text, kind in sorted(found, key=str)]


async def _conflicts(shell: Shell, places: Iterable[BrokerPlace], name: str) -> list[str]:
    """Return how members differ in what they subscribe to, and print it for people."""
    found = [
        f"{place.name}: {text}"
        for place in places
        for text in await admin.groups.conflicts(shell.calls, place.address, name)
    ]
    for text in found:
        shell.say(text)
    if found:
        shell.say(f"All members of a group must subscribe alike. More: pyromq doctor --group {shell_word(name)}")
    return found


def _warn_beyond_end(shell: Shell, name: str, queues: list[dict[str, Any]]) -> None:
    """Warn of offsets beyond the end, set by hand: messages that come below them are never given to the group."""
    for row in queues:
        if "isBeyondEnd" in row:
            topic, broker, queue, end = (row[part] for part in ("topic", "broker", "queue", "end"))
            shell.say(
                f"queue {queue} of {topic} on {broker}: "
                f"the committed offset {row['committed']} lies beyond the end, {end}; "
                f"messages below it are not given to {name}. "
                f"Set it: pyromq group reset {name} {topic} -b {shell_word(broker)} --queue {queue} --offset {end}"
            )


_settings_options = together(
    click.argument("name", metavar="GROUP"),
    one_broker,
    one_cluster,
    click.option(
        "--retries",
        type=click.IntRange(min=-1),
        help="Deliveries again before a message is dead, for Java's consumers and orderly ones; consumers of the SDK "
        "that are not orderly have 16 unless they say Retry(times=N) or Retry(of_group=True).",
    ),
    click.option("--orderly/--no-orderly", default=None, help="Whether its messages come in order (gRPC, this SDK)."),
    click.option("--broadcast/--no-broadcast", default=None, help="Whether members may broadcast."),
    click.option("--consume/--no-consume", default=None, help="Whether it may consume at all."),
)


@command("pyromq group create billing", "pyromq group create billing --retries 3 --orderly", of=group)
@_settings_options
@changes
async def create(shell: Shell, name: str, broker: str | None, cluster: str | None, **wanted: Any) -> None:
    """Make a group. Needed only where brokers do not make them by themselves."""
    from ...protocol.bodies.groups import SubscriptionGroupConfig

    if (fault := group_fault(name)) is not None:
        raise click.UsageError(fault)
    places = await shell.masters(broker, cluster)
    for place in places:
        if await admin.groups.config(shell.calls, place.address, name) is not None:
            raise Fail(f"group {name!r} is on {place.name} already. Change it: pyromq group update {name}")
    fresh = SubscriptionGroupConfig(group_name=name)
    await _put(shell, "make", [(place, _changed(fresh, wanted)) for place in places], ask=False)


@command("pyromq group update billing --retries 3", "pyromq group update billing --no-consume --yes", of=group)
@_settings_options
@changes
async def update(shell: Shell, name: str, broker: str | None, cluster: str | None, **wanted: Any) -> None:
    """Change what is told, keep the rest."""
    if all(value is None for value in wanted.values()):
        raise click.UsageError("say what to change: --retries, --orderly, --broadcast or --consume")
    places = await shell.masters_with(name, broker, cluster)
    found = [(place, await admin.groups.config(shell.calls, place.address, name)) for place in places]
    await _put(shell, "change", [(place, _changed(now, wanted)) for place, now in found if now is not None], ask=True)


def _changed(config: SubscriptionGroupConfig, wanted: dict[str, Any]) -> SubscriptionGroupConfig:
    import msgspec

    fields = {
        "retries": "retry_max_times",
        "orderly": "consume_message_orderly",
        "broadcast": "consume_broadcast_enable",
        "consume": "consume_enable",
    }
    new = {field: wanted[name] for name, field in fields.items() if wanted.get(name) is not None}
    return msgspec.structs.replace(config, **new)


async def _put(shell: Shell, verb: str, pairs: list[tuple[BrokerPlace, SubscriptionGroupConfig]], *, ask: bool) -> None:
    name = pairs[0][1].group_name
    check_group(pairs[0][1])
    plan = [{"group": name, "broker": place.name} | admin.definitions.shown_settings(config) for place, config in pairs]
    if ask or shell.is_dry:
        shell.about_to(f"{verb} group {name} on {plural(len(pairs), 'broker')}", plan)
    for place, config in pairs:
        await admin.groups.put(shell.calls, place.address, config)
    shell.rows(plan)
