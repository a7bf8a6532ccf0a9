"""How far each group has consumed each queue: `config/consumerOffset.json`, as Java keeps it.

Pull, offset requests and administration ask and tell it. Changes are in memory at once; `store_changed` hands them to
the table, and the broker's loop does so every few seconds and at stop. Offsets are never refused for being smaller.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from typing import Any, NamedTuple

import msgspec

from ...kernel import state
from ...kernel.state import PulledOffset
from ...model import names
from ...store.tables.json_tables import JsonTable
from .config_table import Watched
from .table_content import entry, next_version, read_version, section

OFFSETS = "offsetTable"
PULL_OFFSETS = "pullOffsetTable"
GROUP_TOPICS = "groupTopicMap"
FORMER_GROUPS = "pyromqFormerGroups"  # ours: Java ignores it, and leaves it out when it writes the file
WRITER = "pyromqWriter"  # likewise: a table without it was written last by a Java broker
SEPARATOR = "@"
MANY_PAIRS = 200_000
MOST_FORMER = 10_000  # pairs of a deleted topic and a group that are remembered
_BY_QUEUE = dict[str, dict[int, int]]


class ChangedOffsets(NamedTuple):
    """Entries of the table's sections as they were at one moment; None: it is gone."""

    offsets: Mapping[str, dict[int, int] | None]
    pulled: Mapping[str, dict[int, int] | None]
    former: Mapping[str, list[str] | None]


class Offsets(Watched):
    """Event loop only. Keys are `topic@group`, on disk too; topics and groups cannot hold an @. New pairs are taken
    while there are fewer than `most_pairs` says; those that are known always are. Watchers are called with each key
    whose offsets are reset or dropped."""

    def __init__(
        self,
        table: JsonTable,
        now_ms: Callable[[], int],
        version_step: int = 500,
        most_pairs: Callable[[], int] = lambda: MANY_PAIRS,
    ) -> None:
        super().__init__()
        self._table = table
        self._now_ms = now_ms
        self._version_step = version_step
        self._most_pairs = most_pairs
        content = table.load()
        self._is_marked = WRITER in content
        self.left_by_java = bool(content) and not self._is_marked  # what we knew of its offsets may be outdated
        self.version = read_version(content, table.name)
        self._offsets = entry(_BY_QUEUE, section(content, OFFSETS), f"{OFFSETS} in {table.name}")
        pulled = entry(_BY_QUEUE, section(content, PULL_OFFSETS), f"{PULL_OFFSETS} in {table.name}")
        self._pulled_changed: set[str] = set()
        self._pulled = {
            key: {queue_id: self._pulled_offset(offset, key) for queue_id, offset in queues.items()}
            for key, queues in pulled.items()
        }
        self._topics_of: dict[str, dict[str, None]] = {}  # by group; both mirror the keys of `_offsets`, in their order
        self._groups_of: dict[str, dict[str, None]] = {}  # by topic
        # Groups with other topics than in the table; None: all, the file is from others.
        self._groups_changed: set[str] | None = None
        for key in self._offsets:
            self._note(key)
        former = section(content, FORMER_GROUPS)
        self._former = entry(dict[str, list[str]], former, f"{FORMER_GROUPS} in {table.name}")  # by deleted topic
        self._former_changed: set[str] = set()
        self._resets: dict[str, dict[int, int | None]] = {}  # None: a member was sent there, and has not pulled since
        self._changed: set[str] = set()
        self._commits = 0
        self.changes = 0  # another number after each change
        self.note_commit: Callable[[str, int, int], None] | None = None  # of a slave: key, queue and offset of commits

    # --- consumed ------------------------------------------------------------------------------------------------

    def find(self, topic: str, group: str, queue_id: int) -> int | None:
        """Return where the group goes on, None if it never committed. A pending reset counts."""
        key = _key(topic, group)
        reset = self._resets.get(key, {}).get(queue_id)
        return reset if reset is not None else self._offsets.get(key, {}).get(queue_id)

    def commit(self, topic: str, group: str, queue_id: int, offset: int) -> bool:
        """Commit an offset. False: there is no room for another pair of topic and group, nothing was noted."""
        key = _key(topic, group)
        queues = self._offsets.get(key)
        if queues is None:
            if len(self._offsets) >= self._most_pairs():
                return False
            queues = self._new(key)
        elif queues.get(queue_id) == offset:
            return True
        queues[queue_id] = offset
        self._changed.add(key)
        self.changes += 1
        self._commits += 1
        if self.note_commit is not None:
            self.note_commit(key, queue_id, offset)
        if self._commits % self._version_step == 0:
            self._new_version()
        return True

    def commit_missing(self, topic: str, group: str, offsets: Mapping[int, int], *, send: bool = False) -> bool:
        """Commit these offsets of queues where the group has none. False: there are none, or no room for them.

        `send`: members that pull from elsewhere are sent there, as by a reset.
        """
        key = _key(topic, group)
        queues = self._offsets.get(key)
        if queues is None and len(self._offsets) >= self._most_pairs():
            return False
        missing = offsets.keys() - (queues or {}).keys()
        if not missing:
            return False
        new = {queue_id: offsets[queue_id] for queue_id in missing}
        (self._new(key) if queues is None else queues).update(new)
        if send:
            self._resets.setdefault(key, {}).update(new)
            self._notify(key)
        self._changed.add(key)
        self._new_version()
        return True

    def queues(self, topic: str, group: str) -> Mapping[int, int]:
        return self._offsets.get(_key(topic, group), {})

    def all(self) -> Mapping[str, Mapping[int, int]]:
        """Return the offsets by `topic@group`: what request 43 answers."""
        return self._offsets

    def topics_of(self, group: str) -> list[str]:
        return sorted(self._topics_of.get(group, ()))

    def groups(self) -> list[str]:
        """Return every group that has offsets."""
        return list(self._topics_of)

    def groups_of(self, topic: str) -> list[str]:
        return sorted(self._groups_of.get(topic, ()))

    # --- pulled: how far messages were handed out, for statistics -------------------------------------------------

    def note_pulled(self, topic: str, group: str, queue_id: int, offset: int) -> PulledOffset | None:
        """Note a pulled offset. Return where further ones may be noted; None: no room for another pair."""
        key = _key(topic, group)
        queues = self._pulled.get(key)
        if queues is None:
            if len(self._pulled) >= self._most_pairs():
                return None
            queues = self._pulled[key] = {}
        known = queues.get(queue_id)
        if known is None:
            known = queues[queue_id] = self._pulled_offset(offset, key)
            self._pulled_changed.add(key)
        else:
            known.note(offset)
        return known

    def pulled(self, topic: str, group: str, queue_id: int) -> int | None:
        known = self._pulled.get(_key(topic, group), {}).get(queue_id)
        return None if known is None else known.value

    def all_pulled(self) -> Mapping[str, Mapping[int, PulledOffset]]:
        """Return the pulled offsets by `topic@group`: part of the answer to request 43."""
        return self._pulled

    def _pulled_offset(self, offset: int, key: str) -> PulledOffset:
        return state.PulledOffset(offset, key, self._pulled_changed)

    # --- reset by an administrator --------------------------------------------------------------------------------

    def reset(self, topic: str, group: str, queue_id: int, offset: int) -> None:
        """Reset a group: the next pull of the queue is sent there. Until the one after that, commits are ignored.

        A member that was sent there commits its old offset for some seconds more, as Java's do until they begin anew.
        """
        self._resets.setdefault(_key(topic, group), {})[queue_id] = offset
        self._notify(_key(topic, group))
        self.commit(topic, group, queue_id, offset)

    def has_reset(self, topic: str, group: str, queue_id: int) -> bool:
        return bool(self._resets) and queue_id in self._resets.get(_key(topic, group), {})

    def take_reset(self, topic: str, group: str, queue_id: int, at: int) -> int | None:
        """Return the pending reset for the member that pulls; None: there is none, and commits count again.

        A member that pulls from 0 on and is to be sent there is there already: it has nothing from before the reset.
        """
        key = _key(topic, group)
        queues = self._resets.get(key)
        if queues is None or queue_id not in queues:
            return None
        offset = queues.pop(queue_id)
        if offset is not None and (offset, at) != (0, 0):
            queues[queue_id] = None
            return offset
        if not queues:
            del self._resets[key]
        return None

    # --- whole pairs ----------------------------------------------------------------------------------------------

    def clone(self, source: str, target: str, topic: str) -> bool:
        queues = self._offsets.get(_key(topic, source))
        if not queues:
            return False
        key = _key(topic, target)
        if key not in self._offsets and len(self._offsets) >= self._most_pairs():
            return False
        self._new(key).update(queues)
        self._changed.add(key)
        self._new_version()
        return True

    def drop_group(self, group: str) -> None:
        for topic in [topic for topic, groups in self._former.items() if group in groups]:
            self._set_former(topic, [each for each in self._former[topic] if each != group])
        pulled = [key for key in self._pulled if key.endswith(SEPARATOR + group)]
        self._drop([*(_key(topic, group) for topic in self.topics_of(group)), *pulled])

    def drop_topic(self, topic: str) -> None:
        """Forget the offsets of a topic that is deleted. Which groups had some is remembered, for one made again."""
        groups = self.groups_of(topic)
        if not names.is_retry(topic):  # clients read those from the first message anyway
            self._set_former(topic, sorted({*groups, *self._former.get(topic, ())}))
        pulled = [key for key in self._pulled if key.startswith(topic + SEPARATOR)]
        self._drop([*(_key(topic, group) for group in groups), *pulled])

    def take_former_groups(self, topic: str) -> list[str]:
        """Return, once, the groups that had consumed a topic of this name when it was deleted."""
        groups = self._former.get(topic, [])
        self._set_former(topic, [])
        return groups

    def former(self) -> Mapping[str, list[str]]:
        """Return, by deleted topic, the groups that had consumed it."""
        return self._former

    def adopt_former(self, topic: str, groups: list[str]) -> None:
        """Make the groups that had consumed a deleted topic what they are at the master."""
        self._set_former(topic, groups)

    def _set_former(self, topic: str, groups: list[str]) -> None:
        if self._former.pop(topic, None) is None and not groups:
            return
        self._former_changed.add(topic)
        if groups:
            self._former[topic] = groups
            self._limit_former()

    def _limit_former(self) -> None:
        """Forget those that were deleted first: anybody may make topics and groups, and delete them."""
        beyond = sum(map(len, self._former.values())) - MOST_FORMER
        for topic in [*self._former]:
            if beyond <= 0:
                return
            beyond -= len(self._former[topic])
            self._set_former(topic, [])

    def _drop(self, keys: list[str]) -> None:
        for key in keys:
            if self._offsets.pop(key, None) is not None:
                self._note(key, present=False)
            self._pulled.pop(key, None)
            self._resets.pop(key, None)
            self._changed.add(key)
            self._pulled_changed.add(key)
            self._notify(key)
        if keys:
            self._new_version()

    # --- to disk --------------------------------------------------------------------------------------------------

    def store_changed(self) -> bool:
        """Hand what changed to the table. False: nothing did."""
        changed = self.take_changed()
        if changed is not None:
            self.store(changed)
        return changed is not None

    def take_changed(self) -> ChangedOffsets | None:
        """Return what has changed as it is now, for `store` or `give_back`; None: nothing did."""
        if not self._changed and not self._pulled_changed and not self._former_changed:
            return None
        taken = ChangedOffsets(
            {key: copy(self._offsets.get(key)) for key in self._changed},
            {key: self._pulled_values(key) for key in self._pulled_changed},
            {topic: copy(self._former.get(topic)) for topic in self._former_changed},
        )
        self._changed.clear()
        self._pulled_changed.clear()
        self._former_changed.clear()
        return taken

    def _pulled_values(self, key: str) -> dict[int, int] | None:
        pulled = self._pulled.get(key)
        return None if pulled is None else {number: one.value for number, one in pulled.items()}

    def give_back(self, changed: ChangedOffsets) -> None:
        """Take back what could not be stored: it is taken again with the next changes."""
        self._changed.update(changed.offsets)
        self._pulled_changed.update(changed.pulled)
        self._former_changed.update(changed.former)

    def store(self, changed: ChangedOffsets) -> None:
        """Hand to the table what was taken."""
        for name, values in zip((OFFSETS, PULL_OFFSETS, FORMER_GROUPS), changed, strict=True):
            for key, value in values.items():
                self._store(name, key, value)
        self._table.replace("dataVersion", msgspec.to_builtins(self.version))
        self._store_group_topics()
        self.mark_ours()

    def mark_ours(self) -> None:
        """Say in the table that we wrote it: Java's broker leaves this out when it writes the table."""
        if not self._is_marked:
            self._is_marked = True
            self._table.replace(WRITER, "pyromq")

    def _store(self, section: str, key: str, value: dict[Any, Any] | list[str] | None) -> None:
        if value is None:
            self._table.drop(section, key)
        else:
            self._table.put(section, key, value)

    def _store_group_topics(self) -> None:
        if self._groups_changed is None:
            self._table.replace(GROUP_TOPICS, self.group_topics())
        else:
            for group in self._groups_changed:
                topics = self._topics_of.get(group)
                self._store(GROUP_TOPICS, group, None if topics is None else list(topics))
        self._groups_changed = set()

    def group_topics(self) -> dict[str, list[str]]:
        return {group: list(topics) for group, topics in self._topics_of.items()}

    # --- which pairs there are ------------------------------------------------------------------------------------

    def _new(self, key: str) -> dict[int, int]:
        queues: dict[int, int] = {}
        self._offsets[key] = queues
        self._note(key)
        return queues

    def _note(self, key: str, *, present: bool = True) -> None:
        """Note in both indexes that there are offsets of a pair, or no longer are."""
        parts = key.split(SEPARATOR)
        if len(parts) != 2:
            return  # what has a third part (`topic@group@broadcast`) is no group's own
        topic, group = parts
        for index, name, other in ((self._topics_of, group, topic), (self._groups_of, topic, group)):
            if present:
                index.setdefault(name, {})[other] = None
            else:
                index[name].pop(other, None)
                if not index[name]:
                    del index[name]
        if self._groups_changed is not None:
            self._groups_changed.add(group)

    # --- taken over from a master ---------------------------------------------------------------------------------

    def adopt(self, key: str, queues: Mapping[int, int] | None) -> bool:
        """Make the offsets of a pair what they are to be on a slave; None: it has none. False: it was so already."""
        before = self._offsets.get(key)
        if before == queues:
            return False
        if queues is None:
            del self._offsets[key]
            self._note(key, present=False)
        else:
            if before is None:
                self._note(key)
            self._offsets[key] = dict(queues)
        self._changed.add(key)
        self.changes += 1
        if before is not None and (queues is None or _is_back(before, queues)):
            self._notify(key)
        return True

    def _new_version(self) -> None:
        self.changes += 1
        self.version = next_version(self.version, self._now_ms())


def _is_back(before: Mapping[int, int], now: Mapping[int, int]) -> bool:
    return any(now.get(queue_id, -1) < offset for queue_id, offset in before.items())


def _key(topic: str, group: str) -> str:
    return f"{topic}{SEPARATOR}{group}"
