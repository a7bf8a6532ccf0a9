"""Short stories whose later frames use what the earlier ones were answered: places, offsets, handles, settings.

Each is a coroutine over one connection. Single frames rarely get past "no such topic"; these reach what lies behind.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import Any

from pyromq.protocol.requests import RequestCode as C
from tests.fuzz import values
from tests.fuzz.story import Story, place_of


async def transaction(story: Story) -> None:
    """A half message, then its end with offsets that are right, or nearly, or not at all."""
    topic, group = story.rng.choice(values.TOPICS), story.rng.choice(values.GROUPS)
    story.tell(C.HEART_BEAT, odd=0.1)
    marks: dict[str, Any] = {"TRAN_MSG": "true", "PGROUP": group}
    if story.rng.random() < 0.5:
        name = story.rng.choice(
            ("CHECK_IMMUNITY_TIME_IN_SECONDS", "TRANSACTION_CHECK_TIMES", "TRAN_PREPARED_QUEUE_OFFSET")
        )
        marks[name] = values.hostile(story.rng, story.mint.world)[:200]
    half = await story.put(topic, sysFlag=4, producerGroup=group, **marks)
    if half is None or (place := place_of(half)) is None:
        return
    nearly = story.rng.choice((0, 0, 0, 1, -1, 1 << 40))
    known: dict[str, Any] = {
        "producerGroup": group,
        "tranStateTableOffset": half.fields.get("queueOffset", "0"),
        "commitLogOffset": place + nearly,
        "commitOrRollback": story.rng.choice((8, 12, 0, 4)),
        "topic": topic,
    }
    for _ in range(story.rng.choice((1, 1, 2))):
        story.tell(C.END_TRANSACTION, **known)
    story.tell(C.RESUME_CHECK_HALF_MESSAGE, topic=topic, msgId=half.fields["msgId"])


async def consume(story: Story) -> None:
    """A heartbeat, then everything that a member of a group asks."""
    topic, group, client = (story.rng.choice(one) for one in (values.TOPICS, values.GROUPS, values.CLIENTS))
    await story.put(topic)
    subscription: dict[str, Any] = {"topic": topic, "subString": "*", "subVersion": 1, "tagsSet": [], "codeSet": []}
    member: dict[str, Any] = {"groupName": group, "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING"}
    member |= {"consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET", "subscriptionDataSet": [subscription]}
    beat: dict[str, Any] = {"clientID": client, "consumerDataSet": [member], "producerDataSet": [{"groupName": group}]}
    await story.ask(C.HEART_BEAT, values.json_bytes(beat))
    where: dict[str, Any] = {"topic": topic, "consumerGroup": group, "queueId": 0}
    ends = await story.ask(C.GET_MAX_OFFSET, **where)
    end = 0 if ends is None else int(ends.fields.get("offset", "0"))
    for _ in range(3):
        at = max(0, end + story.rng.choice((-1, -3, 0, 1, 100)))
        story.tell(
            C.PULL_MESSAGE, queueOffset=at, suspendTimeoutMillis=300, sysFlag=story.rng.choice((2, 6, 7)), **where
        )
    queue = {"topic": topic, "brokerName": "canary-broker", "queueId": 0}
    locked = values.json_bytes({"clientId": client, "consumerGroup": group, "mqSet": [queue]})
    story.tell(C.LOCK_BATCH_MQ, locked)
    for code in story.rng.sample(ABOUT_GROUPS, 5):
        story.tell(code, group=group, clientId=client, clientID=client, **where)
    story.tell(C.UNLOCK_BATCH_MQ, locked)
    if story.rng.random() < 0.5:
        story.tell(C.UNREGISTER_CLIENT, clientID=client, consumerGroup=group)


ABOUT_GROUPS: tuple[int, ...] = (
    *(C.GET_CONSUMER_LIST_BY_GROUP, C.UPDATE_CONSUMER_OFFSET, C.QUERY_CONSUMER_OFFSET, C.GET_CONSUMER_CONNECTION_LIST),
    *(C.GET_CONSUMER_RUNNING_INFO, C.CONSUME_MESSAGE_DIRECTLY, C.GET_CONSUME_STATS, C.QUERY_TOPIC_CONSUME_BY_WHO),
    *(C.INVOKE_BROKER_TO_RESET_OFFSET, C.CLONE_GROUP_OFFSET, C.QUERY_SUBSCRIPTION_BY_CONSUMER, C.CHECK_CLIENT_CONFIG),
)


async def topic_life(story: Story) -> None:
    """Create a topic, pull from it with a wait, delete it meanwhile, create it again smaller."""
    story.mint.world.tick += 1
    topic = f"fuzz-short-{story.mint.world.tick % 30}"
    known: dict[str, Any] = {
        "topic": topic,
        "perm": 6,
        "readQueueNums": 4,
        "writeQueueNums": 4,
        "topicFilterType": "SINGLE_TAG",
    }
    kind = story.rng.choice(("", "", "+queue.type=BatchCQ", "+cleanup.policy=COMPACTION", "+message.type=FIFO"))
    await story.ask(C.UPDATE_AND_CREATE_TOPIC, odd=0.1, attributes=kind, **known)
    await story.put(topic, queueId=story.rng.randrange(4))
    story.tell(C.SEND_BATCH_MESSAGE, topic=topic, queueId=0, sysFlag=story.rng.choice((0, 64, 128, 192)), batch="true")
    where: dict[str, Any] = {"topic": topic, "consumerGroup": story.rng.choice(values.GROUPS)}
    for queue in range(4):
        story.tell(C.PULL_MESSAGE, queueId=queue, queueOffset=1, suspendTimeoutMillis=1500, sysFlag=2, **where)
    story.tell(C.UPDATE_CONSUMER_OFFSET, queueId=0, commitOffset=1, **where)
    story.tell(C.DELETE_TOPIC_IN_BROKER, topic=topic)
    await story.put(topic, queueId=3)
    if story.rng.random() < 0.7:
        smaller: dict[str, Any] = known | {"readQueueNums": 1, "writeQueueNums": 1}
        await story.ask(C.UPDATE_AND_CREATE_TOPIC, **smaller)
        story.tell(C.GET_TOPIC_STATS_INFO, topic=topic)
    if story.rng.random() < 0.6:
        story.tell(C.DELETE_TOPIC_IN_BROKER, topic=topic)


async def retries(story: Story) -> None:
    """A message sent back by its place, with times and levels of all kinds."""
    group = story.rng.choice(values.GROUPS)
    topic = story.rng.choice((*values.TOPICS[:4], f"%RETRY%{group}", f"%RETRY%{group}"))
    times = story.rng.choice((0, 0, 3, 15, 16, 2147483646, 2147483647, -1))
    answer = await story.put(topic, reconsumeTimes=times, maxReconsumeTimes=story.rng.choice((16, 2147483647)))
    if answer is None or (place := place_of(answer)) is None:
        return
    level = story.rng.choice((0, 1, 2, -1, 99))
    for times in story.rng.sample((0, 1, 16, 2147483647, -1), 2):
        known: dict[str, Any] = {"offset": place, "group": group, "delayLevel": level, "maxReconsumeTimes": times}
        story.tell(C.CONSUMER_SEND_MSG_BACK, **known)
    retry: dict[str, Any] = {"topic": f"%RETRY%{group}", "reconsumeTimes": story.rng.choice((0, 3, 15, 16, 2147483647))}
    story.tell(C.SEND_MESSAGE, maxReconsumeTimes=story.rng.choice((0, 16, 2147483647)), **retry)


async def delays(story: Story) -> None:
    """Delayed and timed messages with hostile times beside them, and recalls of these."""
    rng = story.rng
    name = rng.choice(("DELAY", "TIMER_DELAY_MS", "TIMER_DELAY_SEC", "TIMER_DELIVER_MS"))
    time = rng.choice(("1", "2", "300", "1500", values.hostile(rng, story.mint.world)[:6000]))
    marks: dict[str, Any] = {name: time}
    if rng.random() < 0.5:
        marks[rng.choice(TIMER_MARKS)] = values.hostile(rng, story.mint.world)[:6000]
    if rng.random() < 0.05:
        marks["padding"] = "x" * rng.choice((32_000, 32_500, 32_600))
    topic = rng.choice(values.TOPICS)
    answer = await story.put(topic, **marks)
    handle = None if answer is None else answer.fields.get("recallHandle")
    if handle is not None:
        story.tell(C.RECALL_MESSAGE, topic=topic, recallHandle=handle)


TIMER_MARKS = (
    *("TIMER_OUT_MS", "TIMER_ENQUEUE_MS", "TIMER_DEQUEUE_MS", "TIMER_ROLL_TIMES", "TIMER_DEL_UNIQKEY", "REAL_TOPIC"),
    *("REAL_QID", "DELAY", "TIMER_DELAY_LEVEL", "RETRY_TOPIC", "INNER_MULTI_DISPATCH", "INNER_NUM", "PYRO_DEAD_MS"),
)


async def replies(story: Story) -> None:
    """A client that waits for a reply, and replies to it."""
    client = story.rng.choice(values.CLIENTS)
    beat: dict[str, Any] = {
        "clientID": client,
        "consumerDataSet": [],
        "producerDataSet": [{"groupName": values.GROUPS[0]}],
    }
    await story.ask(C.HEART_BEAT, values.json_bytes(beat))
    pairs: dict[str, Any] = {
        "REPLY_TO_CLIENT": client,
        "CORRELATION_ID": "1",
        "MSG_TYPE": "reply",
        "CLUSTER": "DefaultCluster",
    }
    text = "".join(f"{name}\x01{value}\x02" for name, value in pairs.items())
    for code in (C.SEND_REPLY_MESSAGE, C.SEND_REPLY_MESSAGE_V2):
        story.tell(code, topic="DefaultCluster_REPLY_TOPIC", properties=text)


async def searches(story: Story) -> None:
    """Messages that exist, by key, place and time."""
    topic = story.rng.choice(values.TOPICS)
    answer = await story.put(topic)
    world = story.mint.world
    story.tell(C.QUERY_MESSAGE, topic=topic, key=world.keys[-1])
    story.tell(C.VIEW_MESSAGE_BY_ID, topic=topic, offset=world.places[-1])
    story.tell(C.QUERY_CONSUME_QUEUE, topic=topic, queueId=0, index=world.offsets[-1], count=10)
    if answer is not None:
        story.tell(C.SEARCH_OFFSET_BY_TIMESTAMP, topic=topic, queueId=0)


async def filters(story: Story) -> None:
    """A group that filters by SQL92 or by tags, with expressions that are right, nearly right or endless."""
    topic, group, client = (story.rng.choice(one) for one in (values.TOPICS, values.GROUPS, values.CLIENTS))
    await story.put(topic, TAGS="a", _a=values.hostile(story.rng, story.mint.world)[:2000], _b="7")
    kind = story.rng.choice(("SQL92", "SQL92", "TAG", "nonsense"))
    text = (
        _expression(story.rng, 0) if kind != "TAG" else "||".join(f"t{n}" for n in range(story.rng.choice((1, 3, 400))))
    )
    if story.rng.random() < 0.3:
        text = values.hostile(story.rng, story.mint.world)[:40_000]
    subscription: dict[str, Any] = {
        "topic": topic,
        "subString": text,
        "expressionType": kind,
        "subVersion": story.rng.choice((1, 2, 9)),
    }
    member: dict[str, Any] = {
        "groupName": group,
        "consumeType": "CONSUME_PASSIVELY",
        "subscriptionDataSet": [subscription],
    }
    await story.ask(C.HEART_BEAT, values.json_bytes({"clientID": client, "consumerDataSet": [member]}))
    story.tell(C.CHECK_CLIENT_CONFIG, values.json_bytes({"group": group, "subscriptionData": subscription}))
    known: dict[str, Any] = {
        "topic": topic,
        "consumerGroup": group,
        "queueId": 0,
        "queueOffset": 0,
        "suspendTimeoutMillis": 0,
    }
    for flag in (4, 0):  # 4: the expression comes with the pull
        story.tell(C.PULL_MESSAGE, odd=0.1, sysFlag=flag, subscription=text, expressionType=kind, subVersion=1, **known)


COMPARISONS = ("=", "<>", ">", "<=", "CONTAINS", "STARTSWITH", "NOT ENDSWITH", "==")


def _expression(rng: random.Random, depth: int) -> str:
    """SQL92 of RocketMQ's kind, with hostile constants in it."""
    name = rng.choice(("_a", "_b", "TAGS", "KEYS", "nothing", "a b", "\u00e9"))
    constant = rng.choice(
        ("1", "-1", "1.5", "'x'", "'%'", "9" * 400, "1e400", "TRUE", "NULL", "''", "'" + "y" * 3000 + "'")
    )
    if depth > 4 or rng.random() < 0.4:
        return rng.choice(
            (
                f"{name} {rng.choice(COMPARISONS)} {constant}",
                f"{name} BETWEEN {constant} AND 7",
                f"{name} IN ({', '.join([constant] * rng.choice((1, 3, 300)))})",
                f"{name} IS NOT NULL",
            )
        )
    word = rng.choice((" AND ", " OR "))
    parts = [_expression(rng, depth + 1) for _ in range(rng.choice((1, 2, 2, 5)))]
    return rng.choice(("({})", "NOT ({})", "(({}", "{}")).format(word.join(parts).replace("{", "").replace("}", ""))


async def registration(story: Story) -> None:
    """A broker of the name server: registered, asked about, without its write permission, gone."""
    known: dict[str, Any] = {
        "brokerName": story.rng.choice(values.BROKERS),
        "clusterName": story.rng.choice(values.CLUSTERS),
    }
    known |= {"brokerAddr": f"127.0.0.1:{story.rng.randrange(1, 9)}", "brokerId": story.rng.choice((0, 0, 1))}
    await story.ask(C.REGISTER_BROKER, odd=0.15, **known)
    for code in story.rng.sample(ABOUT_BROKERS, 4):
        story.tell(code, **known)
    if story.rng.random() < 0.6:
        story.tell(C.UNREGISTER_BROKER, **known)


ABOUT_BROKERS: tuple[int, ...] = (
    *(C.BROKER_HEARTBEAT, C.QUERY_DATA_VERSION, C.GET_BROKER_MEMBER_GROUP, C.GET_BROKER_CLUSTER_INFO),
    *(C.WIPE_WRITE_PERM_OF_BROKER, C.ADD_WRITE_PERM_OF_BROKER, C.GET_ROUTEINFO_BY_TOPIC, C.GET_TOPICS_BY_CLUSTER),
    *(C.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, C.REGISTER_TOPIC_IN_NAMESRV, C.DELETE_TOPIC_IN_NAMESRV),
)


async def kv(story: Story) -> None:
    """Entries put, read, listed and deleted."""
    known: dict[str, Any] = {"namespace": "fuzz-space", "key": f"k{story.rng.randrange(20)}"}
    await story.ask(C.PUT_KV_CONFIG, value=values.hostile(story.rng, story.mint.world)[:2000], **known)
    for code in (C.GET_KV_CONFIG, C.GET_KVLIST_BY_NAMESPACE, C.DELETE_KV_CONFIG):
        story.tell(code, **known)


async def repair(story: Story) -> None:
    """Make a topic anew that other frames have left without permission, with few queues or for one kind of message."""
    topic = story.rng.choice(values.TOPICS)
    known: dict[str, Any] = {
        "topic": topic,
        "perm": 6,
        "readQueueNums": 8,
        "writeQueueNums": 8,
        "topicFilterType": "SINGLE_TAG",
    }
    await story.ask(C.DELETE_TOPIC_IN_BROKER, odd=0, topic=topic)
    await story.ask(C.UPDATE_AND_CREATE_TOPIC, odd=0, attributes="", order="false", **known)


Tell = Callable[[Story], Awaitable[None]]
STORIES: dict[str, tuple[Tell, ...]] = {
    "broker": (
        *(transaction, transaction, consume, consume, topic_life, retries, delays, delays, replies, searches, filters),
    ),
    "namesrv": (registration, registration, kv),
}
REPAIRS: dict[str, tuple[Tell, ...]] = {"broker": (repair,), "namesrv": ()}
