"""Which groups of metrics a broker has, with Java's keys."""

from __future__ import annotations

from dataclasses import dataclass

from ...config import setting


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricGroups:
    enable_stats_metrics: bool = setting(True, help="metrics of permission, topics and groups")
    enable_request_metrics: bool = setting(True, help="metrics of messages in and out, and of waiting requests")
    enable_connection_metrics: bool = setting(True, help="metrics of clients")
    enable_lag_and_dlq_metrics: bool = setting(True, help="metrics of lag, retries and dead letters")
    enable_transaction_metrics: bool = setting(True, help="metrics of transactions")
    enable_remoting_metrics: bool = setting(True, help="metrics of how long requests take")
    enable_message_store_metrics: bool = setting(True, help="metrics of the store and of timers")
    enable_pop_metrics: bool = setting(True, help="metrics of pops")
