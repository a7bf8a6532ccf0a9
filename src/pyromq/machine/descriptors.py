"""Files and sockets that this process may have open: the limit is raised once, then divided once.

Whoever starts a process asks for it before anything is opened (`budget.py`), and hands the shares to the parts. Opens
nothing itself.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import ConfigError

MOST = 1 << 20  # more than that costs the system memory for each process, and no machine serves so many peers
LOG_FILES = 128  # of the commit log that readers keep open at a time
OUTGOING = 256  # connections to name servers and brokers

# What no share covers: standard streams, the event loop, listeners, the lock, marks, the timer's files, spares of the
# store, and what a flush opens for a moment (the file that is synced, its folder, a table written aside).
BROKER_RESERVE = 64
NAME_SERVER_RESERVE = 32

_LEAST_LOG_FILES = 4
_LEAST_QUEUE_FILES = 16
_LEAST_OUTGOING = 4
_LEAST_CONNECTIONS = 8


@dataclass(frozen=True, slots=True)
class Shares:
    """Who may hold how many descriptors; together they are `limit`."""

    limit: int
    reserve: int
    queue_files: int
    log_files: int
    outgoing: int
    connections: int  # of all listeners of the process together


def raise_limit(most: int = MOST) -> int:
    """Raise the soft limit of open files to the hard one, and return how many this process may have."""
    try:
        import resource
    except ImportError:  # Windows, where only the SDK runs
        return most
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = most if hard == resource.RLIM_INFINITY else min(hard, most)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError):  # a sandbox forbids it: we do with what there is
            return soft
        return wanted
    return wanted if soft == resource.RLIM_INFINITY else min(soft, most)


def divide(limit: int, *, queue_files: int = 0, reserved: int = 0) -> Shares:
    """Divide the descriptors of a process. `queue_files`: how many a store wants to hold open; 0: there is no store.

    `reserved`: what connections have to leave in any case (`reservedDescriptors`). ConfigError where too few are left.
    """
    reserve = BROKER_RESERVE if queue_files else NAME_SERVER_RESERVE
    rest = limit - reserve
    log_files = _between(_LEAST_LOG_FILES, rest // 16, LOG_FILES) if queue_files else 0
    queue_share = _between(min(_LEAST_QUEUE_FILES, queue_files), rest // 4, queue_files) if queue_files else 0
    outgoing = _between(_LEAST_OUTGOING, rest // 16, OUTGOING)
    others = reserve + log_files + queue_share + outgoing
    connections = limit - others
    if connections < _LEAST_CONNECTIONS:
        raise ConfigError(
            f"this process may open {limit} files, and needs {others + _LEAST_CONNECTIONS} at least: raise the limit "
            "(ulimit -n 65536 before the start, LimitNOFILE= in a systemd unit)"
        )
    if limit - reserved < 1:
        raise ConfigError(
            f"reservedDescriptors={reserved} leaves no connections of the {limit} files that this process may open: "
            "lower it, or raise the limit (ulimit -n)"
        )
    return Shares(limit, reserve, queue_share, log_files, outgoing, min(connections, limit - reserved))


def _between(low: int, wanted: int, high: int) -> int:
    return max(low, min(wanted, high))
