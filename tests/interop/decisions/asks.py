"""Requests that name what they are about, without our own protocol code: code, header fields and body."""

from __future__ import annotations

import json
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Ask:
    """One request, as it is sent but for its signature. `name` says it in words."""

    name: str
    code: int
    fields: dict[str, str] = field(default_factory=dict)
    body: str = ""


# --- messages ---------------------------------------------------------------------------------------------------------


def send(topic: str, group: str = "producers") -> Ask:
    fields = {"a": group, "b": topic, "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1700000000000", "h": "0"}
    return Ask(f"send to {topic}", 310, fields | {"i": "", "j": "0", "k": "false", "m": "false"}, "x")


def old_send(topic: str, group: str = "producers") -> Ask:
    fields = {"producerGroup": group, "topic": topic, "defaultTopic": "TBW102", "defaultTopicQueueNums": "4"}
    fields |= {"queueId": "0", "sysFlag": "0", "bornTimestamp": "1700000000000", "flag": "0", "properties": ""}
    return Ask(f"send to {topic} as 4.x", 10, fields, "x")


def recall(topic: str) -> Ask:
    return Ask(f"recall from {topic}", 370, {"producerGroup": "producers", "topic": topic, "recallHandle": "x"})


def pull(topic: str, group: str) -> Ask:
    fields = {"consumerGroup": group, "topic": topic, "queueId": "0", "queueOffset": "0", "maxMsgNums": "1"}
    fields |= {"sysFlag": "0", "commitOffset": "0", "suspendTimeoutMillis": "0", "subVersion": "0"}
    return Ask(f"pull {topic} by {group}", 11, fields)


def pop(topic: str, group: str) -> Ask:
    fields = {"consumerGroup": group, "topic": topic, "queueId": "0", "maxMsgNums": "1", "invisibleTime": "30000"}
    fields |= {"pollTime": "0", "bornTime": "1700000000000", "initMode": "0"}
    return Ask(f"pop {topic} by {group}", 200050, fields)


def ack(topic: str, group: str) -> Ask:
    fields = {"consumerGroup": group, "topic": topic, "queueId": "0", "extraInfo": "x", "offset": "0"}
    return Ask(f"ack {topic} by {group}", 200051, fields)


def send_back(group: str) -> Ask:
    return Ask(f"send back to {group}", 36, {"offset": "0", "group": group, "delayLevel": "0"})


def query_message(topic: str) -> Ask:
    fields = {"topic": topic, "key": "k", "maxNum": "1", "beginTimestamp": "0", "endTimestamp": "1700000000000"}
    return Ask(f"query {topic} by key", 12, fields)


# --- groups and offsets -----------------------------------------------------------------------------------------------


def heartbeat(group: str, *topics: str) -> Ask:
    of = [{"topic": topic, "subString": "*", "tagsSet": [], "codeSet": [], "subVersion": 1} for topic in topics]
    consumer: dict[str, object] = {"groupName": group, "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING"}
    consumer |= {"consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET", "unitMode": False}
    consumers = [{**consumer, "subscriptionDataSet": of}]
    body = {"clientID": "c@1", "producerDataSet": [{"groupName": "producers"}], "consumerDataSet": consumers}
    return Ask(f"heartbeat of {group} for {' and '.join(topics)}", 34, {"x": "y"}, json.dumps(body))


def producers_heartbeat() -> Ask:
    body = {"clientID": "c@1", "producerDataSet": [{"groupName": "producers"}], "consumerDataSet": []}
    return Ask("heartbeat of a producer", 34, {"x": "y"}, json.dumps(body))


def unregister(group: str) -> Ask:
    return Ask(f"unregister from {group}", 35, {"clientID": "c@1", "consumerGroup": group})


def members(group: str) -> Ask:
    return Ask(f"members of {group}", 38, {"consumerGroup": group})


def offset(topic: str, group: str) -> Ask:
    return Ask(f"offset of {group} in {topic}", 14, {"consumerGroup": group, "topic": topic, "queueId": "0"})


def commit(topic: str, group: str) -> Ask:
    fields = {"consumerGroup": group, "topic": topic, "queueId": "0", "commitOffset": "0"}
    return Ask(f"commit of {group} in {topic}", 15, fields)


def lock(topic: str, group: str, code: int = 41) -> Ask:
    queues = [{"topic": topic, "brokerName": "broker-a", "queueId": 0}]
    body = {"consumerGroup": group, "clientId": "c@1", "mqSet": queues, "onlyThisBroker": True}
    return Ask(f"{'lock' if code == 41 else 'unlock'} {topic} for {group}", code, {"x": "y"}, json.dumps(body))


def unlock(topic: str, group: str) -> Ask:
    return lock(topic, group, 42)


def max_offset(topic: str) -> Ask:
    return Ask(f"end of {topic}", 30, {"topic": topic, "queueId": "0"})


def min_offset(topic: str) -> Ask:
    return Ask(f"beginning of {topic}", 31, {"topic": topic, "queueId": "0"})


def search_offset(topic: str) -> Ask:
    return Ask(f"offset by time in {topic}", 29, {"topic": topic, "queueId": "0", "timestamp": "0"})


def oldest(topic: str) -> Ask:
    return Ask(f"time of the oldest in {topic}", 32, {"topic": topic, "queueId": "0"})


# --- administration ---------------------------------------------------------------------------------------------------


def create_topic(topic: str) -> Ask:
    fields = {"topic": topic, "defaultTopic": "TBW102", "readQueueNums": "1", "writeQueueNums": "1", "perm": "6"}
    return Ask(f"create topic {topic}", 17, fields | {"topicFilterType": "SINGLE_TAG", "topicSysFlag": "0"})


def delete_topic(topic: str) -> Ask:
    return Ask(f"delete topic {topic}", 215, {"topic": topic})


def topic_stats(topic: str) -> Ask:
    return Ask(f"status of topic {topic}", 202, {"topic": topic})


def topic_config(topic: str) -> Ask:
    return Ask(f"configuration of topic {topic}", 351, {"topic": topic, "lo": "true"})


def consumed_by(topic: str) -> Ask:
    return Ask(f"who consumes {topic}", 300, {"topic": topic})


def group_config(group: str) -> Ask:
    return Ask(f"configuration of group {group}", 352, {"group": group})


def delete_group(group: str) -> Ask:
    return Ask(f"delete group {group}", 207, {"groupName": group, "removeOffset": "false"})


def create_group(group: str) -> Ask:
    return Ask(f"create group {group}", 200, {"x": "y"}, json.dumps({"groupName": group}))


def topics_of(group: str) -> Ask:
    return Ask(f"topics of group {group}", 343, {"group": group})


def progress(group: str, topic: str) -> Ask:
    return Ask(f"progress of {group} in {topic}", 208, {"consumerGroup": group, "topic": topic})


def reset(topic: str, group: str) -> Ask:
    fields = {"topic": topic, "group": group, "timestamp": "0", "isForce": "true", "offset": "-1", "queueId": "-1"}
    return Ask(f"reset {group} in {topic}", 222, fields)


def clone_offsets(source: str, target: str, topic: str) -> Ask:
    fields = {"srcGroup": source, "destGroup": target, "topic": topic, "offline": "false"}
    return Ask(f"clone offsets of {source} to {target} in {topic}", 314, fields)


def time_span(topic: str, group: str) -> Ask:
    return Ask(f"time span of {group} in {topic}", 303, {"topic": topic, "group": group})


def list_users() -> Ask:
    return Ask("list users", 3005, {"filter": ""})


def delete_user() -> Ask:
    return Ask("delete a user", 3003, {"username": "nobody-is-called-so"})


def broker_stats() -> Ask:
    return Ask("statistics of the broker", 315, {"statsName": "x", "statsKey": "y"})


def producers() -> Ask:
    return Ask("all producers", 328, {"x": "y"})


def settings() -> Ask:
    return Ask("settings of the broker", 26, {"x": "y"})


def runtime() -> Ask:
    return Ask("state of the broker", 28, {"x": "y"})
