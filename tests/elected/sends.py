"""A send as a request, without a client."""

from __future__ import annotations

from pyromq.protocol.command import Command
from pyromq.protocol.requests import RequestCode


def send_of(topic: str) -> Command:
    """Return the request of a send of one byte."""
    fields = {"producerGroup": "P", "topic": topic, "defaultTopic": "TBW102", "defaultTopicQueueNums": "4"}
    fields |= {"queueId": "0", "sysFlag": "0", "bornTimestamp": "1700000000000", "flag": "0", "properties": ""}
    return Command(RequestCode.SEND_MESSAGE.code, fields=fields, body=b"x")
