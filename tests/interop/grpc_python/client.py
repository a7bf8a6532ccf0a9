"""A small application over Apache's gRPC client for Python: sends or consumes through the endpoint given, prints one
marked JSON line with the result, and ends. The commands are those of ../grpc_java/Walk.java."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from rocketmq import (
    ClientConfiguration,
    ConsumeResult,
    Credentials,
    FilterExpression,
    Message,
    MessageListener,
    Producer,
    PushConsumer,
    SimpleConsumer,
    TransactionChecker,
    TransactionResolution,
)

LIMIT_S = float(os.environ.get("CONSUME_LIMIT_S", "60"))
COMMAND, ENDPOINTS, TOPIC, *WORDS = sys.argv[1:]
KEYS = Credentials(os.environ.get("CLIENT_KEY", ""), os.environ.get("CLIENT_SECRET", ""))
CONFIGURATION = ClientConfiguration(ENDPOINTS, KEYS)
IS_TLS = "WALK_TLS" in os.environ


def message(body: str) -> Message:
    one = Message()
    one.topic, one.body, one.keys = TOPIC, body.encode(), f"key_of_{body.replace(' ', '_')}"
    one.add_property("colour", "blue")
    return one


def send(bodies: list[str], dress: Callable[[Message], None]) -> list[str]:
    producer = Producer(CONFIGURATION, (TOPIC,), tls_enable=IS_TLS)
    producer.startup()
    ids = []
    for body in bodies:
        one = message(body)
        dress(one)
        ids.append(producer.send(one).message_id)
    producer.shutdown()
    return ids


class Checker(TransactionChecker):  # type: ignore[misc]
    def __init__(self) -> None:
        self.asked: list[str] = []

    def check(self, message: Message) -> TransactionResolution:
        self.asked.append(message.body.decode())
        return TransactionResolution.COMMIT


def transact(checks: int, bodies: list[str]) -> list[str]:
    checker = Checker()
    producer = Producer(CONFIGURATION, (TOPIC,), checker, tls_enable=IS_TLS)
    producer.startup()
    for body in bodies:
        transaction = producer.begin_transaction()
        producer.send(message(body), transaction)
        if body.startswith("commit"):
            transaction.commit()
        if body.startswith("rollback"):
            transaction.rollback()
    wait_until(lambda: len(checker.asked) >= checks)
    time.sleep(0.5)  # the answer to the last check is on its way
    return checker.asked


def wait_until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + LIMIT_S
    while not is_so() and time.monotonic() < end:
        time.sleep(0.02)


def shown(one: Message) -> dict[str, Any]:
    colour = (one.properties or {}).get("colour", "")
    return {"body": one.body.decode(), "tag": one.tag or "", "attempt": one.delivery_attempt, "colour": colour}


def simple(group: str, tags: str, count: int) -> list[dict[str, Any]]:
    consumer = SimpleConsumer(CONFIGURATION, group, {TOPIC: FilterExpression(tags)}, 5, tls_enable=IS_TLS)
    consumer.startup()
    received: list[dict[str, Any]] = []
    end = time.monotonic() + LIMIT_S
    while len(received) < count and time.monotonic() < end:
        try:
            for one in consumer.receive(16, 20) or ():
                print("got", one.body.decode(), flush=True)
                received.append(shown(one))
                consumer.ack(one)
        except Exception as fault:  # nothing came, or the server is away: it comes back
            print(fault, file=sys.stderr)
            time.sleep(0.2)
    consumer.shutdown()
    return received


class Listener(MessageListener):  # type: ignore[misc]
    def __init__(self, result: ConsumeResult, pause_s: float) -> None:
        self.result, self.pause_s = result, pause_s
        self.received: list[dict[str, Any]] = []
        self._lock = threading.Lock()

    def consume(self, message: Message) -> ConsumeResult:
        print("got", message.body.decode(), flush=True)
        time.sleep(self.pause_s)
        with self._lock:
            self.received.append(shown(message))
        return self.result


def push(group: str, tags: str, count: int, result: ConsumeResult, pause_ms: int = 0) -> list[dict[str, Any]]:
    listener = Listener(result, pause_ms / 1000)
    consumer = PushConsumer(CONFIGURATION, group, listener, {TOPIC: FilterExpression(tags)}, tls_enable=IS_TLS)
    consumer.startup()
    wait_until(lambda: len(listener.received) >= count)
    time.sleep(0.5)  # acks of the last ones are on their way
    return listener.received


def tagged(one: Message) -> None:
    one.tag = WORDS[0]


def grouped(one: Message) -> None:
    one.message_group = WORDS[0]


def delayed(one: Message) -> None:
    one.delivery_timestamp = int(time.time()) + int(WORDS[0]) // 1000


COMMANDS: dict[str, Callable[[], Any]] = {
    "send": lambda: send(WORDS[1:], tagged),
    "fifo": lambda: send(WORDS[1:], grouped),
    "delay": lambda: send(WORDS[1:], delayed),
    "transact": lambda: transact(int(WORDS[0]), WORDS[1:]),
    "simple": lambda: simple(WORDS[0], WORDS[1], int(WORDS[2])),
    "push": lambda: push(WORDS[0], WORDS[1], int(WORDS[2]), ConsumeResult.SUCCESS),
    "slow": lambda: push(WORDS[0], WORDS[1], int(WORDS[2]), ConsumeResult.SUCCESS, int(WORDS[3])),
    "fail": lambda: push(WORDS[0], WORDS[1], int(WORDS[2]), ConsumeResult.FAILURE),
}

try:
    said = {"done": COMMANDS[COMMAND]()}
except Exception as fault:
    said = {"error": f"{type(fault).__name__}: {fault}"}
print(f"@@{json.dumps(said)}", flush=True)
os._exit(0 if "done" in said else 1)
