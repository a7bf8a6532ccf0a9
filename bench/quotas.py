"""A noisy neighbour: what a producer at ten times its quota costs another one, and what quotas cost who has none.

    python -m bench.quotas            # about a minute

One broker. A steady producer sends 200 messages a second one after the other, and the time of each is taken: alone,
beside a neighbour who sends to another broker (what the machine alone makes of it), beside one without a quota, beside
one whose sends are counted (a quota of every address that nobody reaches),
and beside one with a quota on his topic at a tenth of what he tries. The p99 beside the neighbour with a quota, by that
alone, is the row; rounds alternate, and the medians of the rounds count. The broker's CPU is that of all it did in a
row, by the time that passed: it tells what refusals cost where the machine is too busy for latencies.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import statistics
import sys
import time
from multiprocessing.synchronize import Event
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench.servers import Server, our_broker, scratch  # noqa: E402

from pyromq.ambient import SystemClock, system_random  # noqa: E402
from pyromq.protocol.bodies.own import QuotaChange  # noqa: E402
from pyromq.protocol.command import Command  # noqa: E402
from pyromq.protocol.headers.admin import QuotaName  # noqa: E402
from pyromq.protocol.requests import RequestCode  # noqa: E402
from pyromq.transport.client import RemotingClient  # noqa: E402

ROUNDS, ROUND_S, PACE_S = 5, 2.0, 0.005
QUOTA, TRIED, BURST = 500, 5_000, 50  # messages a second; at once
BODY = b"x" * 1024
QUOTAS = ("topic:noisy", "address:*")
HERE, ELSEWHERE = 0, 1  # where the neighbour sends to
ROWS: tuple[tuple[str, int | None, dict[str, int]], ...] = (
    ("alone", None, {"topic:noisy": QUOTA}),
    ("elsewhere", ELSEWHERE, {}),
    ("free", HERE, {}),
    ("counted", HERE, {"address:*": 1_000_000}),
    ("quota", HERE, {"topic:noisy": QUOTA, "address:*": 1_000_000}),
)


def send(topic: str) -> Command:
    fields = {"a": "P", "b": topic, "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1700000000000", "h": "0"}
    return Command(code=RequestCode.SEND_MESSAGE_V2, fields=fields | {"i": "UNIQ_KEY\x01U\x02"}, body=BODY)


def client() -> RemotingClient:
    return RemotingClient(clock=SystemClock(), rng=system_random())


def neighbour(addresses: list[str], on: list[Event], over: Event) -> None:
    asyncio.run(_noise(addresses, on, over))


async def _noise(addresses: list[str], on: list[Event], over: Event) -> None:
    """Send `TRIED` messages a second to each broker whose event is set, taken or not, answered or not."""
    talks, step = client(), 0.01
    due = time.perf_counter()
    waiting = set[asyncio.Task[object]]()
    while not over.is_set():
        due = max(due + step, time.perf_counter() - 1)
        for address, is_on in zip(addresses, on, strict=True):
            if is_on.is_set() and len(waiting) < TRIED:
                waiting |= {asyncio.ensure_future(talks.call(address, send("noisy"), 10)) for _ in range(BURST)}
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        done = {each for each in waiting if each.done()}
        await asyncio.gather(*done, return_exceptions=True)
        waiting -= done
    for each in waiting:
        each.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    await talks.close()


async def steady(talks: RemotingClient, address: str) -> list[float]:
    taken, end = [], time.perf_counter() + ROUND_S
    while (begun := time.perf_counter()) < end:
        answer = await talks.call(address, send("steady"), 10)
        assert answer.code == 0, answer.remark
        taken.append((time.perf_counter() - begun) * 1000)
        await asyncio.sleep(max(0.0, PACE_S - (time.perf_counter() - begun)))
    return taken


async def set_quotas(talks: RemotingClient, address: str, wanted: dict[str, int]) -> None:
    """Have these quotas of messages sent, and no others."""
    for kind, name in (whom.split(":") for whom in QUOTAS):
        most = wanted.get(f"{kind}:{name}")
        if most is not None:
            change = QuotaChange(kind=kind, name=name, limits={"sendMessages": most})
            command = Command(code=RequestCode.SET_QUOTA, body=RequestCode.SET_QUOTA.takes.write_body(change))
        else:
            command = Command(code=RequestCode.DELETE_QUOTA, fields=QuotaName(kind=kind, name=name).to_fields())
        await talks.call(address, command, 10)


async def measure(broker: Server, on: list[Event]) -> dict[str, list[tuple[float, float]]]:
    """Return p99 and the broker's CPU (1: a core) of each row's rounds."""
    talks, address = client(), broker.address
    found: dict[str, list[tuple[float, float]]] = {}
    await steady(talks, address)
    for _ in range(ROUNDS):
        for name, where, wanted in ROWS:
            await set_quotas(talks, address, wanted)
            for place, each in enumerate(on):
                (each.set if place == where else each.clear)()
            await asyncio.sleep(0.5)
            spent, begun = broker.cpu_us(), time.perf_counter()
            p99 = statistics.quantiles(await steady(talks, address), n=100)[98]
            cpu = (broker.cpu_us() - spent) / 1e6 / (time.perf_counter() - begun)
            found.setdefault(name, []).append((p99, cpu))
    for each in on:
        each.clear()
    await talks.close()
    return found


def main() -> None:
    with scratch() as folder, our_broker(folder / "a") as broker, our_broker(folder / "b") as other:
        spawn = multiprocessing.get_context("spawn")
        on, over = [spawn.Event(), spawn.Event()], spawn.Event()
        process = spawn.Process(target=neighbour, args=([broker.address, other.address], on, over))
        process.start()
        try:
            found = asyncio.run(measure(broker, on))
        finally:
            over.set()
            process.join()
    p99 = {name: statistics.median(one for one, _ in each) for name, each in found.items()}
    cpu = {name: statistics.median(one for _, one in each) for name, each in found.items()}
    print("| p99 of a steady producer | ms | by alone | CPU of the broker |\n|---|---|---|---|")
    for name, words in (
        ("alone", "alone"),
        ("elsewhere", f"while another broker gets {TRIED} messages a second"),
        ("free", f"beside {TRIED} messages a second"),
        ("counted", f"beside {TRIED} messages a second that are counted"),
        ("quota", f"beside {TRIED} tried, with a quota of {QUOTA}"),
    ):
        print(f"| {words} | {p99[name]:.2f} | {p99[name] / p99['alone']:.2f} | {cpu[name]:.0%} |")


if __name__ == "__main__":
    main()
