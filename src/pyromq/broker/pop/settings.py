"""The settings of popping, with Java's keys.

They stand between those of the store and those of the broker, which inherits both.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...config import setting
from ...store.config import StoreConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class PopSettings(StoreConfig):
    """All may be changed while running, but for what sizes a table."""

    pop_polling_size: int = setting(1024, low=0, live=True, help="pops of one group, topic and queue that may wait")
    max_pop_polling_size: int = setting(100_000, low=0, live=True, help="pops that may wait in all, then POLLING_FULL")
    pop_from_retry_probability: int = setting(
        20, low=0, high=100, live=True, help="percent of the pops that look into the retry topic first"
    )
    pop_from_retry_probability_for_priority: int = setting(
        0, low=0, high=100, live=True, help="the same for topics of type PRIORITY"
    )
    priority_order_asc: bool = setting(True, live=True, help="the higher number is the more urgent priority")
    enable_retry_topic_v2: bool = setting(
        False, java="enableRetryTopicV2", live=True, help="retry topics of popped messages are named group+topic"
    )
    retrieve_message_from_pop_retry_topic_v1: bool = setting(
        True,
        java="retrieveMessageFromPopRetryTopicV1",
        live=True,
        help="look into retry topics of the older form too",
    )
    use_separate_retry_queue: bool = setting(
        False, live=True, help="a message goes to the queue of the retry topic that has its queue's number"
    )
    pop_response_return_actual_retry_topic: bool = setting(
        False, live=True, help="messages of a retry topic are handed out with its name, not with that of their topic"
    )
    init_pop_offset_by_check_msg_in_mem: bool = setting(
        True, live=True, help="a new group that begins at the end reads a young topic from its first message"
    )
    revive_queue_num: int = setting(8, low=1, high=1024, help="queues of the revive topic; never fewer than before")
    revive_interval: int = setting(
        1_000, low=100, live=True, help="ms until stored check points whose messages could not be put are tried again"
    )
    skip_when_ck_re_put_reach_max_times: bool = setting(
        False,
        java="skipWhenCKRePutReachMaxTimes",
        live=True,
        help="give a message up that could not be given again for 17 tries, up to two hours apart",
    )
    pop_ck_stay_buffer_time: int = setting(
        10_000, low=0, live=True, help="ms, then an open check point leaves memory as a record of the log"
    )
    pop_table_bytes: int = setting(64 << 20, low=1 << 20, wide=True, help="bytes of open check points in memory")
    pop_waits_for_flush: bool = setting(
        True, live=True, help="under SYNC_FLUSH a pop is answered once it is on the medium, as an ack always is"
    )
    pop_order_by_group: bool = setting(
        False, live=True, help="order pops hold message groups (sharding keys) instead of whole queues; ours alone"
    )
    enable_notify_after_pop_order_lock_release: bool = setting(
        True, live=True, help="wake pops that wait on a queue in order when the time of its messages is over"
    )
    use_message_filter_for_notification: bool = setting(
        True, live=True, help="compare a notification's tags with the messages that wait, if they are few"
    )
    max_message_filter_num_for_notification: int = setting(64, low=0, live=True, help="how many are few")
    enable_pop_message_threshold: bool = setting(
        False, live=True, help="hand out nothing more of a queue with too many unacknowledged messages"
    )
    pop_inflight_message_threshold: int = setting(10_000, low=0, live=True, wide=True, help="how many are too many")
