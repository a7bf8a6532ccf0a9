"""Topics as they are configured, and static-topic mappings: which broker holds which logical queue."""

from __future__ import annotations

from ...model.topic import Perm
from ..ints import Int32, Int64
from .body import Body, DataVersion, always, always_new

GLOBAL_SCOPE = "__global__"


class TopicConfig(Body, kw_only=True):
    attributes: dict[str, str] = always_new(dict)
    order: bool = always(False)
    perm: Int32 = always(Perm.READ_WRITE)
    read_queue_nums: Int32 = always(16)
    topic_filter_type: str = always("SINGLE_TAG")  # or MULTI_TAG
    topic_name: str = ""
    topic_sys_flag: Int32 = always(0)
    write_queue_nums: Int32 = always(16)


class LogicQueueMappingItem(Body, kw_only=True):
    """A stretch of a logical queue: from `logic_offset` on it lives in `queue_id` of broker `bname`."""

    bname: str = ""
    end_offset: Int64 = always(-1)
    gen: Int32 = always(0)
    logic_offset: Int64 = always(0)
    queue_id: Int32 = always(0)
    start_offset: Int64 = always(0)
    time_of_end: Int64 = always(-1)
    time_of_start: Int64 = always(-1)


class TopicQueueMappingInfo(Body, kw_only=True):
    """What routes need of a static topic: logical queue id to physical queue id, for one broker."""

    bname: str = ""
    curr_id_map: dict[Int32, Int32] = always_new(dict)
    dirty: bool = always(False)
    epoch: Int64 = always(0)
    scope: str = always(GLOBAL_SCOPE)
    topic: str = ""
    total_queues: Int32 = always(0)


class TopicQueueMappingDetail(TopicQueueMappingInfo, kw_only=True):
    hosted_queues: dict[Int32, list[LogicQueueMappingItem]] = always_new(dict)  # the whole history of each queue


class TopicConfigAndQueueMapping(TopicConfig, kw_only=True):
    mapping_detail: TopicQueueMappingDetail | None = None  # where the topic is static


class TopicConfigAndMappingSerializeWrapper(Body, kw_only=True):
    """All topics of a broker; those of 4.x have no static-topic mappings."""

    data_version: DataVersion = always_new(DataVersion)
    mapping_data_version: DataVersion = always_new(DataVersion)
    topic_config_table: dict[str, TopicConfig] = always_new(dict)
    topic_queue_mapping_detail_map: dict[str, TopicQueueMappingDetail] = always_new(dict)
    topic_queue_mapping_info_map: dict[str, TopicQueueMappingInfo] = always_new(dict)


class TopicList(Body, kw_only=True):
    broker_addr: str | None = None
    topic_list: list[str] = always_new(list)


class CreateTopicListRequestBody(Body, kw_only=True):
    topic_config_list: list[TopicConfig] = always_new(list)


class TopicRemappingDetailWrapper(Body, kw_only=True):
    """The file in which mqadmin keeps a static topic's mapping before and after a change."""

    broker_config_map: dict[str, TopicConfigAndQueueMapping] = always_new(dict)
    broker_to_map_in: list[str] = always_new(list)
    broker_to_map_out: list[str] = always_new(list)
    epoch: Int64 = always(0)
    topic: str | None = None
    type: str | None = None
