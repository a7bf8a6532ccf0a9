"""One subprocess whose output is read line by line, so that readiness is a line and not a guess.

A thread reads stdout and stderr together; `wait_for` returns at the line that matches, or fails at once with the last
lines when the program ends. Nothing is left running: `kill` ends the whole process group, and a small guard process
does so when we ourselves end without having come to it.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

START_LIMIT_S = 60.0


class ProgramFailed(Exception):
    """The program ended or stayed silent where a line was expected. The text holds its last lines."""


class Program:
    """A running program. Usable as a context manager, which kills it at the end."""

    def __init__(
        self,
        command: Sequence[str | Path],
        *,
        name: str,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> None:
        self.name = name
        self.lines: list[str] = []
        self._arrived = threading.Condition()
        self._ended = False
        self.process = subprocess.Popen(
            [str(part) for part in command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(env or {})},
            cwd=cwd,
            text=True,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,  # its own group, so that nothing it started outlives it
        )
        # Its pipe ends with us, however we end.
        self._guard = subprocess.Popen(
            ["/bin/sh", "-c", f"read _; kill -KILL -{self.process.pid}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, name=f"{name} output", daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self.process.pid

    def wait_for(self, pattern: str, *, after: int = 0, timeout_s: float = START_LIMIT_S) -> re.Match[str]:
        """The first line from index `after` on in which the pattern is found."""
        sought = re.compile(pattern)
        deadline = time.monotonic() + timeout_s
        position = after
        with self._arrived:
            while True:
                for line in self.lines[position:]:
                    if match := sought.search(line):
                        return match
                position = max(position, len(self.lines))
                if self._ended:
                    raise ProgramFailed(f"{self.name} ended without a line like {pattern!r}:\n{self.tail()}")
                if not self._arrived.wait(deadline - time.monotonic()):
                    raise ProgramFailed(f"no line like {pattern!r} from {self.name} in {timeout_s} s:\n{self.tail()}")

    def write_line(self, text: str) -> int:
        """Send one line to its stdin; returns the index from which its answer will stand in `lines`."""
        with self._arrived:
            position = len(self.lines)
        assert self.process.stdin is not None
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()
        return position

    def tail(self, count: int = 30) -> str:
        return "\n".join(self.lines[-count:])

    def resident_bytes(self) -> int:
        """What it holds in memory now."""
        return self._status("VmRSS")

    def peak_bytes(self) -> int:
        """The most that it held since `forget_peak`."""
        return self._status("VmHWM")

    def forget_peak(self) -> None:
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def wait(self, timeout_s: float = 30.0) -> int:
        """Its exit code, once it has ended by itself."""
        code = self.process.wait(timeout_s)
        self._close()
        return code

    def kill(self) -> None:
        """kill -9 for the program and all it started, as a power cut would."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._close()

    def __enter__(self) -> Program:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.kill()

    def _status(self, key: str) -> int:
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(status.split(f"{key}:", 1)[1].split()[0]) * 1024  # in kB, whatever the machine

    def _close(self) -> None:
        self._guard.kill()  # before its pipe closes: the process id may soon be somebody else's
        self._guard.wait()
        self._reader.join()
        for stream in (self.process.stdin, self.process.stdout, self._guard.stdin):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._arrived:
                self.lines.append(line.rstrip("\n"))
                self._arrived.notify_all()
        with self._arrived:
            self._ended = True
            self._arrived.notify_all()


def answer_of(program: Program, *, after: int = 0, timeout_s: float = START_LIMIT_S) -> Any:
    """The value of the next marked line (`@@{"kind": value}`), which our small applications print as their answer."""
    answer = json.loads(program.wait_for(r"^@@(.*)$", after=after, timeout_s=timeout_s)[1])
    ((kind, value),) = answer.items()
    if kind == "error":
        raise ProgramFailed(f"{program.name} failed: {value}\n{program.tail()}")
    return value
