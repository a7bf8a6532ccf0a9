"""Every series of a scrape of RocketMQ 5.5.0 is here under the same name and labels, or this list says why not.

`SEEN` was read off a scrape of Java's broker (2026-11-16) that had been sent normal, ordered, delayed, timed,
transactional and rejected messages: names with the suffixes of their units, and labels beside those of every series.
"""

from __future__ import annotations

from pathlib import Path

from pyromq.metrics.families import MetricKind
from tests.broker.metrics.usage import PROM, address_of, use
from tests.broker.running import running_broker
from tests.metrics.scraping import scrape

EVERY = {"cluster", "node_type", "node_id", "otel_scope_name"}
_TOPIC = {"topic", "message_type", "is_system"}
_OUT = {"topic", "consumer_group", "is_system"}
_LAG = {"consumer_group", "topic", "is_retry", "is_system"}
_STORE = {"storage_type", "storage_medium"}
_TIMER = {"topic", *_STORE}

SEEN: dict[str, tuple[MetricKind, set[str]]] = {
    "rocketmq_processor_watermark": (MetricKind.GAUGE, {"processor"}),
    "rocketmq_broker_permission": (MetricKind.GAUGE, set()),
    "rocketmq_topic_number": (MetricKind.GAUGE, set()),
    "rocketmq_consumer_group_number": (MetricKind.GAUGE, set()),
    "rocketmq_messages_in": (MetricKind.COUNTER, _TOPIC),
    "rocketmq_throughput_in": (MetricKind.COUNTER, _TOPIC),
    "rocketmq_message_size": (MetricKind.HISTOGRAM, _TOPIC),
    "rocketmq_messages_out": (MetricKind.COUNTER, _OUT),
    "rocketmq_throughput_out": (MetricKind.COUNTER, _OUT),
    "rocketmq_topic_create_execution_time_milliseconds": (MetricKind.HISTOGRAM, {"invocation_status", "is_system"}),
    "rocketmq_consumer_group_create_execution_time_milliseconds": (MetricKind.HISTOGRAM, {"invocation_status"}),
    "rocketmq_producer_connections": (MetricKind.GAUGE, {"language", "version", "protocol_type"}),
    "rocketmq_consumer_connections": (
        MetricKind.GAUGE,
        {"consumer_group", "language", "version", "consume_mode", "protocol_type", "is_system"},
    ),
    "rocketmq_consumer_lag_messages": (MetricKind.GAUGE, _LAG),
    "rocketmq_consumer_lag_latency_milliseconds": (MetricKind.GAUGE, _LAG),
    "rocketmq_consumer_inflight_messages": (MetricKind.GAUGE, _LAG),
    "rocketmq_consumer_queueing_latency_milliseconds": (MetricKind.GAUGE, _LAG),
    "rocketmq_consumer_ready_messages": (MetricKind.GAUGE, _LAG),
    "rocketmq_send_to_dlq_messages": (MetricKind.COUNTER, _OUT),
    "rocketmq_half_messages": (MetricKind.GAUGE, {"topic"}),
    "rocketmq_commit_messages": (MetricKind.COUNTER, {"topic"}),
    "rocketmq_rollback_messages": (MetricKind.COUNTER, {"topic"}),
    "rocketmq_finish_message_latency_milliseconds": (MetricKind.HISTOGRAM, {"topic"}),
    "rocketmq_rpc_latency_milliseconds": (
        MetricKind.HISTOGRAM,
        {"protocol_type", "request_code", "response_code", "is_long_polling", "result"},
    ),
    "rocketmq_storage_size_bytes": (MetricKind.GAUGE, _STORE),
    "rocketmq_storage_flush_behind_bytes": (MetricKind.GAUGE, _STORE),
    "rocketmq_storage_dispatch_behind_bytes": (MetricKind.GAUGE, _STORE),
    "rocketmq_storage_message_reserve_time_milliseconds": (MetricKind.GAUGE, _STORE),
    "rocketmq_timer_enqueue_lag": (MetricKind.GAUGE, _STORE),
    "rocketmq_timer_enqueue_latency_milliseconds": (MetricKind.GAUGE, _STORE),
    "rocketmq_timer_dequeue_lag": (MetricKind.GAUGE, _STORE),
    "rocketmq_timer_dequeue_latency_milliseconds": (MetricKind.GAUGE, _STORE),
    "rocketmq_timing_messages": (MetricKind.GAUGE, _TIMER),
    "rocketmq_timer_enqueue": (MetricKind.COUNTER, _TIMER),
    "rocketmq_timer_dequeue": (MetricKind.COUNTER, _TIMER),
    "rocketmq_timer_message_snapshot": (MetricKind.GAUGE, {"timer_bound_s", *_STORE}),
    "rocketmq_delay_message_latency_seconds": (MetricKind.HISTOGRAM, _TIMER),
    "rocketmq_pop_checkpoint_buffer_size": (MetricKind.GAUGE, set()),
}

# Names of a Java scrape that ours has not, and why.
MISSING = {
    "rocketmq_pop_buffer_scan_time_consume_milliseconds": "there is no buffer that is scanned",
    "rocketmq_pop_offset_buffer_size": "offsets of pops need no buffer of their own",
    "rocketmq_pop_revive_in_message_total": "check points stay in memory with a journal: pyromq_pop_messages",
    "rocketmq_pop_revive_out_message_total": "the same",
    "rocketmq_pop_revive_retry_messages_total": "pyromq_pop_revived_total counts them",
    "rocketmq_pop_revive_lag_milliseconds": "no queue has to be read before a message comes again",
    "rocketmq_pop_revive_latency_milliseconds": "the same",
    "target_info": "no resource beside the labels of each series",
}


async def test_names_kinds_and_labels_are_those_of_java(tmp_path: Path) -> None:
    async with running_broker(tmp_path, **PROM) as broker:
        await use(broker)
        found = await scrape(address_of(broker))
    ours = {}
    for name in SEEN.keys() & found.keys():
        family = found[name]
        sample = next(one for one in family.samples if not one.name.endswith("_created"))
        ours[name] = (MetricKind(family.type), set(sample.labels) - {"le"})
    assert ours == {name: (kind, labels | EVERY) for name, (kind, labels) in SEEN.items()}
    assert not MISSING.keys() & found.keys()
    assert not [name for name in found if not name.startswith(("rocketmq_", "pyromq_"))]
