"""How a capture begins: behind what brokers have of its source, or not at all.

Sinks drop what is numbered no higher than what they have, and brokers refuse whoever is older than the last one. So a
capture whose stateDir was lost must not begin at 0 again: the ends of the queues tell where it was. And one whose
stateDir is older than they are, out of a backup say, would send other changes under names that were used since.
"""

from __future__ import annotations

from fnmatch import fnmatchcase

from .. import logs
from ..client.errors import Error
from ..model.codes import ResponseCode
from .changes import CaptureError
from .outgoing.queue_ends import Furthest
from .outgoing.target import Target
from .rules import Rules
from .state import CaptureState

log = logs.get("pyromq.cdc")


async def begin_behind(target: Target, state: CaptureState, rules: Rules) -> None:
    """Have a state that is new go on behind what topics have of this source. CaptureError if it is older than that."""
    try:
        found = await target.furthest(lambda topic: may_be_ours(topic, rules))
    except CaptureError as fault:
        if not isinstance(fault.__cause__, Error) or fault.__cause__.code != ResponseCode.NO_PERMISSION:
            raise
        log.warning(
            "brokers do not show whether this source was captured before. If it was, and not with this stateDir, sinks "
            "drop events with numbers that they have had: let the user list and read its topics",
            fault=fault,
        )
        return
    if state.epoch:
        _check_age(state, found)
        return
    state.number, state.epoch = found.number, found.epoch
    if found.epoch:
        log.warning(
            "there is no state, and this source was captured before: numbers go on behind those in its topics, and all "
            "rows are read again. Rows that were deleted meanwhile stay in sinks, since no event tells of them",
            number=found.number,
        )


def _check_age(state: CaptureState, found: Furthest) -> None:
    if found.epoch > state.epoch:
        raise CaptureError(
            f"source {state.source!r} was captured since then with another stateDir: its topics have events of start "
            f"{found.epoch}, and this stateDir has begun {state.epoch} times. If another capture of that name runs, "
            "leave it alone, or give this one another name. If this stateDir is out of a backup, remove it: the next "
            "run reads all rows again, and its numbers go on"
        )


def may_be_ours(topic: str, rules: Rules) -> bool:
    """Return whether a topic may have events of a capture with these rules, whatever tables there were."""
    renamed = (each.partition("=")[2] for each in rules.rename)
    return topic in renamed or fnmatchcase(topic, f"{rules.prefix}-*")
