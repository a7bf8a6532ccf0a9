"""Messages to Arrow one by one: for inner batches, whose records hold many, and among bad records.

The slow way, and the oracle of tests. One that cannot be read has no body.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ...model.ids import host_text
from ...model.message import Property, StoredMessage
from ...protocol.messages import UnreadableMessage
from ..schema import COLUMNS, timestamps

_VALUES: dict[str, Callable[[StoredMessage], Any]] = {
    "topic": lambda each: each.topic or None,
    "queueId": lambda each: each.queue_id,
    "queueOffset": lambda each: each.queue_offset,
    "msgId": lambda each: each.message_id,
    "keys": lambda each: each.properties.get(Property.KEYS),
    "tags": lambda each: each.properties.get(Property.TAGS),
    "body": lambda each: None if isinstance(each, UnreadableMessage) else each.body,
    "properties": lambda each: list(each.properties.items()),
    "flag": lambda each: each.flag,
    "sysFlag": lambda each: each.sys_flag,
    "bornTimestamp": lambda each: each.born_timestamp,
    "bornHost": lambda each: host_text(each.born_host),
    "storeTimestamp": lambda each: each.store_timestamp,
    "storeHost": lambda each: host_text(each.store_host),
    "reconsumeTimes": lambda each: each.reconsume_times,
    "commitLogOffset": lambda each: each.physical_offset,
    "storeSize": lambda each: each.store_size,
}


def messages_to_batch(messages: Sequence[StoredMessage], schema: pa.Schema, broker_name: str | None) -> pa.RecordBatch:
    arrays = []
    for field in schema:
        kind = COLUMNS[field.name][0]
        if field.name == "brokerName":
            array = pa.array([broker_name] * len(messages), kind)
        elif pa.types.is_timestamp(kind):
            array = timestamps(np.array([_VALUES[field.name](each) for each in messages], np.int64))
        else:
            array = pa.array([_VALUES[field.name](each) for each in messages], kind)
        arrays.append(array if array.type.equals(field.type) else array.cast(field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
