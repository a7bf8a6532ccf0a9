"""Every kind of message under random kill -9 of the broker, with a ledger that knows what must come of each.

Real processes and real time: a name server, a broker that is killed and started again, raw producers, our SDK's
consumers. Plain, ordered, delayed, timed, transactional, retried and dead messages at once; the rules are in
`kinds_ledger.py`, faults on purpose in `kinds_broker.py`.

    python -m tests.crash.kinds --minutes 10 [--seed N] [--fault NAME]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from random import Random

from tests.crash.kinds_clients import LEVELS_S, Consumers, Producers, now_ms
from tests.crash.kinds_ledger import Ledger, Outage
from tests.interop.peers import ours
from tests.interop.peers.process import Program, ProgramFailed

ROOT = Path(__file__).parents[2]
RETRY_WAITS_MS = {n: LEVELS_S[n + 1] * 1000 for n in range(1, 5)}  # the first retry waits for level 3
SETTINGS = {
    "messageDelayLevel": " ".join(f"{seconds}s" for seconds in LEVELS_S),
    "flushConsumerOffsetInterval": "200",
    "flushDelayOffsetInterval": "500",
    "transactionCheckInterval": "1000",
    "transactionTimeOut": "500",
    "transactionCheckMax": "100000",
    "mappedFileSizeCommitLog": str(1 << 20),
}


class FaultyBroker(ours.Broker):
    """Our broker by way of `kinds_broker`, so that it may have a fault."""

    fault = "none"

    def _started(self) -> Program:
        command: list[str | Path] = [sys.executable, "-m", "tests.crash.kinds_broker", self.fault, "-c", self.conf]
        env = {"HOME": str(self.home), "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}"}
        program = Program(command, name="pyromq broker", env=env, cwd=self.home)
        try:
            program.wait_for(r"pyromq broker ready on ")
        except ProgramFailed:
            program.kill()
            raise
        return program


@dataclass(slots=True)
class Plan:
    seconds: float
    seed: int = 1
    fault: str = "none"
    kill_every_s: tuple[float, float] | None = (3.0, 25.0)
    least_kills: int = 0  # however long that takes on a busy machine
    patience_s: float = 20.0  # without anything new before the rest is given up as lost


async def kill_again_and_again(broker: ours.Broker, ledger: Ledger, rng: Random, plan: Plan) -> None:
    """Until the time is over; the broker runs then."""
    end = time.monotonic() + plan.seconds
    while plan.kill_every_s is not None:
        pause = rng.uniform(*plan.kill_every_s)
        if time.monotonic() + pause > end and len(ledger.outages) >= plan.least_kills:
            break
        await asyncio.sleep(pause)
        outage = Outage(now_ms(), now_ms() + 3_600_000)
        ledger.outages.append(outage)
        await asyncio.to_thread(broker.kill)
        await asyncio.sleep(rng.choice([0, rng.uniform(0, 1)]))
        await asyncio.to_thread(broker.restart)
        outage.back_ms = now_ms()
    await asyncio.sleep(max(0.0, end - time.monotonic()))


async def drain(ledger: Ledger, consumers: Consumers, patience_s: float) -> None:
    """Until everything has ended as it should, or nothing new has come for a while."""
    seen, since = -1, time.monotonic()
    while True:
        await consumers.read_dead_letters()
        progress = ledger.handled + sum(map(len, ledger.dead.values()))
        if progress != seen:
            seen, since = progress, time.monotonic()
        if not ledger.open() or time.monotonic() - since > patience_s:
            break
        await asyncio.sleep(0.1)
    await asyncio.sleep(1.5)  # what comes twice, or although it was rolled back, needs time to come
    await consumers.read_dead_letters()
    await consumers.count_stored()


async def run(folder: Path, plan: Plan) -> tuple[list[str], dict[str, object]]:
    """Broken promises, and figures."""
    rng = Random(plan.seed)
    ledger = Ledger(RETRY_WAITS_MS)
    async with AsyncExitStack() as stack:
        name_server = await asyncio.to_thread(ours.NameServer, folder / "names")
        stack.callback(name_server.kill)
        kind = type("Broker", (FaultyBroker,), {"fault": plan.fault})
        broker = await asyncio.to_thread(kind, folder / "broker", [name_server.address], SETTINGS)
        stack.callback(lambda: broker.kill())
        producers = Producers(ledger, broker.address, rng, has_timers=False)
        stack.push_async_callback(producers.caller.close)
        producers.has_timers = await takes_timers(producers)
        consumers = Consumers(ledger, producers)
        await consumers.start(stack, name_server.address)
        tasks = [asyncio.create_task(task()) for task in producers.tasks()]
        await kill_again_and_again(broker, ledger, rng, plan)
        for task in tasks[:-1]:  # all but the heartbeats, which the checks of transactions need
            task.cancel()
        await asyncio.gather(*tasks[:-1], return_exceptions=True)
        await drain(ledger, consumers, plan.patience_s)
        tasks[-1].cancel()
        await asyncio.gather(tasks[-1], return_exceptions=True)
    return ledger.problems(), ledger.figures()


async def takes_timers(producers: Producers) -> bool:
    properties = {"TIMER_DELIVER_MS": str(now_ms() + 100)}
    return await producers.send("probe", 0, "probe", properties) is not None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--fault", default="none")
    wanted = parser.parse_args()
    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryDirectory(prefix="pyromq-kinds-") as folder:
        plan = Plan(wanted.minutes * 60, wanted.seed, wanted.fault)
        problems, figures = asyncio.run(run(Path(folder), plan))
    print(json.dumps(figures, indent=2))
    for problem in problems[:50]:
        print(problem)
    if problems:
        print(f"{len(problems)} promises were broken")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    os.chdir(ROOT)
    main()
