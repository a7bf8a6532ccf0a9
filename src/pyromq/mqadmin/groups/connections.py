"""Clients of brokers: producers, consumers, and what consumers report of themselves."""

from __future__ import annotations

from pathlib import Path

from ...admin import groups
from ...client.errors import Error
from ...model.codes import ResponseCode
from ...model.foreign_text import visible
from ...protocol.bodies.connections import ConsumerConnection
from ...protocol.headers.clients import GetProducerConnectionList
from ...protocol.requests import RequestCode
from .. import lookup
from ..command import Run, command, failed
from ..files import write_private
from ..options import flag, may, need
from ..printing import Columns, java, version_name
from . import running_info
from .progress import members_of

CLIENT = Columns("{#ClientId:<36} {#ClientAddr:<22} {#Language:<10} {#Version}")
BROKER = may("b", "brokerAddr", "as this broker knows them, host:port")
GROUP = need("g", "consumerGroup", "the group")


async def _members(run: Run, group: str) -> tuple[str, ConsumerConnection]:
    brokers = [("", run["b"])] if "b" in run else await lookup.brokers_of_group(run, group)
    for _, address in brokers:
        found = await members_of(run, group, [address])
        if found is not None:
            return address, found
    raise failed(ResponseCode.CONSUMER_NOT_ONLINE, f"Not found the consumer group connection: {group} is not online")


@command("Members and subscriptions of a consumer group", BROKER, GROUP)
async def consumer_connection(run: Run) -> None:
    _, found = await _members(run, run["g"])
    run.say(CLIENT.head)
    for one in sorted(found.connection_set, key=lambda each: each.client_id):
        run.say(CLIENT.format(one.client_id, one.client_addr, java(one.language), version_name(one.version)))
    run.say()
    run.say("Below is subscription:")
    run.say(f"{'#Topic':<20} #SubExpression")
    for topic, wanted in sorted(found.subscription_table.items()):
        run.say(f"{topic:<20} {wanted.sub_string}")
    run.say()
    run.say(f"ConsumeType: {found.consume_type.value if found.consume_type else 'null'}")
    run.say(f"MessageModel: {found.message_model.value if found.message_model else 'null'}")
    run.say(f"ConsumeFromWhere: {found.consume_from_where.value if found.consume_from_where else 'null'}")


@command(
    "Producers of a group",
    need("g", "producerGroup", "the producer group"),
    need("t", "topic", "a topic that it sends to"),
)
async def producer_connection(run: Run) -> None:
    (_, address), *_ = await lookup.brokers_of(run, run["t"])
    header = GetProducerConnectionList(producer_group=run["g"])
    found = (await run.ask(address, RequestCode.GET_PRODUCER_CONNECTION_LIST, header)).body
    for number, one in enumerate(found.connection_set, 1):
        shown = f"{java(one.language):<8} {version_name(one.version)}"
        run.say(f"{number:04}  {one.client_id:<32} {one.client_addr:<22} {shown}")


@command("All producers of a broker", need("b", "broker", "the broker, host:port"))
async def producer(run: Run) -> None:
    found = (await run.ask(run["b"], RequestCode.GET_ALL_PRODUCER_INFO)).body
    if not found.data:
        run.warn(f"{run['b']} knows no producer")
    for group, members in found.data.items():
        if not members:
            run.say(f"producer group ({group}) instances are empty")
        for one in members:
            run.say(
                f"producer group ({group}) instance : clientId={one.client_id},remoteIP={java(one.remote_ip)}, "
                f"language={java(one.language)}, version={one.version}, lastUpdateTimestamp={one.last_update_timestamp}"
            )


@command(
    "What the members of a group are doing",
    BROKER,
    GROUP,
    may("i", "clientId", "only this member, printed here"),
    flag("s", "jstack", "with the stacks of its threads"),
)
async def consumer_status(run: Run) -> None:
    group = run["g"]
    address, found = await _members(run, group)
    if "i" in run:
        info = await groups.running_info(run.calls, address, group, run["i"], with_stacks="s" in run)
        run.print(running_info.text(info))
        return
    folder = str(run.clock.now_ms())
    infos = {}
    run.say(f"{'#Index':<10} {'#ClientId':<40} {'#Version':<20} #ConsumerRunningInfoFile")
    for one in sorted(found.connection_set, key=lambda each: each.client_id):
        try:
            info = await groups.running_info(run.calls, address, group, one.client_id, with_stacks="s" in run)
        except Error as fault:
            run.warn(str(fault))
            continue
        infos[one.client_id] = info
        path = write_private(Path(), (folder,), one.client_id, visible(running_info.text(info)).encode())
        run.say(f"{len(infos):<10} {one.client_id:<40} {version_name(one.version):<20} {path}")
    if infos:
        run.print(running_info.verdict(infos, run.clock.now_ms()))
