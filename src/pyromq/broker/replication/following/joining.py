"""What a slave decides before it follows: whether that is its master, whether the two logs agree, and where to begin.

`follower.py` asks the questions and acts on the answers; no I/O here, no clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from ....errors import Malformed, PyroError
from ....model.wire_text import whole_number
from ...registration import REGISTERED, Identity

FILE_SIZE = "mappedFileSizeCommitLog"


class CannotFollow(PyroError):
    """This broker must not follow that master as things are. Says why, and what to do."""


class OwnLog(NamedTuple):
    """What is here. `last`: where the last record begins. Empty while it ends where it starts."""

    start: int
    end: int
    last: int
    file_bytes: int

    @property
    def is_empty(self) -> bool:
        return self.start == self.end


class MastersLog(NamedTuple):
    """What the master says of itself (requests 26 and 28)."""

    address: str
    cluster: str
    broker_name: str
    role: str
    file_bytes: int
    start: int
    end: int


class Beginning(Enum):
    """What comes before the first report, which says where the master begins."""

    COMPARE = "the last record here is compared with the master's at its place"
    AT_START = "the empty log begins where the master's does"
    FIRST_RECORD = "the master's first record is fetched: a report of 0 means its last file"
    AS_IT_IS = "there is nothing to compare"


def read_settings(settings: bytes) -> dict[str, str]:
    """Read a broker's answer to request 26."""
    lines = settings.decode("utf-8", "replace").splitlines()
    return {name: value for name, _, value in (line.partition("=") for line in lines)}


def file_bytes(told: Mapping[str, str]) -> int | None:
    """Return the size of log files, of a broker's settings; None: they do not say it."""
    return whole_number(told.get(FILE_SIZE))


def masters_log(address: str, settings: bytes, runtime: Mapping[str, str]) -> MastersLog:
    """Read a master's answers. Malformed: one of them lacks what a broker says there."""
    told = read_settings(settings)
    numbers = {
        FILE_SIZE: file_bytes(told),
        "commitLogMinOffset": whole_number(runtime.get("commitLogMinOffset")),
        "commitLogMaxOffset": whole_number(runtime.get("commitLogMaxOffset")),
    }
    known = {name: number for name, number in numbers.items() if number is not None}
    if len(known) < len(numbers):
        missing = ", ".join(name for name in numbers if name not in known)
        raise Malformed(f"{address} does not say {missing} (requests 26 and 28): is it a broker?")
    return MastersLog(
        address,
        told.get("brokerClusterName", ""),
        told.get("brokerName", ""),
        told.get("brokerRole", ""),
        known[FILE_SIZE],
        known["commitLogMinOffset"],
        known["commitLogMaxOffset"],
    )


def check_master(master: MastersLog, own: Identity, log: OwnLog) -> None:
    """Raise CannotFollow unless this is a master of our name and cluster, with log files of our size."""
    if master.address == own.address:
        raise CannotFollow(
            f"{master.address} is this broker itself: is another one registered with brokerId 0 as {own.broker_name}?"
        )
    if (master.cluster, master.broker_name) != (own.cluster, own.broker_name):
        raise CannotFollow(
            f"{master.address} is broker {master.broker_name} of cluster {master.cluster}, this slave is of "
            f"{own.broker_name} in {own.cluster}: correct brokerName and brokerClusterName here, or haMasterAddress"
        )
    if master.role == "SLAVE":
        raise CannotFollow(f"{master.address} is a slave itself: name its master by haMasterAddress")
    if master.file_bytes != log.file_bytes:
        remedy = (
            "nothing is stored here yet, so start this slave again: it takes the master's then"
            if log.is_empty
            else "set the same here and move this store away: an empty slave gets everything from its master"
        )
        raise CannotFollow(
            f"mappedFileSizeCommitLog is {master.file_bytes} at the master {master.address} and {log.file_bytes} here: "
            f"{remedy}"
        )


def how_to_begin(master: MastersLog, log: OwnLog) -> Beginning:
    """Return what to do before the first report. CannotFollow: the two logs do not meet."""
    if log.is_empty:
        if master.start:
            return Beginning.AT_START
        return Beginning.FIRST_RECORD if master.end else Beginning.AS_IT_IS
    if log.end > master.end:
        raise CannotFollow(
            f"this log ends at {log.end}, that of the master {master.address} at {master.end}: the master has lost its "
            f"end. To go on as the master is, cut it here (pyromq store cut PATH {master.end}), which keeps the rest "
            "aside; else make this broker the master"
        )
    if log.end < master.start:
        raise CannotFollow(
            f"this log ends at {log.end}, that of the master {master.address} begins at {master.start}: the records "
            "between have expired there. Move this store away: an empty slave gets everything from its master"
        )
    return Beginning.COMPARE if log.last >= master.start else Beginning.AS_IT_IS


def check_last(master: MastersLog, log: OwnLog, ours: bytes, theirs: bytes) -> None:
    """Raise CannotFollow unless the last record here is the master's at that place."""
    if ours != theirs:
        raise CannotFollow(
            f"the record at {log.last} is another one at the master {master.address}: the logs have gone apart. Make "
            "this broker the master, or move its store away: an empty slave gets everything from its master"
        )


def no_master(own: Identity, name_servers: Mapping[str, str]) -> str:
    """Return what to say while nobody knows the master, and what to do. `name_servers`: each with what this broker's
    registration there came to."""
    if not name_servers:
        return "no master is known: set namesrvAddr to the master's name servers, or haMasterAddress to its HA port"
    asked = ", ".join(one for one, state in name_servers.items() if state == REGISTERED)
    silent = "; ".join(f"{one} does not answer: {state}" for one, state in name_servers.items() if state != REGISTERED)
    found = f"{asked} know{'' if ',' in asked else 's'} none" if asked else "no name server was reached"
    rest = f" ({silent})" if silent else ""
    return (
        f"no master is known of broker {own.broker_name} in cluster {own.cluster}: {found}{rest}. Start the master "
        f"with brokerName={own.broker_name}, brokerId=0 and these name servers, correct brokerName or namesrvAddr "
        "here, or set haMasterAddress to its HA port"
    )
