"""Cost of decoding and encoding frames, as a ratio to a plain `msgspec.json.decode` of the same header in the same run.

    python bench/frame.py [--seconds 0.5]

Ratios, not times, are what to compare between machines and between commits.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from pyromq.model.client_info import Language
from pyromq.protocol.command import Command, Encoding, decode_header, encode_header
from pyromq.protocol.frame import decode_frames, encode_frame
from pyromq.protocol.headers.pull import PullMessage
from pyromq.protocol.headers.send import SendMessageV2

MANY = 64
SEND = SendMessageV2(
    producer_group="PID_bench",
    topic="BenchTopic",
    default_topic="TBW102",
    default_topic_queue_nums=4,
    queue_id=1,
    sys_flag=0,
    born_timestamp=1_794_769_118_114,
    flag=0,
    properties="KEYS\x01order-4711\x02UNIQ_KEY\x01C000020240734E0E2F2A4C2B876B0125\x02WAIT\x01true\x02TAGS\x01TagA\x02",
    reconsume_times=0,
    unit_mode=False,
    batch=False,
    bname="broker-a",
)
PULL = PullMessage(
    consumer_group="GID_bench",
    topic="BenchTopic",
    queue_id=1,
    queue_offset=1234,
    max_msg_nums=32,
    sys_flag=6,
    commit_offset=0,
    suspend_timeout_millis=15_000,
    subscription="*",
    sub_version=1_794_769_118_114,
    expression_type="TAG",
)
SAMPLES = {
    "send": Command(code=310, opaque=7, language=Language.JAVA, fields=SEND.to_fields(), body=b"x" * 128),
    "pull": Command(code=11, opaque=8, language=Language.JAVA, fields=PULL.to_fields()),
    "answer": Command(code=0, opaque=7, flag=1, fields={"msgId": "7F00", "queueId": "1", "queueOffset": "42"}),
}


def nanoseconds(call: Callable[[], Any], seconds: float) -> float:
    """The best of several rounds: what the machine's other work adds is not ours."""
    rounds, best = 5, float("inf")
    count = 1000
    while _timed(call, count) < seconds / rounds / 4:
        count *= 2
    for _ in range(rounds):
        best = min(best, _timed(call, count) / count)
    return best * 1e9


def _timed(call: Callable[[], Any], count: int) -> float:
    start = time.process_time()  # CPU time: a busy neighbour does not count
    for _ in range(count):
        call()
    return time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=0.5, help="per figure")
    seconds = parser.parse_args().seconds
    kinds = {"send": SendMessageV2, "pull": PullMessage}
    print(f"{'sample':<8}{'encoding':<10}{'what':<22}{'ns':>8}{'ratio':>8}")
    for name, sample in SAMPLES.items():
        base = nanoseconds(partial(msgspec.json.decode, encode_header(sample)), seconds)
        print(f"{name:<8}{'':<10}{'msgspec.json.decode':<22}{base:>8.0f}{1:>8.2f}")
        for encoding in Encoding:
            command = msgspec.structs.replace(sample, encoding=encoding)
            for what, call in _calls(command, kinds.get(name)).items():
                cost = nanoseconds(call, seconds) / (MANY if "many" in what else 1)
                print(f"{name:<8}{encoding.name:<10}{what:<22}{cost:>8.0f}{cost / base:>8.2f}")


def _calls(command: Command, kind: Any) -> dict[str, Callable[[], Any]]:
    header, frame, many = encode_header(command), encode_frame(command), encode_frame(command) * MANY
    calls: dict[str, Callable[[], Any]] = {
        "decode_header": lambda: decode_header(command.encoding, header, 1024),
        "encode_header": lambda: encode_header(command),
        "encode_frame": lambda: encode_frame(command),
        "decode_frames, one": lambda: decode_frames(frame),
        "decode_frames, many": lambda: decode_frames(many),
    }
    if kind is not None:
        calls["typed header"] = lambda: kind.from_fields(command.fields)
        typed = kind.from_fields(command.fields)
        calls["typed header to fields"] = typed.to_fields
    return calls


if __name__ == "__main__":
    main()
