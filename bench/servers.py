"""Servers to put load on, each started on a free port and stopped at the end: our broker, Java's, the echo in C.

Used by the other files of bench/ and by nobody else. CPU and memory are the server's own, from /proc.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from bench.measure.compiled import compiled

ROOT = Path(__file__).resolve().parent.parent
AWAKE_S = 2.0  # a server that stood still does first what was due meanwhile
TICKS = os.sysconf("SC_CLK_TCK")

# Brokers of a bench are by themselves: settings of the caller's environment are not for them, least of all where his
# name server is, at which they would take the place of a broker of the same name.
for _name in [name for name in os.environ if name == "NAMESRV_ADDR" or name.startswith("PYROMQ_")]:
    if _name not in ("PYROMQ_KERNEL", "PYROMQ_LOOP"):
        del os.environ[_name]

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # an installation has its byte code: a start does not compile

# `timeout` and bench/table.py end a script so: what it started and wrote goes with it.
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


class Case(NamedTuple):
    """A load: options of mqload."""

    name: str
    options: str


class Server(NamedTuple):
    name: str
    address: str
    pid: int
    start_s: float
    idle_mb: float
    name_server: str = ""

    def cpu_s(self) -> float:
        words = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / TICKS

    def cpu_us(self) -> float:
        """As `cpu_s`, finer than its hundredths of a second; without threads that have ended."""
        tasks = Path(f"/proc/{self.pid}/task").iterdir()
        return sum(int((one / "schedstat").read_text().split()[0]) for one in tasks) / 1000

    def resident_mb(self) -> float:
        return _resident_mb(self.pid)


def _resident_mb(pid: int) -> float:
    """Without the pages of mapped files, which are the kernel's to take back."""
    table = dict(line.split(":") for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line)
    return int(table["RssAnon"].split()[0]) / 1024


@contextmanager
def scratch(parent: str | None = None) -> Iterator[Path]:
    """A folder that goes at the end, however that comes: SIGTERM waits while it is removed."""
    folder = Path(tempfile.mkdtemp(prefix="pyromq-bench-", dir=parent))
    try:
        yield folder
    finally:
        before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
        subprocess.run(["rm", "-rf", str(folder)], check=False)
        signal.signal(signal.SIGTERM, before)


def built(folder: Path, name: str) -> Path:
    """A C program of bench/."""
    return compiled(ROOT / "bench" / f"{name}.c", folder)


def use_memory_once(gigabytes: float) -> None:
    """Write to so much memory and give it back.

    Pages that a virtual machine has never used cost a fault at its host, which would count for whichever server is the
    first to have them in its page cache: 1.5 us a message of 128 bytes here, as much as half of the broker's own work.
    """
    size = int(gigabytes * (1 << 30))
    writer = f"import mmap\nheld = mmap.mmap(-1, {size})\nfor at in range(0, {size}, 4096): held[at] = 1"
    subprocess.run([sys.executable, "-c", writer], check=True)


@contextmanager
def burning(share: float) -> Iterator[None]:
    """Have a process beside that does nothing but to take this share of a core, in turns of a millisecond."""
    code = (
        f"import time\nwhile True:\n    until = time.perf_counter() + {share / 1000}\n"
        f"    while time.perf_counter() < until: pass\n    time.sleep({max(0.0, 1 - share) / 1000})"
    )
    with subprocess.Popen([sys.executable, "-c", code]) as process:
        try:
            yield
        finally:
            process.kill()


@contextmanager
def started(name: str, command: Sequence[str | Path], kernel: str = "") -> Iterator[Server]:
    begun = time.monotonic()
    environment = os.environ | ({"PYROMQ_KERNEL": kernel} if kernel else {})
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment) as process:
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            ready = time.monotonic() - begun
            if " on " not in line:
                raise SystemExit(f"{name} did not start: {line.strip() or 'it said nothing'}")
            address = line.partition(" on ")[2].split()[0]
            yield Server(name, address, process.pid, ready, _resident_mb(process.pid))
        finally:
            process.terminate()


@contextmanager
def our_broker(folder: Path, kernel: str = "", *flags: str) -> Iterator[Server]:
    """`kernel`: native or python, which is then its name in the table."""
    command = [sys.executable, "-m", "pyromq", "broker", "--listen", "127.0.0.1:0", "--broker-name", "broker-a"]
    command += ["--store-path-root-dir", str(folder), "--log-level", "error", *flags]
    with started(kernel or "ours", command, kernel) as server:
        yield server


@contextmanager
def our_cluster(folder: Path, kernel: str = "") -> Iterator[Server]:
    """A broker with a name server, for clients that ask for routes."""
    folder.mkdir(parents=True)
    command = [sys.executable, "-m", "pyromq", "namesrv", "--listen", "127.0.0.1:0", "--log-level", "error"]
    with (
        started("names", [*command, "--kv-config-path", str(folder / "kv.json")]) as names,
        our_broker(folder / "store", kernel, "--namesrv", names.address) as server,
    ):
        yield server._replace(name_server=names.address)


@contextmanager
def c_echo(folder: Path, *arguments: str) -> Iterator[Server]:
    with started("echo", [built(folder, "echo"), *arguments]) as server:
        yield server


# Java as people run it: the peers of the tests are tuned to start quickly, at a fraction of this speed.
JVM = ("-server", "-Xms2g", "-Xmx2g", "-XX:+UseG1GC", "-XX:MaxDirectMemorySize=2g", "-XX:+AlwaysPreTouch")
JAVA_DEFAULTS = {
    "mappedFileSizeCommitLog": str(1 << 30),
    "mappedFileSizeConsumeQueue": str(300_000 * 20),
    "maxHashSlotNum": "5000000",
    "maxIndexNum": "20000000",
}

# Without its timers Java's broker refuses pops: the peers of the tests have them off.
POPPING = {"timerWheelEnable": "true", "mappedFileSizeTimerLog": str(100 << 20)}


@contextmanager
def java_broker(folder: Path, **settings: str) -> Iterator[Server]:
    from tests.interop.peers import java

    for part in ("names", "broker"):
        (folder / part).mkdir(parents=True)
    names = java.NameServer("5.5.0", folder / "names")
    try:
        begun = time.monotonic()
        broker = java.Broker("5.5.0", folder / "broker", [names.address], JAVA_DEFAULTS | settings, jvm=JVM)
    except BaseException:
        names.kill()
        raise
    pid = broker.program.process.pid
    try:
        yield Server("java", broker.address, pid, time.monotonic() - begun, _resident_mb(pid), names.address)
    finally:
        broker.kill()
        names.kill()


def has_java() -> bool:
    """Whether the Java broker can be had: Maven is there, or was when it was fetched."""
    sys.path.insert(0, str(ROOT))
    from tests.interop.peers import cache, java

    try:
        java.runtime()
        java.classes("5.5.0")
    except cache.PeerMissing as why:
        print(f"without the Java broker: {why}")
        return False
    return True


@contextmanager
def alone(server: Server, servers: Sequence[Server]) -> Iterator[None]:
    """Let the other servers stand still meanwhile: idle JVMs take a tenth of two cores."""
    others = [other.pid for other in servers if other.pid != server.pid]
    for pid in others:
        os.kill(pid, signal.SIGSTOP)
    time.sleep(AWAKE_S)
    try:
        yield
    finally:
        for pid in others:
            os.kill(pid, signal.SIGCONT)


def measure(load: Path, case: Case, server: Server, seconds: float) -> dict[str, Any]:
    before = server.cpu_s()
    done = subprocess.run(
        [load, *case.options.split(), "-a", server.address, "-d", str(seconds)],
        capture_output=True,
        text=True,
        check=False,  # it says by its exit code that some requests were refused; the table shows how many
    )
    if not done.stdout:
        raise SystemExit(f"mqload {case.options} ended with {done.returncode}: {done.stderr.strip() or 'no word'}")
    result: dict[str, Any] = json.loads(done.stdout)
    result["cpu_us"] = (server.cpu_s() - before) * 1e6 / max(1, result["messages"])
    return result
