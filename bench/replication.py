"""What slaves cost and how far they are behind: `python bench/replication.py [--seconds 8] [--gb 2] [--java]`.

A master alone, with an asynchronous slave, and as SYNC_MASTER, one after the other in one run, under the same load;
with --java Java 5.5.0's SYNC_MASTER with its slave beside them. Then a new slave catches up with --gb of log while
sends go on. Master, slave and load share the machine's cores: besides rates there is each one's CPU a message. Compare
ratios.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
from bench.results import note  # noqa: E402
from bench.servers import (  # noqa: E402
    JAVA_DEFAULTS,
    Case,
    Server,
    built,
    burning,
    has_java,
    java_broker,
    measure,
    our_broker,
    scratch,
    started,
    use_memory_once,
)

from tests.interop import wire  # noqa: E402

MANY = Case("128 B, 4 x 16", "send -t Bench -c 4 -w 16 -s 128 -q 4")
ONE = Case("128 B, 1 in flight", "send -t Bench -c 1 -w 1 -s 128 -q 4")
BESIDE = Case("128 B, 1 x 16, while a slave catches up", "send -t Bench -c 1 -w 16 -s 128 -q 4")
FILL = "send -t Fill -c 4 -w 4 -B 32 -s 1024 -q 4"
WARM_UP_S, JAVA_WARM_UP_S = 2, 15
RUNTIME = 28
SLAVE = "brokerRole=SLAVE\nbrokerId=1"
SAMPLE_S = 0.1
MEMORY_GB = 6  # more than the page cache of a row takes
LIMIT_S = 240.0


class Pair(NamedTuple):
    """A master, and its slave if it has one."""

    master: Server
    slave: Server | None = None


def log_end(server: Server) -> int:
    table = wire.json_with_bare_keys(wire.ask(server.address, RUNTIME).body)["table"]
    return int(table["commitLogMaxOffset"])


def behind(pair: Pair) -> int:
    assert pair.slave is not None
    here = log_end(pair.slave)  # first: the master's end grows meanwhile, so what is found is too much, if anything
    return max(0, log_end(pair.master) - here)


def until_caught_up(pair: Pair, least: int = 0) -> None:
    deadline = time.monotonic() + LIMIT_S
    while behind(pair) > least:
        if time.monotonic() > deadline:
            raise SystemExit(f"the slave is {behind(pair)} bytes behind after {LIMIT_S:g} s")
        time.sleep(0.02)


class Behind(threading.Thread):
    """Samples how far the slave is behind, until stopped."""

    def __init__(self, pair: Pair) -> None:
        super().__init__(daemon=True)
        self._pair, self._stop_wanted, self.most = pair, threading.Event(), 0

    def run(self) -> None:
        while not self._stop_wanted.wait(SAMPLE_S):
            self.most = max(self.most, behind(self._pair))

    def stop(self) -> int:
        self._stop_wanted.set()
        self.join()
        return self.most


@contextmanager
def our_names(folder: Path) -> Iterator[Server]:
    folder.mkdir(parents=True)
    command = [sys.executable, "-m", "pyromq", "namesrv", "--listen", "127.0.0.1:0", "--log-level", "error"]
    with started("names", [*command, "--kv-config-path", str(folder / "kv.json")]) as names:
        yield names


@contextmanager
def our_pair(folder: Path, role: str, has_slave: bool = True) -> Iterator[Pair]:
    with ExitStack() as stack:
        names = stack.enter_context(our_names(folder))
        master = stack.enter_context(our_member(folder, "master", names, f"brokerRole={role}"))
        if not has_slave:
            yield Pair(master)
            return
        slave = stack.enter_context(our_member(folder, "slave", names, SLAVE))
        pair = Pair(master, slave)
        until_following(pair)
        yield pair


@contextmanager
def our_member(folder: Path, name: str, names: Server, *lines: str) -> Iterator[Server]:
    """A broker of the set, with these lines in its file."""
    (folder / f"{name}.conf").write_text("\n".join(lines))
    with our_broker(folder / name, "", "--namesrv", names.address, "-c", str(folder / f"{name}.conf")) as server:
        yield server


def until_following(pair: Pair) -> None:
    """Until the master has a slave that is in sync."""
    deadline = time.monotonic() + LIMIT_S
    while b"following" not in wire.ask(pair.slave.address, RUNTIME).body:  # type: ignore[union-attr]
        if time.monotonic() > deadline:
            raise SystemExit("the slave does not follow")
        time.sleep(0.05)


@contextmanager
def java_pair(folder: Path) -> Iterator[Pair]:
    from tests.interop.peers import java

    roles = {"brokerRole": "SYNC_MASTER", "inSyncReplicas": "2", "brokerIP2": "127.0.0.1"}
    with java_broker(folder / "pair", **roles) as master:
        (folder / "slave").mkdir()
        settings = JAVA_DEFAULTS | {"brokerRole": "SLAVE", "brokerId": "1", "brokerIP2": "127.0.0.1"}
        slave = java.Broker("5.5.0", folder / "slave", [master.name_server], settings)
        pid = slave.program.process.pid
        try:
            time.sleep(10)  # it connects after 5 s
            yield Pair(master, Server("java slave", slave.address, pid, 0.0, 0.0))
        finally:
            slave.kill()


def loaded(load: Path, pair: Pair, case: Case, seconds: float) -> dict[str, Any]:
    """A load's figures, with the slave's CPU a message, and how far it was behind at most."""
    slave = pair.slave
    if slave is None:
        return measure(load, case, pair.master, seconds)
    watch, before, begun = Behind(pair), slave.cpu_s(), log_end(pair.master)
    watch.start()
    found = measure(load, case, pair.master, seconds)
    most = watch.stop()
    until_caught_up(pair)
    rate = (log_end(pair.master) - begun) / seconds
    found["slave_cpu_us"] = (slave.cpu_s() - before) * 1e6 / max(1, found["messages"])
    found["behind_s"] = most / max(1.0, rate)
    found["slave_mb"] = slave.resident_mb()
    return found


def row(name: str, found: dict[str, Any], lone: dict[str, Any] | None = None) -> None:
    words = [f"{found['rate']:>9,.0f}/s", f"p50 {found['p50_us']:>7,.0f} us", f"p99 {found['p99_us']:>7,.0f} us"]
    words.append(f"master {found['cpu_us']:5.2f} us")
    if "slave_cpu_us" in found:
        words += [f"slave {found['slave_cpu_us']:5.2f} us", f"behind {found['behind_s'] * 1000:5.0f} ms"]
        words.append(f"slave {found['slave_mb']:4.0f} MB")
    if lone is not None:
        words.append(f"{found['rate'] / lone['rate']:.2f} of the lone rate")
    print(f"{name:34}", "  ".join(words), flush=True)


def beside_a_stranger(load: Path, share: float, seconds: float, lone: dict[str, Any]) -> None:
    """The master alone while something else takes as much of the two cores as its slave did."""
    with scratch() as place, our_pair(place / "set", "ASYNC_MASTER", False) as pair:
        measure(load, MANY, pair.master, WARM_UP_S)
        with burning(share):
            row(f"alone, {share:.0%} of a core taken", measure(load, MANY, pair.master, seconds), lone)


def catch_up(load: Path, folder: Path, gigabytes: float, seconds: float) -> dict[str, Any]:
    """A slave that comes when the log has so many bytes, while sends go on."""
    with ExitStack() as stack:
        names = stack.enter_context(our_names(folder))
        master = stack.enter_context(our_broker(folder / "master", "", "--namesrv", names.address))
        while log_end(master) < gigabytes * 1e9:
            measure(load, Case("fill", FILL), master, 2)
        calm = measure(load, BESIDE, master, seconds)
        whole, begun = log_end(master), time.monotonic()
        slave = stack.enter_context(our_member(folder, "slave", names, SLAVE))
        done: list[float] = []

        def watch() -> None:
            pair = Pair(master, slave)
            until_following(pair)
            until_caught_up(pair, least=1 << 20)
            done.append(time.monotonic() - begun)

        watching = threading.Thread(target=watch)
        watching.start()
        busy = [measure(load, BESIDE, master, 2)]
        while watching.is_alive():
            busy.append(measure(load, BESIDE, master, 2))
        watching.join()
        p99 = statistics.median(one["p99_us"] for one in busy)
        return {
            "bytes": whole, "seconds": done[0], "calm_p99_us": calm["p99_us"], "busy_p99_us": p99,
            "slave_mb": slave.resident_mb(),
        }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--gb", type=float, default=2.0, help="log that a new slave catches up with; 0: leave it out")
    parser.add_argument("--java", action="store_true", help="Java's SYNC_MASTER and slave beside ours")
    parser.add_argument("--json", metavar="FILE", help="append the figures to this file")
    options = parser.parse_args()
    use_memory_once(MEMORY_GB)
    with scratch() as folder:
        load = built(folder, "mqload")
        lone: dict[str, dict[str, Any]] = {}
        kinds = {"alone": ("ASYNC_MASTER", False), "asynchronous slave": ("ASYNC_MASTER", True)}
        for name, (role, has_slave) in (kinds | {"SYNC_MASTER and slave": ("SYNC_MASTER", True)}).items():
            with scratch() as place, our_pair(place / "set", role, has_slave) as pair:
                measure(load, MANY, pair.master, WARM_UP_S)
                for case in (MANY, ONE):
                    found = loaded(load, pair, case, options.seconds)
                    row(f"{name}, {case.name}", found, lone.get(case.name))
                    lone.setdefault(case.name, found)
                    note(options.json, name, "ours", [found], case.name)
                    if role == "ASYNC_MASTER" and has_slave and case is MANY:
                        share = min(1.0, found["slave_cpu_us"] * found["rate"] / 1e6)
            if name == "asynchronous slave":
                beside_a_stranger(load, share, options.seconds, lone[MANY.name])
        if options.java and has_java():
            with java_pair(folder / "java") as pair:
                measure(load, MANY, pair.master, JAVA_WARM_UP_S)
                for case in (MANY, ONE):
                    found = loaded(load, pair, case, options.seconds)
                    row(f"Java's SYNC_MASTER, {case.name}", found)
                    note(options.json, "SYNC_MASTER and slave", "java", [found], case.name)
        if options.gb:
            found = catch_up(load, folder / "catching-up", options.gb, options.seconds)
            rate = found["bytes"] / found["seconds"] / 1e6
            print(
                f"catching up with {found['bytes'] / 1e9:.1f} GB: {found['seconds']:.1f} s ({rate:.0f} MB/s), p99 of "
                f"sends {found['busy_p99_us']:,.0f} us, {found['calm_p99_us']:,.0f} us before; slave "
                f"{found['slave_mb']:.0f} MB",
                flush=True,
            )
            note(options.json, "catching up", "ours", [found])


if __name__ == "__main__":
    main()
