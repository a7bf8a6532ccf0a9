"""`pyromq export` and `apply`: the topics and groups of a cluster as a file, and a cluster made like it.

What a file means is in admin/definitions.py; here it is read, written and shown. TOML is for people, JSON for programs.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ... import admin
from ...text.values import plural
from ..terminal.exits import REFUSED
from ..terminal.interrupts import interruptible
from ..terminal.options import one_cluster
from ..terminal.output_file import whole_file
from ..terminal.printing import print_text, to_json
from ..terminal.shell import Shell, changes, talks
from ..terminal.tree import Fail, command
from ..terminal.validation import check_group, check_topic
from ..topic.queue_changes import check_queues

if TYPE_CHECKING:
    from ...admin.cluster import BrokerPlace
    from ...admin.definitions import DefinitionChange, Document
    from ...protocol.bodies.topics import TopicConfig


@command("pyromq export cluster.toml", "pyromq export --json > cluster.json")
@click.argument("file", default="-")
@one_cluster
@talks
async def export(shell: Shell, file: str, cluster: str | None) -> None:
    """Write topics and groups to FILE, .toml or .json; without one to standard output, as TOML or with --json.

    Every setting that brokers keep of them is written. The system's own are left out, and so are retry and dead-letter
    topics. Not in the file: offsets, queue mappings of static topics, topics that a group is forbidden to read.

    Exit code 1 if a broker does not answer: then its topics and groups are missing.
    """
    is_json = shell.as_json if file == "-" else _is_json(file)
    definitions: dict[BrokerPlace, admin.definitions.Definitions] = {}

    async def fetch(place: BrokerPlace) -> None:
        definitions[place] = await admin.definitions.of_broker(shell.calls, place)

    away = await shell.each(await shell.masters(cluster=cluster), fetch)
    found = admin.definitions.document(definitions)
    text = (to_json(found, indent=2) if is_json else "\n".join(_toml(found))) + "\n"
    if file == "-":
        print_text(text, nl=False)
    else:
        _write(file, text)
        shell.rows([{"file": file, "topics": len(found["topics"]), "groups": len(found["groups"])}])
    shell.end(away)


@command("pyromq apply cluster.toml --dry-run", "pyromq apply cluster.json -c DefaultCluster --yes", name="apply")
@click.argument("file")
@one_cluster
@click.option("--move-keys", is_flag=True, help="Change queues of order topics though keys move by it.")
@changes
async def apply_file(shell: Shell, file: str, cluster: str | None, move_keys: bool) -> None:
    """Make and change topics and groups until they are as FILE says (.toml or .json, - is standard input).

    Shows each setting that becomes another, and asks. What FILE does not name is left alone; nothing is deleted.
    """
    document = _read(file)
    places = await shell.masters(cluster=cluster)
    of_topics, of_groups = await admin.definitions.changes(shell.calls, places, document)
    changed: list[DefinitionChange[Any]] = [*of_topics, *of_groups]
    rows = [
        {"what": one.kind, "name": one.name} | {key: value for key, value in row.items() if key != one.kind}
        for one in changed
        for row in one.rows()
    ]
    if not rows:
        shell.rows([], f"nothing to change: all is as {file} says")
        return
    for one in of_topics:
        await check_topic(shell, [(one.place, one.config)], one.attributes, is_new=one.now is None)
    for group in of_groups:
        check_group(group.config, group.changed_attributes)
    lost = [await _check_queues(shell, of_topics, name, move_keys) for name in sorted({one.name for one in of_topics})]
    shell.about_to(f"make {plural(len(rows), 'change')}{''.join(lost)}", rows)
    for topic in of_topics:
        await admin.topics.put(shell.calls, topic.place.address, topic.config, topic.attributes, force=move_keys)
        if topic.then["order"] or (topic.now or topic.then)["order"]:
            queues = topic.config.write_queue_nums * topic.config.order
            await admin.topics.put_order(shell.calls, topic.name, {topic.place.name: queues})
    for group in of_groups:
        await admin.groups.put(shell.calls, group.place.address, group.config, group.changed_attributes)
    shell.rows(rows)


async def _check_queues(shell: Shell, of_topics: list[DefinitionChange[TopicConfig]], name: str, move: bool) -> str:
    """Return what messages of a topic are lost by the changes, in words. Fail where `topic update` would."""
    own = [one for one in of_topics if one.name == name]
    now = [(one.place, one.before) for one in own if one.before is not None]
    losses = await check_queues(shell, now, [(one.place, one.config) for one in own], move_keys=move)
    return f"{losses.in_words()} in {name}" if losses else ""


def _is_json(file: str) -> bool:
    if not file.endswith((".toml", ".json")):
        raise click.UsageError(f"{file}: a name that ends in .toml or .json is needed")
    return file.endswith(".json")


def _read(file: str) -> Any:
    import tomllib

    with interruptible():
        text = sys.stdin.read() if file == "-" else Path(file).read_text("utf-8")
    is_json = text.lstrip().startswith("{") if file == "-" else _is_json(file)
    try:
        return json.loads(text) if is_json else tomllib.loads(text)
    except ValueError as fault:
        raise Fail(f"{file}: {fault}", REFUSED) from None


def _write(file: str, text: str) -> None:
    with whole_file(file) as write:
        write(text)


def _toml(found: Document) -> Iterator[str]:
    yield "# Topics and groups, as `pyromq export` found them. `pyromq apply FILE --dry-run` shows what would change."
    for kind, entries in found.items():
        for name, entry in entries.items():
            yield ""
            yield f"[{kind}.{to_json(name)}]"
            yield from (f"{key} = {_value(value)}" for key, value in entry.items() if key != "on")
            for broker, settings in entry.get("on", {}).items():
                yield f"[{kind}.{to_json(name)}.on.{to_json(broker)}]"
                yield from (f"{key} = {_value(value)}" for key, value in settings.items())


def _value(value: Any) -> str:
    """Return the value in TOML: JSON's spelling, except of tables."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{to_json(key)} = {_value(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    return to_json(value)
