"""A broker's own work: what it throws away, how it reads cold data and times messages, its counters and queue files."""

from __future__ import annotations

from ..config import properties
from ..protocol.bodies.stats import (
    CheckRocksdbCqWriteResult,
    ColdDataFlowCtrInfo,
    QueryConsumeQueueResponseBody,
)
from ..protocol.headers.pull import QueryConsumeQueue
from ..protocol.headers.replication import ResetMasterFlushOffset
from ..protocol.headers.stats import (
    CheckRocksdbCqWriteProgress,
    ExportRocksdbConfig,
    SetCommitLogReadMode,
    SwitchTimerEngine,
)
from ..protocol.requests import RequestCode
from .calls import Calls, read


async def clean_expired_queues(calls: Calls, address: str) -> None:
    """306."""
    await calls.broker(address, RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE)


async def clean_unused_topics(calls: Calls, address: str) -> None:
    """316."""
    await calls.broker(address, RequestCode.CLEAN_UNUSED_TOPIC)


async def delete_expired_log(calls: Calls, address: str) -> None:
    """329."""
    await calls.broker(address, RequestCode.DELETE_EXPIRED_COMMITLOG)


# --- cold reads -------------------------------------------------------------------------------------------------------


async def cold_reads(calls: Calls, address: str) -> ColdDataFlowCtrInfo:
    """2003."""
    return read(ColdDataFlowCtrInfo, await calls.broker(address, RequestCode.GET_COLD_DATA_FLOW_CTR_INFO))


async def limit_cold_reads(calls: Calls, address: str, group: str, bytes_per_second: str) -> None:
    """2001."""
    body = properties.render({group: bytes_per_second}).encode()
    await calls.broker(address, RequestCode.UPDATE_COLD_DATA_FLOW_CTR_CONFIG, body=body)


async def unlimit_cold_reads(calls: Calls, address: str, group: str) -> None:
    """2002."""
    await calls.broker(address, RequestCode.REMOVE_COLD_DATA_FLOW_CTR_CONFIG, body=group.encode())


async def set_read_ahead(calls: Calls, address: str, mode: str) -> str:
    """2004. What the broker says to it."""
    header = SetCommitLogReadMode(read_ahead_mode=mode)
    return (await calls.broker(address, RequestCode.SET_COMMITLOG_READ_MODE, header)).remark or ""


# --- the rest ---------------------------------------------------------------------------------------------------------


async def switch_timer_engine(calls: Calls, address: str, engine: str) -> None:
    """5001. F: the time wheel in files, R: RocksDB."""
    await calls.broker(address, RequestCode.SWITCH_TIMER_ENGINE, SwitchTimerEngine(engine_type=engine))


async def reset_master_flush_offset(calls: Calls, address: str, offset: int) -> None:
    """908: what a slave takes for its master's flushed position."""
    header = ResetMasterFlushOffset(master_flush_offset=offset)
    await calls.broker(address, RequestCode.RESET_MASTER_FLUSH_OFFSET, header)


async def queue_entries(
    calls: Calls, address: str, topic: str, queue_id: int, first: int, count: int, group: str | None = None
) -> QueryConsumeQueueResponseBody:
    """321: entries of a consume queue, and with a group what its filter says of them."""
    header = QueryConsumeQueue(topic=topic, queue_id=queue_id, index=first, count=count, consumer_group=group)
    return read(QueryConsumeQueueResponseBody, await calls.broker(address, RequestCode.QUERY_CONSUME_QUEUE, header))


async def compare_rocksdb_queues(
    calls: Calls, address: str, topic: str | None, since_ms: int
) -> CheckRocksdbCqWriteResult:
    """354: whether RocksDB's consume queues hold what the files do."""
    header = CheckRocksdbCqWriteProgress(topic=topic, check_store_time=since_ms)
    answer = await calls.broker(address, RequestCode.CHECK_ROCKSDB_CQ_WRITE_PROGRESS, header)
    return read(CheckRocksdbCqWriteResult, answer)


async def export_rocksdb(calls: Calls, address: str, kinds: str) -> None:
    """355: RocksDB's tables as JSON files of the broker. Kinds are separated by semicolons."""
    await calls.broker(address, RequestCode.EXPORT_ROCKSDB_CONFIG_TO_JSON, ExportRocksdbConfig(config_type=kinds))


async def roll_back_pops(calls: Calls, address: str) -> None:
    """200056: records of pops go back from RocksDB to the file store."""
    await calls.broker(address, RequestCode.POP_ROLLBACK)
