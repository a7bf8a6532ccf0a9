"""The C++ client's part of bench/client.py: NAMESRV SECONDS FILLED. Runs where PyPI's `rocketmq` 0.4.4 is on the path.

It has no asynchronous send, so threads send: its calls leave the interpreter's lock. Its handler is called by native
threads of its own.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import threading
import time
from pathlib import Path

from rocketmq.client import Message, Producer, PushConsumer

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from bench.measure.latency import latency

TOPIC = "ClientBench"
BODY = b"x" * 1024
IN_FLIGHT = 64


def send_until(producer: Producer, until: float) -> list[float]:
    took: list[float] = []
    now = time.perf_counter()
    while now < until:
        message = Message(TOPIC)
        message.set_body(BODY)
        producer.send_sync(message)
        end = time.perf_counter()
        took.append(end - now)
        now = end
    return took


def one_by_one(producer: Producer, seconds: float) -> dict[str, float]:
    cpu = time.process_time()
    took = send_until(producer, time.perf_counter() + seconds)
    return latency(took, time.process_time() - cpu)


def many(producer: Producer, seconds: float) -> dict[str, float]:
    counts: list[int] = []
    cpu, began = time.process_time(), time.perf_counter()

    def work() -> None:
        counts.append(len(send_until(producer, began + seconds)))

    threads = [threading.Thread(target=work) for _ in range(IN_FLIGHT)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took, used = time.perf_counter() - began, time.process_time() - cpu
    return {"send_s": sum(counts) / took, "send_cpu_us": used / sum(counts) * 1e6}


def oneway(producer: Producer, seconds: float) -> dict[str, float]:
    count, cpu, began = 0, time.process_time(), time.perf_counter()
    while time.perf_counter() < began + seconds:
        message = Message(TOPIC)
        message.set_body(BODY)
        producer.send_oneway(message)
        count += 1
    took, used = time.perf_counter() - began, time.process_time() - cpu
    return {"oneway_s": count / took, "oneway_cpu_us": used / count * 1e6}


def read(address: str, filled: int) -> dict[str, float]:
    consumer, enough = PushConsumer(f"bench_cpp_{time.time_ns()}"), threading.Event()
    numbers, marks = itertools.count(1), []
    consumer.set_namesrv_addr(address)

    def handle(message: object) -> None:
        number = next(numbers)  # one step of the interpreter: threads do not get in between
        if number == 1 or number == filled:
            marks.append((time.perf_counter(), time.process_time()))
            if number == filled:
                enough.set()

    consumer.subscribe(f"{TOPIC}Read", handle)
    consumer.start()
    if not enough.wait(120):
        raise SystemExit(f"the C++ client read {next(numbers) - 1} of {filled} messages in 120 s")
    took, used = marks[1][0] - marks[0][0], marks[1][1] - marks[0][1]
    return {"read_s": filled / took, "read_cpu_us": used / filled * 1e6}


def main() -> None:
    address, seconds, filled = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
    producer = Producer("bench_cpp")
    producer.set_namesrv_addr(address)
    producer.start()
    one_by_one(producer, min(seconds, 1.0))
    found = one_by_one(producer, seconds) | many(producer, seconds) | read(address, filled) | oneway(producer, seconds)
    print("@@" + json.dumps(found), flush=True)
    os._exit(0)  # the library's own shutdown may wait for its heartbeat


if __name__ == "__main__":
    main()
