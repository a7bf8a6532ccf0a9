"""What happened, minute by minute, for each alert: judged by the real promtool and by our own evaluation alike."""

from __future__ import annotations

from typing import NamedTuple

B = 'cluster="c",node_id="b"'
G = f'{B},consumer_group="g"'
P = f'{G},topic="t",is_retry="false",is_system="false"'


class Case(NamedTuple):
    """`series`: values at each step. At step `fires` the alert fires, at `quiet` and at `resolved` it does not."""

    alert: str
    series: dict[str, list[float]]
    quiet: int
    fires: int
    resolved: int
    labels: dict[str, str]
    step_s: int = 60


def flat(*runs: tuple[float, int]) -> list[float]:
    return [value for value, times in runs for _ in range(times)]


_BROKER = {"cluster": "c", "node_id": "b"}
_GROUP = {**_BROKER, "consumer_group": "g"}
_PAIR = {**_GROUP, "topic": "t"}
_LAG_LABELS = {**_PAIR, "is_retry": "false", "is_system": "false"}

CASES = [
    Case(
        "BrokerDown",
        {'up{job="pyromq-broker",instance="i"}': flat((1, 5), (0, 5), (1, 5))},
        4,
        7,
        12,
        {"job": "pyromq-broker", "instance": "i"},
    ),
    Case(
        "NameServerDown",
        {'up{job="pyromq-namesrv",instance="i"}': flat((1, 5), (0, 5), (1, 5))},
        4,
        7,
        12,
        {"job": "pyromq-namesrv", "instance": "i"},
    ),
    Case("BrokerNotReady", {f"pyromq_ready{{{B}}}": flat((1, 5), (0, 5), (1, 5))}, 4, 7, 12, _BROKER),
    Case(
        "ConsumerLag",
        {
            f"rocketmq_consumer_lag_latency_milliseconds{{{P}}}": flat((1000, 5), (400_000, 15), (1000, 10)),
            f"rocketmq_consumer_lag_messages{{{P}}}": [*range(20), *flat((1, 10))],
        },
        8,
        15,
        25,
        _LAG_LABELS,
    ),
    Case(
        "NobodyConsumes",
        {
            f"rocketmq_consumer_lag_messages{{{P}}}": flat((0, 2), (5, 18), (0, 5)),
            f"pyromq_group_members{{{G}}}": flat((1, 5), (0, 20)),
        },
        8,
        14,
        22,
        _GROUP,
    ),
    Case(
        "ConsumerStuck",
        {
            f"rocketmq_consumer_ready_messages{{{P}}}": flat((7, 30)),
            f"pyromq_group_members{{{G}}}": flat((2, 30)),
            f'rocketmq_messages_out_total{{{G},topic="t",is_system="false"}}': [
                *(float(one) for one in range(6)),
                *flat((5, 16)),
                *(float(one) for one in range(6, 14)),
            ],
        },
        10,
        20,
        26,
        _PAIR,
    ),
    Case(
        "SubscriptionConflict",
        {f'pyromq_subscription_conflict{{{G},topic="t"}}': flat((0, 3), (1, 4), (0, 4))},
        2,
        5,
        9,
        _PAIR,
    ),
    Case("DeadLetters", {f"pyromq_dead_lettered_total{{{G}}}": flat((0, 5), (3, 40))}, 4, 8, 30, _GROUP),
    Case(
        "DeadLettersLeaving",
        {f"pyromq_dead_letters_leave_seconds{{{G}}}": flat((100_000, 5), (80_000, 5), (200_000, 5))},
        4,
        8,
        12,
        _GROUP,
    ),
    Case(
        "DiskFills",
        {
            f"pyromq_disk_used_ratio{{{B}}}": [
                *flat((0.5, 12)),
                *(0.5 + 0.005 * one for one in range(60)),
                *flat((0.3, 100)),
            ]
        },
        11,
        60,
        160,
        _BROKER,
        step_s=300,
    ),
    Case("DiskFull", {f"pyromq_disk_used_ratio{{{B}}}": flat((0.5, 5), (0.88, 5), (0.5, 5))}, 4, 8, 12, _BROKER),
    Case(
        "RetentionShort",
        {
            f"pyromq_store_oldest_seconds{{{B}}}": flat((200_000, 3), (50_000, 10), (200_000, 5)),
            f"pyromq_retention_seconds{{{B}}}": flat((259_200, 18)),
            f"pyromq_log_start_bytes{{{B}}}": flat((1 << 30, 18)),
        },
        6,
        10,
        15,
        _BROKER,
    ),
    Case(
        "TransactionsStuck",
        {f'pyromq_half_oldest_seconds{{{B},topic="t"}}': flat((60, 4), (700, 5), (0, 4))},
        3,
        7,
        11,
        {**_BROKER, "topic": "t"},
    ),
    Case("TransactionsGivenUp", {f"pyromq_half_given_up_total{{{B}}}": flat((0, 5), (1, 40))}, 4, 8, 30, _BROKER),
    Case(
        "TimersLate",
        {f"rocketmq_timer_dequeue_latency_milliseconds{{{B}}}": flat((900, 5), (9000, 5), (0, 5))},
        4,
        8,
        12,
        _BROKER,
    ),
    Case(
        "Refusing",
        {f'pyromq_refused_total{{{B},request_class="send",limit="disk"}}': [0, 0, 0, 0, 5, 10, 15, 20, *flat((20, 8))]},
        3,
        7,
        14,
        {**_BROKER, "request_class": "send", "limit": "disk"},
    ),
    Case("LoopLate", {f"pyromq_loop_lag_seconds{{{B}}}": flat((0.01, 5), (0.5, 5), (0.01, 5))}, 4, 8, 12, _BROKER),
    Case(
        "CertificateEnds",
        {f"pyromq_certificate_ends_seconds{{{B}}}": flat((2_000_000, 5), (1_000_000, 80), (9_000_000, 10))},
        30,
        80,
        90,
        _BROKER,
    ),
]
