"""The check of `pyromq doctor` on groups that are set to pop: who goes on pulling gets what others pop."""

from __future__ import annotations

from collections.abc import AsyncIterator

from ...client.errors import Error, Refused
from ...errors import CallFailed
from ...model.foreign_text import shell_word
from ...model.group import MessageRequestMode
from ...protocol.requests import RequestCode
from ...text.values import plural
from .. import groups
from .checked import GOOD, WARNING, CheckedCluster, CheckResult

_CURE = (
    "They share out the queues among themselves and do not ask the broker: in Java call "
    "consumer.setClientRebalance(false) (clients from 4.9 on); else let the group pull again:"
)


async def request_modes(checked: CheckedCluster) -> AsyncIterator[CheckResult]:
    """Find members that pull a topic although their group is set to pop it."""
    count = 0
    bad: dict[tuple[str, str], set[str]] = {}
    for place in checked.masters:
        try:
            answer = await checked.calls.ask(place.address, RequestCode.GET_ALL_MESSAGE_REQUEST_MODE)
        except Refused:  # a broker before 4.9.4 knows no modes
            continue
        for topic, modes in answer.body.message_request_mode_map.items():
            for name, one in modes.items():
                if one.mode is MessageRequestMode.POP and _is_wanted(checked, topic, name):
                    count += 1
                    bad.setdefault((topic, name), set()).update(await _pullers(checked, place.address, topic, name))
    for (topic, name), clients in sorted(bad.items()):
        if clients:
            who = f"{plural(len(clients), 'member')} of it {'pulls' if len(clients) == 1 else 'pull'}"
            text = f"{name} is set to pop {topic}, and {who}: others pop the same ({', '.join(sorted(clients))})"
            command = f"pyromq group mode {shell_word(name)} {shell_word(topic)} pull"
            yield CheckResult("modes", WARNING, text, _CURE, command)
    if count and not any(bad.values()):
        yield CheckResult("modes", GOOD, f"{plural(count, 'group')} set to pop: no member pulls")


def _is_wanted(checked: CheckedCluster, topic: str, name: str) -> bool:
    return checked.topic in (None, topic) and checked.group in (None, name)


async def _pullers(checked: CheckedCluster, address: str, topic: str, name: str) -> set[str]:
    """Return the members that have queues of the topic to pull, by their own account."""
    online = await groups.connections(checked.calls, address, name)
    found = set()
    for one in [] if online is None else online.connection_set:
        try:
            info = await groups.running_info(checked.calls, address, name, one.client_id)
        except (Error, CallFailed):  # it is gone, or tells nothing of itself
            continue
        if any(queue.topic == topic for queue in info.mq_table):
            found.add(one.client_id)
    return found
