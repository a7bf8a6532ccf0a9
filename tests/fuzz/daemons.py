"""A name server and a broker as processes in a folder of their own, watched from outside: log, memory, files.

folder/store  folder/kv        what they keep          folder/outside   hostile paths lead here: it must stay empty
folder/home   folder/cwd       must stay empty         folder/*.log     standard error
"""

from __future__ import annotations

import os
import re
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path

from tests.fuzz.lines import Broken

READY_S = 120
STOP_S = 120
SETTINGS: dict[str, dict[str, object]] = {
    "namesrv": {"serverChannelMaxIdleTimeSeconds": 60},
    "broker": {
        "brokerName": "canary-broker",
        "mappedFileSizeCommitLog": 16 << 20,
        "mappedFileSizeConsumeQueue": 20 * 3000,
        "mapperFileSizeBatchConsumeQueue": 46 * 3000,
        "maxHashSlotNum": 10_000,
        "maxIndexNum": 40_000,
        "maxOpenQueueFiles": 128,
        "waitTimeMillsInSendQueue": 60_000,  # a busy machine is no overload
        "osPageCacheBusyTimeOutMills": 60_000,
        "messageDelayLevel": "1s 1s 2s 2s 3s",  # so that delays, timers, rolls and checks happen within a campaign
        "timerPrecisionMs": 100,
        "timerRollWindowSlot": 20,
        "timerWheelSlots": 20_000,
        "mappedFileSizeTimerLog": 1 << 20,
        "timerMaxDelaySec": 259_200,
        "recallMessageEnable": "true",
        "transactionCheckInterval": 500,
        "transactionTimeOut": 300,
        "transactionCheckMax": 3,
        "enablePropertyFilter": "true",
        "duplicateWindowEnable": "true",
        "spreadAutoCreatedTopics": "false",  # it calls addresses that the name server knows, and these are fuzzed
        "flushConsumerOffsetInterval": 500,
        "serverChannelMaxIdleTimeSeconds": 60,
    },
}
# Lines that no frame may cause. An internal error is written with a traceback; a record that is put aside or lost was
# accepted although something behind the door cannot handle it.
FAULTS = re.compile(
    r"Traceback|internal error|never retrieved|never awaited|AddressSanitizer|runtime error|Fatal Python|PUT ASIDE"
    r"|LEFT OUT|IS LOST|DAMAGED|cannot be (?:stored|written|encoded|put|told)|wait: they"
)


class Daemon:
    """One process, which can be started again on what it kept."""

    def __init__(self, kind: str, folder: Path, kernel: str, **settings: object) -> None:
        self.kind = kind
        self.log = folder / f"{kind}.log"
        self._folder = folder
        self._kernel = kernel
        self._looked_at = 0
        self._listen = "127.0.0.1:0"
        self._settings = SETTINGS[kind] | settings
        self.address = ""
        self.fast_address: str | None = None
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Broken if it does not say that it is ready."""
        config = self._folder / f"{self.kind}.conf"
        config.write_text("".join(f"{key}={value}\n" for key, value in self._settings.items()), "utf-8")
        environment = os.environ | {"PYROMQ_KERNEL": self._kernel, "HOME": str(self._folder / "home")}
        words = [self.kind, "--listen", self._listen, "--config", str(config), "--log-level", "warning"]
        with self.log.open("a") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "pyromq", *words],
                cwd=self._folder / "cwd",
                env=environment,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        assert self._process.stdout is not None
        readable, _, _ = select.select([self._process.stdout], [], [], READY_S)
        line = self._process.stdout.readline() if readable else "(nothing)"
        found = re.search(r"(127\.0\.0\.1:\d+)", line)
        if found is None:
            self.kill()
            raise Broken(f"the {self.kind} does not become ready: {line!r}\n{self.tail()}")
        self.address = self._listen = found[1]
        if (fast := self._settings.get("fastListenPort")) is not None:
            self.fast_address = f"127.0.0.1:{fast}"

    def stop(self) -> None:
        """Broken if it does not stop cleanly when told to."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        try:
            code = self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise Broken(f"the {self.kind} does not stop within {STOP_S} s\n{self.tail()}") from None
        self._close()
        if code != 0:
            raise Broken(f"the {self.kind} stopped with {code}\n{self.tail()}")

    def kill(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self._close()

    def _close(self) -> None:
        if self._process is not None and self._process.stdout is not None:
            self._process.stdout.close()

    def check_alive(self) -> None:
        if self._process is None or self._process.poll() is not None:
            code = None if self._process is None else self._process.returncode
            raise Broken(f"the {self.kind} ended with {code}\n{self.tail()}")

    def new_faults(self) -> list[str]:
        """What the log says since the last call and must not say, each with the lines around it."""
        with self.log.open("rb") as file:
            file.seek(self._looked_at)
            data = file.read()
        self._looked_at += len(data)
        lines = data.decode("utf-8", "replace").splitlines()
        found, skip = [], -1
        for number, line in enumerate(lines):
            if number > skip and FAULTS.search(line):
                end = number + 1
                while end < len(lines) and not re.match(r"\d{4}-\d\d-\d\dT", lines[end]):
                    end += 1
                found.append("\n".join(lines[max(0, number - 1) : end]))
                skip = end
        return found

    def tail(self, lines: int = 40) -> str:
        return "\n".join(self.log.read_text("utf-8", "replace").splitlines()[-lines:])

    def memory_bytes(self) -> int:
        """Of its own, without the files that it maps."""
        assert self._process is not None
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        found = re.search(r"RssAnon:\s+(\d+) kB", status)
        return int(found[1]) << 10 if found else 0

    def descriptors(self) -> int:
        assert self._process is not None
        return len(os.listdir(f"/proc/{self._process.pid}/fd"))


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


class Folder:
    """Where the daemons live."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for name in ("store", "kv", "home", "cwd", "outside"):
            (root / name).mkdir()

    @property
    def outside(self) -> Path:
        return self.root / "outside"

    @property
    def store(self) -> Path:
        return self.root / "store"

    def strays(self) -> list[str]:
        """Files where none should be."""
        known = {"store", "kv", "home", "cwd", "outside"}
        found = [
            str(one) for one in self.root.iterdir() if one.name not in known and one.suffix not in (".log", ".conf")
        ]
        for name in ("home", "cwd", "outside"):
            found += [str(one) for one in (self.root / name).rglob("*")]
        return found


def verify(folder: Folder) -> None:
    """`pyromq store verify` finds nothing, or Broken has what it says."""
    words = ["store", "verify", str(folder.store), "--config", str(folder.root / "broker.conf")]
    done = subprocess.run([sys.executable, "-m", "pyromq", *words], capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise Broken(f"store verify ended with {done.returncode}:\n{done.stdout[-4000:]}{done.stderr[-2000:]}")
