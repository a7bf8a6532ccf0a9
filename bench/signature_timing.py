"""How long a wrong signature takes to be refused, by how much of it is right: `python -m bench.signature_timing`.

If it took longer the more of its first characters are right, somebody could guess it one character after the other.
Neither comparison ends early (`is_same_in_constant_time` of `kernel/native/sha1.h`, `hmac.compare_digest` of Python);
this looks whether that can be measured. Signatures that differ from the right one from their first, second, 15th and
last character on are tried in random order, the slowest tenth is left out (others had the processor), and Welch's t
compares each kind with the first. Beyond 4.5 it would count as a leak; run it twice before you believe one. What is
timed is the check alone, without network: who listens to a network sees far less.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import random
import statistics
import string
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
from bench.results import heading  # noqa: E402

from pyromq.access.signatures import SIGNATURE, Signer, is_signed  # noqa: E402
from pyromq.access.users import User  # noqa: E402
from pyromq.ambient import SystemClock  # noqa: E402
from pyromq.broker.config import BrokerConfig  # noqa: E402
from pyromq.broker.wiring.guarding import GuardVerdicts  # noqa: E402
from pyromq.machine.budget import Budget  # noqa: E402
from pyromq.protocol.command import Command, Encoding  # noqa: E402
from pyromq.protocol.frame import encode_frame  # noqa: E402
from pyromq.store.files.real_disk import RealDisk  # noqa: E402
from pyromq.testing.in_process import SMALL_FILES, InProcessBroker  # noqa: E402

USER, SECRET = "shop", "a secret that nobody is to guess"
RIGHT = (0, 1, 14, 27)  # first characters that are right; the last of the 28 is always =
LEAK = 4.5


def send() -> Command:
    fields = {"a": "P", "b": "T", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1700000000000", "h": "0"}
    fields |= {"i": "UNIQ_KEY\x01u\x02", "j": "0", "k": "false"}
    command = Command(code=310, fields=fields, body=b"x" * 128, encoding=Encoding.ROCKETMQ)
    Signer(USER, SECRET).sign(command)
    return command


def wrong(given: str, right: int, chance: random.Random) -> str:
    """A signature whose first characters are right, and the next one is not."""
    letters = string.ascii_letters + string.digits
    first = chance.choice([one for one in letters if one != given[right]])
    rest = "".join(chance.choices(letters, k=len(given) - right - 1))
    return given[:right] + first + rest[:-1] + "=" * bool(rest)


def first_wrong(one: str, other: str) -> int:
    return next((place for place, (a, b) in enumerate(zip(one, other, strict=True)) if a != b), -1)


def t_of(one: list[int], other: list[int]) -> float:
    """Welch's t."""
    spread = statistics.variance(one) / len(one) + statistics.variance(other) / len(other)
    return (statistics.fmean(one) - statistics.fmean(other)) / math.sqrt(spread)


def compare(name: str, tries: int, given: str, prepare: Callable[[str], object], check: Callable[[], object]) -> bool:
    """Print what each kind took; return whether any differs from the first. Many of each kind: each lies elsewhere."""
    chance = random.Random(1)
    took: dict[int, list[int]] = {right: [] for right in RIGHT}
    order = [(right, wrong(given, right, chance)) for right in RIGHT for _ in range(tries)]  # before anything is timed
    chance.shuffle(order)
    clock = time.perf_counter_ns
    for right, signature in order:
        prepare(signature)
        check()  # once for the caches
        began = clock()
        check()
        ended = clock()
        took[right].append(ended - began)
    kept = {right: sorted(times)[: len(times) * 9 // 10] for right, times in took.items()}
    worst = 0.0
    for right, times in kept.items():
        t = t_of(times, kept[0]) if right else 0.0
        worst = max(worst, abs(t))
        mean, middle = statistics.fmean(times), statistics.median(times)
        print(f"{name:8}{right:4} right  mean {mean:9.1f} ns  median {middle:7.0f}  t {t:6.2f}", flush=True)
    print(f"{name:8}{'a difference' if worst > LEAK else 'no difference'} (largest |t| {worst:.2f}, {tries} of each)")
    return worst > LEAK


class Peer:
    """What a guard looks at of a connection."""

    notes: Any = None
    address, identity = "127.0.0.1:50000", None
    unfinished_sends = unfinished = 0
    answers_later = True


async def native(tries: int) -> None:
    """The guard of a broker whose kernel is native: it leaves such a frame to Python, which is not timed here."""
    made: list[Any] = []

    begin = GuardVerdicts.__init__

    def noted(self: GuardVerdicts, *arguments: Any) -> None:
        begin(self, *arguments)
        made.append(self.kernel)

    with tempfile.TemporaryDirectory() as folder, patch.object(GuardVerdicts, "__init__", noted):
        settings: dict[str, Any] = SMALL_FILES | {
            "broker_name": "b",
            "listen_port": 0,
            "store_path_root_dir": Path(folder),
            "authentication_enabled": True,
            "init_authentication_user": '{"username":"boss","password":"another secret"}',
        }
        config = BrokerConfig(**settings)
        disk = RealDisk(Path(folder), create=True)
        life = await InProcessBroker.start(
            config, clock=SystemClock(), disk=disk, budget=Budget(memory_bytes=1 << 34), audit=None
        )
        life.broker.base.access.table.directory.create(User(USER, (SECRET,)))
        feed, peer, command = made[0].feed, Peer(), send()
        given, frame = command.fields[SIGNATURE], bytearray(encode_frame(command))
        at, view = frame.index(given.encode()), memoryview(frame)

        def prepare(signature: str) -> None:
            frame[at : at + len(given)] = signature.encode()

        prepare(wrong(given, 0, random.Random(2)))
        assert feed(peer, view).used == 0  # it is left to Python
        compare("native", tries, given, prepare, lambda: feed(peer, view))
        await life.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tries", type=int, default=200_000, help="of each kind")
    tries = parser.parse_args().tries
    heading("signatures by how much of them is right", "python -m bench.signature_timing")
    command = send()
    given = command.fields[SIGNATURE]

    def prepare(signature: str) -> None:
        command.fields[SIGNATURE] = signature

    # One that ends at the first wrong character, to see that a difference would be seen.
    compare("leaky", tries // 10, given, prepare, lambda: first_wrong(given, command.fields[SIGNATURE]))
    compare("python", tries, given, prepare, lambda: is_signed(command, (SECRET,)))
    asyncio.run(native(tries))


if __name__ == "__main__":
    main()
