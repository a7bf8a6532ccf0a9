"""A broker that is scraped, and a little of everything that may happen to it."""

from __future__ import annotations

from typing import Any

from pyromq.metrics.settings import Exporter
from pyromq.protocol.bodies.heartbeat import ConsumerData, HeartbeatData, ProducerData, SubscriptionData
from pyromq.protocol.requests import RequestCode
from tests.broker.running import Running

PROM: dict[str, Any] = {"metrics_exporter_type": Exporter.PROM, "metrics_prom_exporter_port": 0}


def address_of(broker: Running) -> str:
    address = broker.broker.metering.exporting.address
    assert address
    return address


async def beat(broker: Running, client: str, tags: str = "*") -> None:
    wanted = SubscriptionData(topic="T", sub_string=tags)
    data = HeartbeatData(
        client_id=client,
        producer_data_set=[ProducerData(group_name="P")],
        consumer_data_set=[ConsumerData(group_name="G", subscription_data_set=[wanted])],
    )
    await broker.call(RequestCode.HEART_BEAT, RequestCode.HEART_BEAT.takes.write_body(data))


async def use(broker: Running) -> None:
    """Send, pull, commit, give up, end transactions, let messages wait, and ask for what is not there."""
    await broker.call(
        RequestCode.UPDATE_AND_CREATE_TOPIC,
        topic="T",
        defaultTopic="TBW102",
        readQueueNums=4,
        writeQueueNums=4,
        perm=6,
        topicFilterType="SINGLE_TAG",
        topicSysFlag=0,
        order=False,
    )
    group = b'{"groupName":"H","consumeEnable":true}'
    await broker.call(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, group)
    await broker.send()
    await broker.send(properties={"__SHARDINGKEY": "a", "UNIQ_KEY": "U2"})
    await broker.send(properties={"TIMER_DELAY_MS": "0", "UNIQ_KEY": "U3"})
    await broker.send(properties={"TIMER_DELAY_SEC": "600", "UNIQ_KEY": "U4"})
    await beat(broker, "c1")
    await broker.pull()
    await broker.call(RequestCode.UPDATE_CONSUMER_OFFSET, consumerGroup="G", topic="T", queueId=0, commitOffset=1)
    await broker.call(RequestCode.CONSUMER_SEND_MSG_BACK, offset=0, group="G", delayLevel=-1, originTopic="T")
    for unique, end in (("U5", 8), ("U6", 12)):
        half = {"TRAN_MSG": "true", "PGROUP": "P", "UNIQ_KEY": unique}
        answer = await broker.send(properties=half, sysFlag=4)
        await broker.call(
            RequestCode.END_TRANSACTION,
            producerGroup="P",
            tranStateTableOffset=answer.fields["queueOffset"],
            commitLogOffset=int(answer.fields["msgId"][16:], 16),
            commitOrRollback=end,
            fromTransactionCheck=False,
            msgId=unique,
        )
    await broker.broker.timing.timers.round()
    await broker.send(properties={"TRAN_MSG": "true", "PGROUP": "P", "UNIQ_KEY": "U7"}, sysFlag=4)
    await broker.call(RequestCode.GET_TOPIC_STATS_INFO, topic="no-such-topic")
