"""The table of rules. Names, meanings and thresholds stand here alone; docs/metrics.md shows what to do about each.

`wait_s`: for how long a condition has to hold before anybody is told. Texts name labels of the series in braces:
`{consumer_group}`; `AlertRule.text` fills them in, and `rule_file.py` turns them into Prometheus' templates.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum

from .conditions import Both, Change, Compare, Condition, Forecast, Growth, Now, Total, Unless

_LABEL = re.compile(r"\{([a-z_]+)\}")
BROKER = ("cluster", "node_id")
GROUP = (*BROKER, "consumer_group")
PAIR = (*GROUP, "topic")
DAY_S = 86_400

_USERS = {"is_system": "false"}
_USERS_OWN = {"is_system": "false", "is_retry": "false"}


class Severity(Enum):
    CRITICAL = "critical"  # messages are refused, lost, or nobody serves
    WARNING = "warning"  # it will be, if nobody acts


@dataclass(frozen=True, slots=True)
class AlertRule:
    name: str
    severity: Severity
    condition: Condition
    wait_s: int
    summary: str
    cure: str  # what to look at, and what to type

    def text(self, template: str, labels: Mapping[str, str]) -> str:
        """Return a text of this rule with the labels filled in. One that a series lacks is shown as `?`."""
        return fill(template, lambda name: labels.get(name, "?"))


def fill(template: str, value: Callable[[str], str]) -> str:
    """Replace each `{label}` of a text."""
    return _LABEL.sub(lambda found: value(found[1]), template)


def _is_down(job: str, name: str, what: str, cure: str) -> AlertRule:
    condition = Compare(Now("up", {"job": job}), "==", 0.0)
    return AlertRule(name, Severity.CRITICAL, condition, 60, f"The {what} at {{instance}} does not answer", cure)


RULES: tuple[AlertRule, ...] = (
    _is_down("pyromq-broker", "BrokerDown", "broker", "Look at its process and its log; then: pyromq doctor"),
    AlertRule(
        "BrokerNotReady",
        Severity.CRITICAL,
        Compare(Now("pyromq_ready"), "==", 0.0),
        60,
        "Broker {node_id} cannot do what it is there for",
        "pyromq inspect names the trouble; pyromq_trouble has it as a label",
    ),
    _is_down(
        "pyromq-namesrv",
        "NameServerDown",
        "name server",
        "Clients go on with the routes that they know; new ones find nothing. Start it again",
    ),
    AlertRule(
        "ConsumerLag",
        Severity.WARNING,
        Both(
            Compare(Now("rocketmq_consumer_lag_latency_milliseconds", _USERS_OWN), ">", 300_000.0),
            Compare(Change("rocketmq_consumer_lag_messages", 300, _USERS_OWN), ">=", 0.0),
            PAIR,
        ),
        300,
        "{consumer_group} is more than five minutes behind on {topic}, and does not catch up",
        "pyromq group lag {consumer_group} shows its queues and members, and whether more members would help",
    ),
    AlertRule(
        "NobodyConsumes",
        Severity.CRITICAL,
        Both(
            Compare(Total(Now("rocketmq_consumer_lag_messages", _USERS), GROUP), ">", 0.0),
            Compare(Now("pyromq_group_members"), "==", 0.0),
            GROUP,
        ),
        300,
        "Messages wait for {consumer_group}, which has nobody online",
        "Start its consumers; if the group is retired: pyromq group delete {consumer_group}",
    ),
    AlertRule(
        "ConsumerStuck",
        Severity.WARNING,
        Unless(
            Both(
                Compare(Total(Now("rocketmq_consumer_ready_messages", _USERS_OWN), PAIR), ">", 0.0),
                Compare(Now("pyromq_group_members"), ">", 0.0),
                GROUP,
            ),
            Compare(Growth("rocketmq_messages_out_total", 120, _USERS), ">", 0.0),
            PAIR,
        ),
        600,
        "{consumer_group} has members, messages of {topic} wait, and it takes none",
        "A handler hangs or the group may not consume: pyromq group stack {consumer_group}",
    ),
    AlertRule(
        "SubscriptionConflict",
        Severity.CRITICAL,
        Compare(Now("pyromq_subscription_conflict"), "==", 1.0),
        30,
        "Members of {consumer_group} subscribe to {topic} differently: messages are skipped silently",
        "Let all members subscribe alike; pyromq inspect names the clients",
    ),
    AlertRule(
        "DeadLetters",
        Severity.WARNING,
        Compare(Growth("pyromq_dead_lettered_total", 900), ">", 0.0),
        0,
        "{consumer_group} gave up messages in the last 15 minutes",
        "pyromq dlq list {consumer_group} shows them",
    ),
    AlertRule(
        "DeadLettersLeaving",
        Severity.WARNING,
        Compare(Now("pyromq_dead_letters_leave_seconds"), "<", 1.0 * DAY_S),
        60,
        "The oldest dead letters of {consumer_group} are deleted within a day",
        "Send them again or export them before: pyromq dlq list {consumer_group}",
    ),
    AlertRule(
        "DiskFills",
        Severity.WARNING,
        Compare(Forecast("pyromq_disk_used_ratio", 6 * 3_600, DAY_S), ">", 0.9),
        900,
        "The disk of {node_id} is full within a day if it goes on like this",
        "Give it room, shorten fileReservedTime, or let producers send less",
    ),
    AlertRule(
        "DiskFull",
        Severity.CRITICAL,
        Compare(Now("pyromq_disk_used_ratio"), ">", 0.85),
        60,
        "The disk of {node_id} is nearly full: old messages are deleted early, then sends are refused",
        "Give it room, or shorten fileReservedTime",
    ),
    AlertRule(
        "RetentionShort",
        Severity.WARNING,
        Both(
            Compare(Now("pyromq_store_oldest_seconds"), "<", Now("pyromq_retention_seconds", factor=0.5)),
            Compare(Now("pyromq_log_start_bytes"), ">", 0.0),
            BROKER,
        ),
        300,
        "Broker {node_id} deletes messages in less than half of the time that they should stay",
        "The disk is too small for what comes in: pyromq_store_bytes and pyromq_disk_used_ratio say by how much",
    ),
    AlertRule(
        "TransactionsStuck",
        Severity.WARNING,
        Compare(Now("pyromq_half_oldest_seconds"), ">", 600.0),
        60,
        "A transaction on {topic} has been undecided for more than ten minutes",
        "Is its producer group online? pyromq inspect lists the half messages",
    ),
    AlertRule(
        "TransactionsGivenUp",
        Severity.WARNING,
        Compare(Growth("pyromq_half_given_up_total", 900), ">", 0.0),
        0,
        "Transactions on {node_id} were given up after all their checks",
        "Find out what happened to their producers; then: pyromq msg recheck ID",
    ),
    AlertRule(
        "TimersLate",
        Severity.WARNING,
        Compare(Now("rocketmq_timer_dequeue_latency_milliseconds"), ">", 5_000.0),
        60,
        "Timed messages of {node_id} are delivered more than five seconds late",
        "Too many are due at once, or the broker is busy: pyromq_loop_lag_seconds, rocketmq_timer_message_snapshot",
    ),
    AlertRule(
        "Refusing",
        Severity.CRITICAL,
        Compare(Growth("pyromq_refused_total", 120), ">", 0.0),
        60,
        "Broker {node_id} refuses requests of the class {request_class}: {limit}",
        "The limit is the label's; docs/tuning.md says which setting it is",
    ),
    AlertRule(
        "LoopLate",
        Severity.WARNING,
        Compare(Now("pyromq_loop_lag_seconds"), ">", 0.2),
        60,
        "The event loop of {node_id} is late, so everything is",
        "pyromq inspect names requests that held it (loop holds); else the machine is busy",
    ),
    AlertRule(
        "CertificateEnds",
        Severity.WARNING,
        Compare(Now("pyromq_certificate_ends_seconds"), "<", 14.0 * DAY_S),
        3_600,
        "The certificate of {node_id} ends within two weeks",
        "Renew it: pyromq tls renew; the broker takes the new one while it runs",
    ),
)
