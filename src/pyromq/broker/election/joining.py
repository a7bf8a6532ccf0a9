"""Where a replica cuts its log before it follows a new master: at the end of what both have in common."""

from __future__ import annotations

from typing import NamedTuple

from ...protocol.replication.epochs import EpochList


class LogCut(NamedTuple):
    """Cut the log to `position`, keep `epochs`, follow from there.

    `lost_confirmed`: so many bytes go that were known to be confirmed. Above 0 only where every member of the set had
    lost its end by a power cut: it is logged."""

    position: int
    epochs: EpochList
    lost_confirmed: int


def cut_to_follow(own: EpochList, own_end: int, master: EpochList, master_end: int, *, confirmed: int) -> LogCut | None:
    """Return where to cut; None: the logs have nothing in common, and the replica has to be seeded anew.

    An empty log follows everybody from the start."""
    if own_end == 0:
        return LogCut(0, EpochList(), max(confirmed, 0))
    found = own.agreement(own_end, master, master_end)
    if found is None:
        if not own.entries or not master.entries or own.entries[0].start != master.entries[0].start:
            return None
        start = own.entries[0].start  # both began there, under masters that nobody has in common: nothing is shared
        return LogCut(start, EpochList(), max(confirmed - start, 0))
    return LogCut(found.position, found.epochs, max(confirmed - found.position, 0))


def epochs_found(epochs: EpochList, end: int) -> EpochList:
    """Return the epochs of a log that was recovered with this end: a power cut may have taken what others begin at."""
    return epochs.within(end)
