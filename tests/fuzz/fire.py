"""One campaign: a name server and a broker, one of them under fire, the canary beside it, and what is checked.

`campaign.py` runs it by hand, `test_fuzz.py` in CI. A failure names the seed, the burst and a file of the last frames.

What could rightly hurt the canary is kept away from it: its topic, group, client, broker and KV names are in no list of
`values.py` (so nobody deletes, forbids, wipes, unregisters or resets them), settings are hostile only while it rests
(`settings_story.py`, which names those that are never touched), and what retention took is not asked for at the end.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import tempfile
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

from pyromq.broker.surface import SERVED as BY_BROKERS
from pyromq.protocol.requests import ROWS
from pyromq.protocol.row import ServedBy
from tests.fuzz.canary import Canary
from tests.fuzz.daemons import Daemon, Folder, free_port, verify
from tests.fuzz.frames import Made, Mint
from tests.fuzz.lines import Broken, Line, connect
from tests.fuzz.sequences import REPAIRS, STORIES
from tests.fuzz.settings_story import settings
from tests.fuzz.signers import SETTINGS, Signers
from tests.fuzz.story import Story
from tests.fuzz.values import World

LINES = 6
BURST = 100  # frames of one burst, besides those of its stories
LINE_FRAMES = 400  # then a connection is made anew
LEFT_OPEN = 40  # connections that wait for the rest of a frame
KEPT = 4000  # frames that a failure shows
MEMORY_BYTES = (2 << 30) if "asan" in os.environ.get("LD_PRELOAD", "") else 512 << 20  # that a daemon may grow by
DESCRIPTORS = 400  # the same: 128 queue files, and what else rolls
LOG_BYTES = 512 << 20  # of the commit log, which is held to 256 MiB: retention goes on

SERVED = {
    "broker": [code for code, row in ROWS.items() if row.by in BY_BROKERS],
    "namesrv": [code for code, row in ROWS.items() if row.by is ServedBy.NAME_SERVER],
}


@dataclass
class Result:
    """What a campaign did. `faults` are the different tracebacks, each with the file of its burst."""

    frames: int = 0
    answers: int = 0
    refused: int = 0  # of these: who sent it may not
    rounds: int = 0
    bursts: int = 0
    faults: dict[str, str] = field(default_factory=dict)


class Campaign:
    """One target under fire."""

    def __init__(
        self,
        folder: Path,
        target: str,
        kernel: str,
        seed: int,
        *,
        stop_at_fault: bool = True,
        secured: bool = False,
    ) -> None:
        """`secured`: the daemons ask everybody who he is, and judge him."""
        self._folder = Folder(folder)
        self._target = target
        self._seed = seed
        self._stop_at_fault = stop_at_fault
        self._world = World(self._folder.outside)
        self._secured = SETTINGS if secured else {}
        rng = random.Random(seed)
        signers = Signers(rng, self._world) if secured else None
        self._mint = Mint(rng, self._world, SERVED[target], signers)
        kept: dict[str, object] = {"kvConfigPath": folder / "kv" / "kvConfig.json"}
        self._namesrv = Daemon("namesrv", folder, kernel, **kept, **self._secured)
        self._broker: Daemon
        self._kernel = kernel
        self._lines: list[Line] = []
        self._left: list[Line] = []
        self._last: deque[Made] = deque(maxlen=KEPT)
        self._burst_frames: list[Made] = []
        self.result = Result()

    async def run(self, frames: int, replay: list[Made] | None = None) -> Result:
        """Broken says what went wrong and where the last frames are."""
        try:
            self._start()
            await self._fire(frames, replay)
            await self._finish()
        except Broken as fault:
            raise Broken(f"{fault}\nseed {self._seed}, burst {self.result.bursts}: {self._keep()}") from None
        finally:
            for daemon in self._daemons():
                daemon.kill()
        return self.result

    def _daemons(self) -> list[Daemon]:
        return [self._namesrv, *([self._broker] if hasattr(self, "_broker") else [])]

    def _start(self) -> None:
        self._namesrv.start()
        told: dict[str, object] = {"namesrvAddr": self._namesrv.address, "storePathRootDir": self._folder.store}
        told["fastListenPort"] = free_port()
        limits = {"maxLogBytes": 256 << 20, "cleanResourceInterval": 1000, "firstRoundMs": 1000}
        self._broker = Daemon("broker", self._folder.root, self._kernel, **told, **limits, **self._secured)
        self._broker.start()

    @property
    def _under_fire(self) -> Daemon:
        return self._broker if self._target == "broker" else self._namesrv

    # -- firing -------------------------------------------------------------------------------------------------------

    async def _fire(self, frames: int, replay: list[Made] | None) -> None:
        self._canary = Canary(self._broker.address, self._namesrv.address, is_asked=bool(self._secured))
        try:
            await self._canary.prepare()
            await self._canary.round()
            before = self._under_fire.memory_bytes(), self._under_fire.descriptors()
            if replay is not None:
                await self._replay(replay)
            began = said = time.monotonic()
            while self.result.frames < frames:
                await self._burst()
                if time.monotonic() - said > 10:
                    said = time.monotonic()
                    rate, memory = self.result.frames / (said - began), self._under_fire.memory_bytes()
                    self._say(f"{rate:.0f} frames/s, {memory >> 20} MiB")
            await self._close_lines()
            await self._canary.round()
            self._say(f"requests that held the broker's loop: {await self._canary.loop_holds()}")
            self._check_growth(*before)
        finally:
            await self._canary.close()

    async def _burst(self) -> None:
        self.result.bursts += 1
        self._mint.rng.seed(f"{self._seed}:{self.result.bursts}")
        self._burst_frames = []
        if self.result.bursts % 20 == 0:
            await self._with_hostile_settings()
        else:
            canary = asyncio.create_task(self._canary.round()) if self.result.bursts % 4 == 1 else None
            try:
                await self._wild()
            finally:
                if canary is not None:
                    await canary
                    self.result.rounds += 1
        self._look()

    async def _wild(self) -> None:
        """Frames and stories over all connections, answered before the next burst."""
        rng = self._mint.rng
        lines = [await self._line(number) for number in range(LINES)]
        stories = [*rng.choices(STORIES[self._target], k=4), *(REPAIRS[self._target] if rng.random() < 0.3 else ())]
        for story in reversed(stories):
            await story(Story(_Noted(self, self._mint), rng.choice(lines)))
        for _ in range(BURST):
            (await self._line(rng.randrange(LINES))).send(self._note(self._mint.frame()))
        await asyncio.gather(*(line.settle() for line in self._lines))

    async def _with_hostile_settings(self) -> None:
        line = await self._connect()
        await settings(Story(_Noted(self, self._mint), line), self._target, self._connect)
        line.close()

    async def _line(self, number: int) -> Line:
        while len(self._lines) <= number:
            self._lines.append(await self._connect())
        line = self._lines[number]
        if not line.is_open or line.sent > LINE_FRAMES:
            self._leave(line)
            line = self._lines[number] = await self._connect()
        return line

    def _leave(self, line: Line) -> None:
        """Close the connection, or the oldest of those that are left open with half a frame."""
        self.result.answers += line.answers
        self.result.refused += line.refused
        if line.is_left:
            self._left.append(line)
            line = self._left[0]
        if line not in self._left or len(self._left) > LEFT_OPEN:
            line.close()
            self._left = [one for one in self._left if one is not line]

    async def _connect(self) -> Line:
        address, fast = self._under_fire.address, self._under_fire.fast_address
        if fast is not None and self._mint.rng.random() < 0.15:
            address = fast
        try:
            return await connect(address, self._mint.rng, self._world)
        except OSError as fault:
            self._under_fire.check_alive()
            raise Broken(f"cannot connect: {fault}") from None

    async def _close_lines(self) -> None:
        for line in (*self._lines, *self._left):
            line.close()
        self.result.answers += sum(line.answers for line in self._lines)
        self.result.refused += sum(line.refused for line in self._lines)
        self._lines, self._left = [], []

    async def _replay(self, frames: list[Made]) -> None:
        """One frame at a time, with a look at the log behind each."""
        for number, made in enumerate(frames):
            line = await self._connect()
            self._burst_frames = [made]
            line.send(self._note(made))
            await line.settle()
            line.close()
            for text in self._look():
                self._say(f"frame {number}, code {made.code}: {made.wire[:2000]!r}\n{text}")

    def _note(self, made: Made) -> Made:
        self.result.frames += 1
        self._last.append(made)
        self._burst_frames.append(made)
        return made

    # -- looking ------------------------------------------------------------------------------------------------------

    def _look(self) -> list[str]:
        """Lines of the logs that must not be there. Broken if a daemon is gone, or at the first line if so wanted."""
        found = []
        for daemon in self._daemons():
            daemon.check_alive()
            found += daemon.new_faults()
        for text in found:
            if (mark := _signature(text)) not in self.result.faults:
                self.result.faults[mark] = self._keep(self._burst_frames)
                self._say(f"FAULT {mark}\n{text}\nburst {self.result.bursts}: {self.result.faults[mark]}")
        if found and self._stop_at_fault:
            raise Broken(found[0])
        return found

    def _check_growth(self, memory: int, descriptors: int) -> None:
        grown = self._under_fire.memory_bytes() - memory, self._under_fire.descriptors() - descriptors
        slowest = f"the canary waited {self._canary.slowest_s:.2f} s at most"
        self._say(f"grown by {grown[0] >> 20} MiB and {grown[1]} descriptors; {slowest}")
        if grown[0] > MEMORY_BYTES or grown[1] > DESCRIPTORS:
            raise Broken(f"the {self._target} grew by {grown[0] >> 20} MiB and {grown[1]} descriptors")
        log = sum(one.stat().st_blocks << 9 for one in (self._folder.store / "commitlog").iterdir())
        if log > LOG_BYTES:
            raise Broken(f"retention does not go on: the commit log has {log >> 20} MiB")

    async def _finish(self) -> None:
        """A clean stop, a store that verifies, a restart that serves what was there; no file anywhere else."""
        for daemon in (self._broker, self._namesrv):
            daemon.stop()
        self._look_after_stop()
        verify(self._folder)
        for daemon in (self._namesrv, self._broker):
            daemon.start()
        self._canary.moved(self._broker.address, self._namesrv.address)
        try:
            await self._canary.check_kept()
            await self._canary.round()
        finally:
            await self._canary.close()
        for daemon in (self._broker, self._namesrv):
            daemon.stop()
        self._look_after_stop()
        if strays := self._folder.strays():
            raise Broken(f"files where none should be: {strays[:10]}")

    def _look_after_stop(self) -> None:
        found = [text for daemon in self._daemons() for text in daemon.new_faults()]
        for text in found:
            self.result.faults.setdefault(_signature(text), "at the stop or the restart")
        if found and self._stop_at_fault:
            raise Broken(found[0])

    def _keep(self, frames: list[Made] | None = None) -> str:
        """The file with these frames, or with the last ones of all."""
        file = Path(tempfile.mkstemp(prefix=f"fuzz-{self._target}-{self._seed}-", suffix=".frames")[1])
        file.write_text("".join(f"{made.code} {made.wire.hex()}\n" for made in frames or self._last))
        return str(file)

    def _say(self, text: str) -> None:
        done = self.result
        print(f"{self._target} {self._kernel} {done.frames} frames, canary {done.rounds}: {text}", flush=True)


class _Noted(Mint):
    """The campaign's mint for stories: each frame is noted as it is made."""

    def __init__(self, campaign: Campaign, mint: Mint) -> None:
        self.__dict__.update(mint.__dict__)
        self._campaign = campaign
        self._mint = mint

    def request(self, code: int, body: bytes | None = None, odd: float = 0.75, **known: object) -> Made:
        return self._campaign._note(self._mint.request(code, body, odd, **known))

    def frame(self) -> Made:
        return self._campaign._note(self._mint.frame())


def _signature(text: str) -> str:
    """The exception and the last place in our code, so that a thousand of one kind count once."""
    places = re.findall(r'File "[^"]*/(src/pyromq/[^"]+)", line (\d+)', text)
    last = re.sub(r"'[^']*'|\d+", "_", text.strip().splitlines()[-1])[:120]
    return f"{':'.join(places[-1]) if places else '?'} {last}"
