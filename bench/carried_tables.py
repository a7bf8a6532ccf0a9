"""What tables that ride in the log cost: a new topic, and 10,000 offset commits a second, with and without.

    python bench/carried_tables.py [--seconds 10] [--topics 1000] [--rate 10000] [--pairs 200] [--queues 16]

A lone broker on a real disk, in this process; commits go to its table of offsets, as the handler of request 15 does.
CPU is that of the process, bytes are of the log. Nobody confirms: what the set's other members add is their network.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from pyromq.ambient import SystemClock
from pyromq.broker.config import BrokerConfig
from pyromq.protocol.bodies.topics import TopicConfig
from pyromq.store.files.real_disk import RealDisk
from pyromq.testing.in_process import InProcessBroker
from pyromq.transport.loop import loop_factory

A_SLICE_S = 0.01


async def topics(life: InProcessBroker, count: int) -> str:
    """One after the other, each waited for as an administrator waits."""
    broker = life.broker
    log, begun, cpu = broker.store.commit_log, time.perf_counter(), time.process_time()
    start = log.end
    for number in range(count):
        broker.topics.put(TopicConfig(topic_name=f"BenchTopic{number}", read_queue_nums=8, write_queue_nums=8))
        await broker.tables.topic_save.saved()
    wall, used = time.perf_counter() - begun, time.process_time() - cpu
    written = (log.end - start) / count
    return f"topic {1e6 * wall / count:8.0f} us, CPU {1e6 * used / count:7.0f} us, {written:7.0f} bytes of log"


async def commits(life: InProcessBroker, seconds: float, rate: int, pairs: int, queues: int) -> str:
    broker, done = life.broker, 0
    log, begun, cpu = broker.store.commit_log, time.perf_counter(), time.process_time()
    start = log.end
    while (passed := time.perf_counter() - begun) < seconds:
        while done < passed * rate:
            pair = done % pairs
            broker.offsets.commit(f"BenchTopic{pair % 50}", f"Group{pair}", done // pairs % queues, done)
            done += 1
        await asyncio.sleep(A_SLICE_S)
    used = (time.process_time() - cpu) / seconds
    written = (log.end - start) / seconds
    return f"commits {done / seconds:7.0f} a second, CPU {100 * used:5.2f} %, {written:9.0f} bytes of log a second"


async def measured(arguments: argparse.Namespace, tables_in_log: bool) -> None:
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        config = BrokerConfig(store_path_root_dir=Path(folder), listen_port=0, commit_log_file_bytes=256 << 20)
        disk = RealDisk(Path(folder), create=True)
        life = await InProcessBroker.start(config, clock=SystemClock(), disk=disk, tables_in_log=tables_in_log)
        word = "with   " if tables_in_log else "without"
        print(word, await topics(life, arguments.topics), flush=True)
        await commits(life, 1, arguments.rate, arguments.pairs, arguments.queues)  # all pairs are there then
        print(
            word, await commits(life, arguments.seconds, arguments.rate, arguments.pairs, arguments.queues), flush=True
        )
        if tables_in_log:
            recorder = life.broker.environment.recorder
            assert recorder is not None
            begun = time.perf_counter()
            await recorder.write_snapshot()
            print(f"{word} snapshot {1e3 * (time.perf_counter() - begun):6.1f} ms, {recorder.snapshot_bytes} bytes")
        await life.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--topics", type=int, default=1000)
    parser.add_argument("--rate", type=int, default=10_000)
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--queues", type=int, default=16)
    parser.add_argument("--folder", default="/var/tmp", help="on a disk")
    arguments = parser.parse_args()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        for tables_in_log in (False, True, False, True):
            runner.run(measured(arguments, tables_in_log))


if __name__ == "__main__":
    main()
