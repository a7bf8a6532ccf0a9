"""Statistics, progress, configuration and upkeep of a broker."""

from __future__ import annotations

import msgspec

from .header import Header, Int64, TopicHeader


class GetBrokerConfigAnswer(Header, kw_only=True):
    """26. The version is the JSON of a DataVersion."""

    version: str


class GetConsumeStats(TopicHeader, kw_only=True):
    """208. `topic_list` is separated by semicolons."""

    consumer_group: str
    topic: str | None = None
    topic_list: str | None = None


class GetBrokerConsumeStats(Header, kw_only=True):
    is_order: bool = False


class QueryConsumeTimeSpan(TopicHeader, kw_only=True):
    topic: str
    group: str


class ViewBrokerStatsData(Header, kw_only=True):
    stats_name: str
    stats_key: str


class ViewBrokerStatsDataAnswer(Header, kw_only=True):
    """Of our brokers alone. The body is as Java samples it: what is older than a minute may be missing in it until the
    next ten minutes or the hour are full."""

    sum_of_day: Int64 | None = None


class CheckRocksdbCqWriteProgress(Header, kw_only=True):
    topic: str | None = None
    check_store_time: Int64 = 0


class ExportRocksdbConfig(Header, kw_only=True):
    """355. Types separated by semicolons."""

    config_type: str


class SetCommitLogReadMode(Header, kw_only=True):
    """2004. 0 normal, 1 random."""

    read_ahead_mode: str = msgspec.field(name="READ_AHEAD_MODE")


class SwitchTimerEngine(Header, kw_only=True):
    """5001. F: the file's time wheel, R: RocksDB."""

    engine_type: str = msgspec.field(name="E_T")
