"""What verdicts on pulls depend on, as flags: settings, topics, groups with their subscriptions and resets of offsets.

The tables of these are watched, and the flag of what has changed is set. Shared by all listeners. Event loop only.
"""

from __future__ import annotations

from ...config import Live
from ...kernel import pull_state
from ...kernel.pull_state import ChangeFlag
from ...kernel.pulls import Changes
from ..clients.consumers import Consumers
from ..config import BrokerConfig
from ..metadata.groups import Groups
from ..metadata.offsets import SEPARATOR, Offsets
from ..metadata.topics import Topics


class PullChanges:
    """A flag is shared by all verdicts on a topic or group, and a new one made for those after its change."""

    def __init__(
        self, live: Live[BrokerConfig], topics: Topics, groups: Groups, consumers: Consumers, offsets: Offsets
    ) -> None:
        self._settings = pull_state.ChangeFlag()
        self._topics: dict[str, ChangeFlag] = {}
        self._groups: dict[str, ChangeFlag] = {}
        live.watch(lambda _: self._settings_changed())
        topics.watch(lambda topic, _: _set(self._topics, topic))
        groups.watch(self._group_changed)
        consumers.watch(self._group_changed)
        offsets.watch(lambda pair: self._group_changed(pair.partition(SEPARATOR)[2].partition(SEPARATOR)[0]))

    def of(self, topic: str, group: str) -> Changes:
        """Return what a verdict that is given now depends on."""
        return Changes(self._settings, _flag(self._topics, topic), _flag(self._groups, group))

    def _settings_changed(self) -> None:
        self._settings.is_set = True
        self._settings = pull_state.ChangeFlag()

    def _group_changed(self, group: str) -> None:
        _set(self._groups, group)


def _flag(flags: dict[str, ChangeFlag], name: str) -> ChangeFlag:
    found = flags.get(name)
    if found is None:
        found = flags[name] = pull_state.ChangeFlag()
    return found


def _set(flags: dict[str, ChangeFlag], name: str) -> None:
    flag = flags.pop(name, None)
    if flag is not None:
        flag.is_set = True
