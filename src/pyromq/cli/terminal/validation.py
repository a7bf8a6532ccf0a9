"""What brokers would refuse, checked before a plan is shown: a dry run says yes only to what the run can do.

Called by commands that change something, before `Shell.about_to`; so the run fails before its first change, too. The
rules are the broker's own functions, which Apache's brokers share; what only ours refuses is asked of ours alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ... import admin
from ...client.errors import Refused
from ...errors import ConfigError, Malformed, RequestRefused
from ...model.names import is_system_group, topic_fault
from .exits import REFUSED
from .printing import print_lines
from .shell import Shell
from .tree import Fail

if TYPE_CHECKING:
    from ...admin.cluster import BrokerPlace
    from ...protocol.bodies.groups import SubscriptionGroupConfig
    from ...protocol.bodies.topics import TopicConfig


async def check_own_topic(shell: Shell, name: str, places: Iterable[BrokerPlace]) -> None:
    """Fail for a topic of the system's own where a broker lets nobody change those."""
    from ...admin.changes.topic_changes import GUARD, is_servers_own

    for place in places:
        if await is_servers_own(shell.calls, place, name):
            raise Fail(f"topic {name} is {place.name}'s own and stays as it is ({GUARD})", REFUSED)


async def check_topic(
    shell: Shell, pairs: Iterable[tuple[BrokerPlace, TopicConfig]], attributes: str | None, *, is_new: bool
) -> None:
    """Fail if a broker would refuse one of these topics as they shall be, with these changes of attributes."""
    from ...broker.admin.view import MOST_QUEUES
    from ...broker.metadata.attributes import MESSAGE_TYPE, TOPIC_ATTRIBUTES, alter, parse_changes

    for place, config in pairs:
        await check_own_topic(shell, config.topic_name, [place])
        if max(config.read_queue_nums, config.write_queue_nums) > MOST_QUEUES:
            raise Fail(f"topic {config.topic_name}: a broker has at most {MOST_QUEUES} queues of a topic", REFUSED)
        try:
            changes = parse_changes(attributes)
            alter(TOPIC_ATTRIBUTES, None if is_new else config.attributes, changes)
        except RequestRefused as fault:
            raise Fail(f"topic {config.topic_name}: {fault}", REFUSED) from None
        if changes.get(f"+{MESSAGE_TYPE}") == "MIXED":
            found = await admin.settings.of_broker(shell.calls, place.address)
            if found.get("enableMixedMessageType") != "true":
                raise Fail(f"{place.name} takes no type MIXED: set enableMixedMessageType=true there", REFUSED)


def check_own_group(name: str) -> None:
    """Fail for a group of the system's own: brokers and tools work by it."""
    if is_system_group(name):
        raise Fail(f"group {name} is the system's own and stays as it is", REFUSED)


def check_group(config: SubscriptionGroupConfig, attributes: Mapping[str, str] | None = None) -> None:
    """Fail if a broker would refuse the group as it shall be, with these changes of attributes (`+key`, `-key`), or it
    is the system's own."""
    from ...broker.admin.view import MOST_QUEUES
    from ...broker.metadata.attributes import GROUP_ATTRIBUTES, alter
    from ...protocol.bodies.body import decode_body, encode_body

    check_own_group(config.group_name)
    try:
        decode_body(type(config), encode_body(config))  # numbers that do not fit are found by whoever reads them
        alter(GROUP_ATTRIBUTES, config.attributes, attributes or {})
    except (Malformed, RequestRefused) as fault:
        raise Fail(f"group {config.group_name}: {fault}", REFUSED) from None
    if config.retry_max_times < -1 or not 0 <= config.retry_queue_nums <= MOST_QUEUES:
        raise Fail(
            f"group {config.group_name}: retries are -1 or more (not {config.retry_max_times}), and "
            f"retryQueues from 0 to {MOST_QUEUES} (not {config.retry_queue_nums})",
            REFUSED,
        )


async def check_setting(shell: Shell, place: BrokerPlace, key: str, value: str) -> str:
    """Return the value as the broker will show it. Fail if it would refuse it; Apache's says that only when it is set,
    and a dry run says so."""
    from ...broker.config import BrokerConfig
    from ...broker.java_keys import BROKER_KEYS
    from ...config import NotLive, properties, render_all, with_changes

    try:
        await admin.cluster.inspect(shell.calls, place.address)
    except Refused:
        if shell.is_dry:
            print_lines(f"pyromq: {place.name} is Apache's: whether it takes this is seen when it is set", err=True)
        return value
    try:
        changed, _ = with_changes(BrokerConfig(), properties.render({key: value}), "--", BROKER_KEYS)
    except NotLive as fault:
        if key in BROKER_KEYS:
            raise Fail(str(fault), REFUSED) from None
        cure = "set it in the broker's file and start it again. Which can: pyromq config list"
        raise Fail(f"{key} of {place.name} cannot be changed while running: {cure}", REFUSED) from None
    except ConfigError as fault:
        raise Fail(str(fault).removeprefix("-- line 1: "), REFUSED) from None
    return render_all(changed)[key]


def is_broker_key(key: str) -> bool:
    """Return whether our broker knows the key, be it that it shows no value of it."""
    from ...broker.config import BrokerConfig
    from ...broker.java_keys import BROKER_KEYS
    from ...config import settings_of

    return key in BROKER_KEYS or any(one.java == key for one in settings_of(BrokerConfig).values())


async def check_sendable(shell: Shell, topics: Iterable[str]) -> None:
    """Fail if a message cannot be sent to one of the topics, as the send would: nobody makes it, no queue to write."""
    for topic in topics:
        if (fault := topic_fault(topic)) is not None:
            raise Fail(fault, REFUSED)
        await shell.session.route_to_write(topic)


async def check_name_servers(shell: Shell) -> None:
    """Fail unless every name server answers: each of them is to be changed."""
    await admin.cluster.check_name_servers(shell.calls)
