"""Statistics and internals of a broker."""

from __future__ import annotations

from ..ints import Int32, Int64
from .body import Body, DataVersion, always, always_new
from .heartbeat import SubscriptionData


class BrokerStatsItem(Body, kw_only=True):
    avgpt: float = always(0.0)
    sum: Int64 = always(0)
    tps: float = always(0.0)


class BrokerStatsData(Body, kw_only=True):
    stats_day: BrokerStatsItem = always_new(BrokerStatsItem)
    stats_hour: BrokerStatsItem = always_new(BrokerStatsItem)
    stats_minute: BrokerStatsItem = always_new(BrokerStatsItem)


class ConsumeQueueData(Body, kw_only=True):
    bit_map: str | None = None
    eval: bool = always(False)
    extend_data_json: str | None = None
    msg: str | None = None
    physic_offset: Int64 = always(0)
    physic_size: Int32 = always(0)
    tags_code: Int64 = always(0)


class QueryConsumeQueueResponseBody(Body, kw_only=True):
    filter_data: str | None = None
    max_queue_index: Int64 = always(0)
    min_queue_index: Int64 = always(0)
    queue_data: list[ConsumeQueueData] | None = None
    subscription_data: SubscriptionData | None = None


class CheckRocksdbCqWriteResult(Body, kw_only=True):
    check_result: str | None = None
    check_status: Int32 = always(0)  # 0 fine, 1 not, 2 still running, 3 an error


class TimerCount(Body, kw_only=True):
    count: Int64 = always(0)
    time_stamp: Int64 = always(0)


class TimerMetrics(Body, kw_only=True):
    data_version: DataVersion = always_new(DataVersion)
    timing_count: dict[str, TimerCount] = always_new(dict)  # messages that wait, by topic


class AccAndTimeStamp(Body, kw_only=True):
    cold_acc: Int64 = always(0)
    create_time_mills: Int64 = always(0)
    last_cold_read_time_mills: Int64 = always(0)


class ColdDataFlowCtrInfo(Body, kw_only=True):
    """2003. Java's own text has another order of members."""

    cg_cold_read_threshold: Int64 = always(0)
    config_table: dict[str, Int64] = always_new(dict)
    global_acc: Int64 = always(0)
    global_cold_read_threshold: Int64 = always(0)
    runtime_table: dict[str, AccAndTimeStamp] = always_new(dict)  # cold bytes that each group read, and when
