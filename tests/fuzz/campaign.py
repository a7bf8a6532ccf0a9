"""Structure-aware fuzzing of a live broker or name server, with a canary beside it. CI runs a share (test_fuzz.py).

    python -m tests.fuzz.campaign --frames 100000 --seed 1 --kernel native --target broker

Frames go out in bursts over a few connections, and the canary makes its rounds meanwhile. At the end the daemons must
stop cleanly, the store must verify, and a restart must still have what the canary sent. Burst n of a seed draws from
its own random numbers; the frames of a burst that went wrong are written to a file that `--replay FILE` sends again.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.fuzz.fire import Campaign
from tests.fuzz.frames import Made
from tests.fuzz.lines import Broken


def read_frames(file: Path) -> list[Made]:
    lines = (line.split() for line in file.read_text().splitlines())
    return [Made(bytes.fromhex(wire), int(code)) for code, wire in lines]


@contextmanager
def _folder(keep: bool) -> Iterator[Path]:
    if keep:
        yield Path(tempfile.mkdtemp(prefix="fuzz-campaign-"))
        return
    with tempfile.TemporaryDirectory(prefix="fuzz-campaign-") as folder:
        yield Path(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kernel", choices=["native", "python"], default="native")
    parser.add_argument("--target", choices=["broker", "namesrv"], default="broker")
    parser.add_argument("--secured", action="store_true", help="the daemons ask who everybody is, and judge him")
    parser.add_argument("--stop-at-fault", action="store_true", help="end at the first traceback in a log")
    parser.add_argument("--keep", action="store_true", help="leave the folder with stores and logs")
    parser.add_argument("--replay", type=Path, help="send the frames of this file, one at a time, and nothing else")
    wanted = parser.parse_args()
    with _folder(wanted.keep) as folder:
        print(f"folder {folder}", flush=True)
        flags = {"stop_at_fault": wanted.stop_at_fault, "secured": wanted.secured}
        campaign = Campaign(folder, wanted.target, wanted.kernel, wanted.seed, **flags)
        replay = None if wanted.replay is None else read_frames(wanted.replay)
        try:
            done = asyncio.run(campaign.run(0 if replay is not None else wanted.frames, replay))
        except Broken as fault:
            sys.exit(f"BROKEN after {campaign.result.frames} frames: {fault}")
    answers = f"{done.answers} answers, {done.refused} of them refusals"
    print(f"{done.frames} frames, {answers}, {done.rounds} rounds of the canary, faults: {done.faults}")
    sys.exit(1 if done.faults else 0)


if __name__ == "__main__":
    main()
