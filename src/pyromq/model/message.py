"""Messages as values, and the words that are written into them: property names and system flags.

`Message` is what an application sends, `StoredMessage` what a broker hands back. Byte layouts live in protocol/.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .ids import offset_message_id
from .wire_text import INT_MAX, whole_number


class Property:  # names that RocketMQ itself reads or writes
    KEYS = "KEYS"
    TAGS = "TAGS"
    WAIT = "WAIT"
    DELAY = "DELAY"
    BUYER_ID = "BUYER_ID"
    INSTANCE_ID = "INSTANCE_ID"
    SHARDING_KEY = "__SHARDINGKEY"
    DUP_INFO = "DUP_INFO"
    TRACE_CONTEXT = "TRACE_CONTEXT"

    UNIQ_KEY = "UNIQ_KEY"
    ORIGIN_MESSAGE_ID = "ORIGIN_MESSAGE_ID"
    RETRY_TOPIC = "RETRY_TOPIC"
    ORIGIN_GROUP = "ORIGIN_GROUP"
    REAL_TOPIC = "REAL_TOPIC"
    REAL_QID = "REAL_QID"
    CLUSTER = "CLUSTER"
    MSG_REGION = "MSG_REGION"
    TRACE_ON = "TRACE_ON"
    BORN_HOST = "__BORNHOST"
    BORN_TIMESTAMP = "BORN_TIMESTAMP"

    RECONSUME_TIME = "RECONSUME_TIME"
    MAX_RECONSUME_TIMES = "MAX_RECONSUME_TIMES"
    CONSUME_START_TIME = "CONSUME_START_TIME"
    DLQ_ORIGIN_TOPIC = "DLQ_ORIGIN_TOPIC"
    DLQ_ORIGIN_MESSAGE_ID = "DLQ_ORIGIN_MESSAGE_ID"

    TRAN_MSG = "TRAN_MSG"
    PGROUP = "PGROUP"
    TRAN_PREPARED_QUEUE_OFFSET = "TRAN_PREPARED_QUEUE_OFFSET"
    TRANSACTION_ID = "__transactionId__"
    TRANSACTION_CHECK_TIMES = "TRANSACTION_CHECK_TIMES"
    CHECK_IMMUNITY_TIME_IN_SECONDS = "CHECK_IMMUNITY_TIME_IN_SECONDS"

    CORRELATION_ID = "CORRELATION_ID"
    REPLY_TO_CLIENT = "REPLY_TO_CLIENT"
    TTL = "TTL"
    ARRIVE_TIME = "ARRIVE_TIME"
    PUSH_REPLY_TIME = "PUSH_REPLY_TIME"
    MSG_TYPE = "MSG_TYPE"

    POP_CK = "POP_CK"
    POP_CK_OFFSET = "POP_CK_OFFSET"
    FIRST_POP_TIME = "1ST_POP_TIME"

    TIMER_DELAY_SEC = "TIMER_DELAY_SEC"
    TIMER_DELAY_MS = "TIMER_DELAY_MS"
    TIMER_DELIVER_MS = "TIMER_DELIVER_MS"
    TIMER_OUT_MS = "TIMER_OUT_MS"
    TIMER_ENQUEUE_MS = "TIMER_ENQUEUE_MS"
    TIMER_DEQUEUE_MS = "TIMER_DEQUEUE_MS"
    TIMER_ROLL_TIMES = "TIMER_ROLL_TIMES"
    TIMER_DEL_UNIQKEY = "TIMER_DEL_UNIQKEY"
    TIMER_DELAY_LEVEL = "TIMER_DELAY_LEVEL"

    INNER_NUM = "INNER_NUM"
    INNER_BASE = "INNER_BASE"
    INNER_MULTI_DISPATCH = "INNER_MULTI_DISPATCH"
    INNER_MULTI_QUEUE_OFFSET = "INNER_MULTI_QUEUE_OFFSET"

    MIN_OFFSET = "MIN_OFFSET"
    MAX_OFFSET = "MAX_OFFSET"
    LITE_TOPIC = "__LITE_TOPIC"
    PRIORITY = "_SYS_MSG_PRIORITY_"
    CRC32 = "__CRC32#"

    # Ours
    SEND_ID = "__SEND_ID"  # who sent it as which of his messages, for the duplicate window
    OWN_DUE_MS = "PYRO_DUE_MS"  # when a delayed message is really due, where its queue entry says an earlier time
    OWN_DELAY = "PYRO_DELAY"  # the level that it was given, while DELAY is that of the hop
    OWN_DEAD_MS = "PYRO_DEAD_MS"  # when a dead letter died; a carried copy has a store time of its own
    OWN_REASON = "PYRO_REASON"  # why it died, in the words of the handler that had it last


MOST_REASON_BYTES = 512  # of OWN_REASON
NO_ATTEMPT_LEFT = "no attempt was left"  # OWN_REASON of one that the gRPC endpoint popped and delivered no more
KEY_SEPARATOR = " "  # between the words of KEYS


class SysFlag:
    """Bits of a record's sysFlag. Transaction state and compression type are fields, the others single bits."""

    COMPRESSED = 1
    MULTI_TAGS = 2
    TRANSACTION_PREPARED = 4
    TRANSACTION_COMMIT = 8
    TRANSACTION_ROLLBACK = 12
    TRANSACTION_MASK = 12
    BORN_HOST_V6 = 16
    STORE_HOST_V6 = 32
    NEED_UNWRAP = 64
    INNER_BATCH = 128
    COMPRESSION_MASK = 0x7 << 8
    COMPRESSION_SHIFT = 8


WRAPPED_BATCH = SysFlag.NEED_UNWRAP | SysFlag.INNER_BATCH
MOST_INNER_MESSAGES = (1 << 15) - 1  # INNER_NUM: a batch queue's entry has 16 bits for it


@dataclass(slots=True)
class Message:
    topic: str
    body: bytes
    flag: int = 0
    properties: dict[str, str] = field(default_factory=dict)

    @property
    def tags(self) -> str:
        return self.properties.get(Property.TAGS, "")

    @property
    def keys(self) -> list[str]:
        return self.properties.get(Property.KEYS, "").split()

    @property
    def delay_level(self) -> int:
        """Return the level by which it was delayed last: by its sender, or as a retry; 0 for none."""
        return whole_number(self.properties.get(Property.DELAY), high=INT_MAX) or 0

    @property
    def unique_id(self) -> str | None:
        return self.properties.get(Property.UNIQ_KEY)


@dataclass(slots=True, kw_only=True)
class StoredMessage(Message):
    """A message with what the broker added. `body` is plain (decompressed), `sys_flag` still as it was stored.

    Messages unwrapped from an inner batch share `physical_offset` and `store_size` with the record around them.
    """

    queue_id: int
    queue_offset: int
    physical_offset: int
    store_size: int
    sys_flag: int
    body_crc: int
    born_timestamp: int
    born_host: bytes  # address and port as in the record; ids.host_text shows it
    store_timestamp: int
    store_host: bytes
    reconsume_times: int = 0
    prepared_transaction_offset: int = 0

    @property
    def offset_id(self) -> str:
        """Return the broker's id, which says where the record is."""
        return offset_message_id(self.store_host, self.physical_offset)

    @property
    def message_id(self) -> str:
        """Return the id that users see: the client's own where it gave one."""
        return self.unique_id or self.offset_id
