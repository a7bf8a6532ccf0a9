"""Whether the consumers of a group pull or pop a topic: `config/messageRequestMode.json`, as Java keeps it (401, 402).

Administrators set it; `assignment.py` asks, for clients that leave the assignment of queues to the broker. Pairs that
nobody has set follow `defaultMessageRequestMode`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from ....config import Live
from ....errors import RequestRefused
from ....model import names
from ....model.codes import ResponseCode
from ....model.group import MessageRequestMode
from ....protocol.bodies.heartbeat import MessageRequestModeSerializeWrapper, SetMessageRequestModeRequestBody
from ....store.tables.json_tables import JsonTable
from ....transport.dispatch import Reply, RequestOf
from ...config import BrokerConfig
from ...metadata.config_table import Watched
from ...metadata.groups import Groups
from ...metadata.offsets import SEPARATOR
from ...metadata.table_content import entry, section
from ...metadata.topics import Topics

SECTION = "messageRequestModeMap"
Mode = SetMessageRequestModeRequestBody


class RequestModes(Watched):
    """The table, by topic and group. Event loop only. `changed` is called whenever there is something to write, and
    watchers with `topic@group`."""

    def __init__(self, table: JsonTable, changed: Callable[[], None] = lambda: None) -> None:
        super().__init__()
        self._table = table
        self._changed = changed
        self._modes: dict[str, dict[str, Mode]] = {}
        for topic, groups in section(table.load(), SECTION).items():
            what = f"modes of {topic} in {table.name}"
            named = {group: _named(value, topic, group) for group, value in entry(dict[str, Any], groups, what).items()}
            self._modes[topic] = entry(dict[str, Mode], named, what)
        self._count = sum(map(len, self._modes.values()))

    def __len__(self) -> int:
        return self._count

    def find(self, topic: str, group: str) -> Mode | None:
        return self._modes.get(topic, {}).get(group)

    def effective(self, topic: str, group: str, config: BrokerConfig) -> Mode:
        """Return what was set, else the default. Retry topics are pulled unless somebody has set them otherwise."""
        found = self.find(topic, group)
        if found is not None:
            return found
        mode = MessageRequestMode.PULL if names.is_retry(topic) else config.default_message_request_mode
        share = config.default_pop_share_queue_num if mode is MessageRequestMode.POP else 0
        return Mode(consumer_group=group, mode=mode, pop_share_queue_num=share, topic=topic)

    def all(self) -> dict[str, dict[str, Mode]]:
        return self._modes

    def put(self, mode: Mode) -> None:
        groups = self._modes.setdefault(mode.topic, {})
        if groups.get(mode.consumer_group) == mode:
            return
        self._count += mode.consumer_group not in groups
        groups[mode.consumer_group] = mode
        self._table.put(SECTION, mode.topic, {group: msgspec.to_builtins(one) for group, one in groups.items()})
        self._changed()
        self._notify(f"{mode.topic}{SEPARATOR}{mode.consumer_group}")

    @property
    def changes(self) -> int:
        """Return a number that is another one after each change."""
        return self._table.changes

    def adopt(self, modes: Mapping[str, Mapping[str, Mode]]) -> None:
        """Make the table what it is at the master."""
        before = {(topic, group): one for topic, groups in self._modes.items() for group, one in groups.items()}
        after = {(topic, group): one for topic, groups in modes.items() for group, one in groups.items()}
        if before == after:
            return
        self._modes = {topic: dict(groups) for topic, groups in modes.items()}
        self._count = len(after)
        self._table.replace(SECTION, msgspec.to_builtins(self._modes))
        self._changed()
        for topic, group in before.keys() | after.keys():
            if before.get((topic, group)) != after.get((topic, group)):
                self._notify(f"{topic}{SEPARATOR}{group}")


def _named(value: object, topic: str, group: str) -> object:
    """Return an entry that leaves its names to the keys that it stands under."""
    return {"topic": topic, "consumerGroup": group} | value if isinstance(value, dict) else value


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RequestModeHandlers:
    """Requests 401 and 402. Event loop only. `saved` returns once a change is on disk."""

    live: Live[BrokerConfig]
    topics: Topics
    groups: Groups
    modes: RequestModes
    saved: Callable[[], Awaitable[None]]

    async def set_mode(self, request: RequestOf[None, Mode]) -> Reply:
        mode, config = request.body, self.live.config
        if names.is_retry(mode.topic):
            raise RequestRefused("retry topic is not allowed to set mode", ResponseCode.NO_PERMISSION)
        if mode.topic not in self.topics:
            raise RequestRefused(f"topic[{mode.topic}] not exist", ResponseCode.TOPIC_NOT_EXIST)
        if self.groups.ensure(mode.consumer_group, config) is None:
            raise RequestRefused("subscription group does not exist", ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST)
        is_new = self.modes.find(mode.topic, mode.consumer_group) is None
        if is_new and len(self.modes) >= config.max_consumer_offsets:
            raise RequestRefused(
                f"modes of {len(self.modes)} pairs of topic and group are kept already; the limit "
                f"(maxConsumerOffsets) is {config.max_consumer_offsets}"
            )
        self.modes.put(mode)
        await self.saved()
        return Reply()

    def show_all(self, _: RequestOf[None, None]) -> Reply:
        return Reply(body=MessageRequestModeSerializeWrapper(message_request_mode_map=self.modes.all()))
