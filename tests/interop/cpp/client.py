"""A small application over the C++ client: send messages with a tag, or consume those of some tags.

Runs in a process of its own with PyPI's `rocketmq` 0.4.4 on the path, which ours never has. Prints one marked JSON
line with the result.

    client.py send NAMESERVER TOPIC TAG BODY...
    client.py delay NAMESERVER TOPIC LEVEL BODY...
    client.py consume NAMESERVER TOPIC GROUP TAGS COUNT

CLIENT_KEY and CLIENT_SECRET sign its requests, CONSUME_LIMIT_S is how long it waits for messages.
"""

import json
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

from rocketmq.client import Message, Producer, PushConsumer

LIMIT_S = float(os.environ.get("CONSUME_LIMIT_S", "30"))


def sign(client: Producer | PushConsumer) -> None:
    if "CLIENT_KEY" in os.environ:
        client.set_session_credentials(os.environ["CLIENT_KEY"], os.environ["CLIENT_SECRET"], "")


def send(name_server: str, topic: str, tag: str, *bodies: str, level: int = 0) -> list[dict[str, Any]]:
    producer = Producer("PG_cpp")
    producer.set_namesrv_addr(name_server)
    sign(producer)
    producer.start()
    sent = []
    for body in bodies:
        message = Message(topic)
        message.set_tags(tag)
        message.set_keys(body)
        message.set_body(body)
        if level:
            message.set_delay_time_level(level)
        result = producer.send_sync(message)
        sent.append({"status": result.status.name, "offset": result.offset})
    return sent


def consume(name_server: str, topic: str, group: str, tags: str, count: str) -> list[dict[str, str]]:
    consumer = PushConsumer(group)
    consumer.set_namesrv_addr(name_server)
    sign(consumer)
    received: list[dict[str, str]] = []
    enough = threading.Event()

    def take(message: Any) -> None:
        received.append({"body": message.body.decode(), "tag": message.tags.decode()})
        if len(received) >= int(count):
            enough.set()

    consumer.subscribe(topic, take, tags)
    consumer.start()
    enough.wait(LIMIT_S)
    consumer.shutdown()
    return received


def delay(name_server: str, topic: str, level: str, *bodies: str) -> list[dict[str, Any]]:
    return send(name_server, topic, "TagA", *bodies, level=int(level))


def main() -> None:
    command, *words = sys.argv[1:]
    answer: dict[str, Any]
    try:
        commands: dict[str, Callable[..., Any]] = {"send": send, "delay": delay, "consume": consume}
        answer = {"done": commands[command](*words)}
    except Exception as failure:
        answer = {"error": str(failure)}
    print("@@" + json.dumps(answer), flush=True)
    os._exit(0)  # the library's own shutdown may wait for its heartbeat


main()
