"""Which tables of an elected set are carried by its log. Others are each broker's own, or derived from the log."""

from __future__ import annotations

from collections.abc import Mapping

VERSION = "dataVersion"  # the section that goes as a whole: its parts belong together
TIMER_PROGRESS = "pyromq/timerProgress.json"
USERS = "pyromq/users.json"  # no file: each member keeps them in a table of its own, sealed with its own key

# By table, the sections that are not carried: they are statistics, or follow from the others.
CARRIED: Mapping[str, frozenset[str]] = {
    "config/topics.json": frozenset(),
    "config/subscriptionGroup.json": frozenset(),
    "config/consumerOffset.json": frozenset(("pullOffsetTable", "groupTopicMap")),
    "config/messageRequestMode.json": frozenset(),
    "config/consumerOrderInfo.json": frozenset(),
    "config/consumerFilter.json": frozenset(),
    "config/delayOffset.json": frozenset(),
    "config/timermetrics": frozenset(),
    TIMER_PROGRESS: frozenset(),
    "pyromq/transactionChecks.json": frozenset(),
    "pyromq/orderLocks.json": frozenset(),
    USERS: frozenset(),
}
