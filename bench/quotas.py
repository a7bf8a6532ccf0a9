"""A noisy neighbour: what a producer at ten times its quota costs another one, and what quotas cost who has none.

    python -m bench.quotas            # some 40 s

One broker. A steady producer sends 200 messages a second one after the other, and the time of each is taken: alone,
beside a neighbour without a quota, and beside one with a quota on his topic at a tenth of what he tries. The p99 beside
the neighbour with a quota, by that alone, is the row; rounds alternate, and the medians of the rounds count.
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

from bench.servers import our_broker, scratch  # noqa: E402

from pyromq.ambient import SystemClock, system_random  # noqa: E402
from pyromq.protocol.bodies.own import QuotaChange  # noqa: E402
from pyromq.protocol.command import Command  # noqa: E402
from pyromq.protocol.headers.admin import QuotaName  # noqa: E402
from pyromq.protocol.requests import RequestCode  # noqa: E402
from pyromq.transport.client import RemotingClient  # noqa: E402

ROUNDS, ROUND_S, PACE_S = 5, 2.0, 0.005
QUOTA, TRIED = 500, 5_000  # messages a second
BODY = b"x" * 1024


def send(topic: str) -> Command:
    fields = {"a": "P", "b": topic, "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1700000000000", "h": "0"}
    return Command(code=RequestCode.SEND_MESSAGE_V2, fields=fields | {"i": "UNIQ_KEY\x01U\x02"}, body=BODY)


def client() -> RemotingClient:
    return RemotingClient(clock=SystemClock(), rng=system_random())


def neighbour(address: str, on: Event, over: Event) -> None:
    asyncio.run(_noise(address, on, over))


async def _noise(address: str, on: Event, over: Event) -> None:
    """Send `TRIED` messages a second while `on` is set, taken or not."""
    talks, step = client(), 0.01
    due = time.perf_counter()
    while not over.is_set():
        due = max(due + step, time.perf_counter() - 1)
        if on.is_set():
            many = (talks.call(address, send("noisy"), 10) for _ in range(int(TRIED * step)))
            await asyncio.gather(*many, return_exceptions=True)
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
    await talks.close()


async def steady(talks: RemotingClient, address: str) -> list[float]:
    taken, end = [], time.perf_counter() + ROUND_S
    while (begun := time.perf_counter()) < end:
        answer = await talks.call(address, send("steady"), 10)
        assert answer.code == 0, answer.remark
        taken.append((time.perf_counter() - begun) * 1000)
        await asyncio.sleep(max(0.0, PACE_S - (time.perf_counter() - begun)))
    return taken


async def set_quota(talks: RemotingClient, address: str, *, wanted: bool) -> None:
    if wanted:
        body = RequestCode.SET_QUOTA.takes.write_body(
            QuotaChange(kind="topic", name="noisy", limits={"sendMessages": QUOTA})
        )
        command = Command(code=RequestCode.SET_QUOTA, body=body)
    else:
        fields = QuotaName(kind="topic", name="noisy").to_fields()
        command = Command(code=RequestCode.DELETE_QUOTA, fields=fields)
    await talks.call(address, command, 10)


async def measure(address: str, on: Event) -> dict[str, list[float]]:
    talks = client()
    p99: dict[str, list[float]] = {}
    await steady(talks, address)
    for _ in range(ROUNDS):
        for name, noisy, limited in (("alone", False, True), ("free", True, False), ("quota", True, True)):
            await set_quota(talks, address, wanted=limited)
            (on.set if noisy else on.clear)()
            await asyncio.sleep(0.5)
            p99.setdefault(name, []).append(statistics.quantiles(await steady(talks, address), n=100)[98])
    on.clear()
    await talks.close()
    return p99


def main() -> None:
    with scratch() as folder, our_broker(folder) as broker:
        spawn = multiprocessing.get_context("spawn")
        on, over = spawn.Event(), spawn.Event()
        process = spawn.Process(target=neighbour, args=(broker.address, on, over))
        process.start()
        try:
            p99 = asyncio.run(measure(broker.address, on))
        finally:
            over.set()
            process.join()
    median = {name: statistics.median(each) for name, each in p99.items()}
    print("| p99 of a steady producer | ms | by alone |\n|---|---|---|")
    for name, words in (
        ("alone", "alone"),
        ("free", f"beside {TRIED} messages a second"),
        ("quota", f"beside {TRIED} tried, with a quota of {QUOTA}"),
    ):
        print(f"| {words} | {median[name]:.2f} | {median[name] / median['alone']:.2f} |")


if __name__ == "__main__":
    main()
