"""One machine of the set: a host with a disk, a member of etcd and a broker, each of which may fail."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path

from tests.coordination.etcd_peer import EtcdMember
from tests.faults.disks import HostDisk, Shelf
from tests.faults.hosts import Host
from tests.faults.shim import Shim
from tests.interop.peers.process import Program, ProgramFailed

PORT, HA_PORT, ETCD_PORT, PEER_PORT = 10911, 10912, 2379, 2380
DISK_BYTES = 256 << 20
STARTS = 20  # at most, until it serves
READY = r"pyromq broker ready on "

# Small files, and none of them goes before its time, however full the disk is: whatever is lost then is a fault.
SETTINGS = {
    "mappedFileSizeCommitLog": str(1 << 20),
    "mappedFileSizeConsumeQueue": str(20 * 1000),
    "maxHashSlotNum": "1000",
    "maxIndexNum": "4000",
    "cleanFileForciblyEnable": "false",
    "duplicateWindowEnable": "true",
    "allowUnauthenticated": "true",
}


class Node:
    """A machine. `name` is also that of its host and of its member of etcd."""

    def __init__(self, name: str, host: Host, shelf: Shelf, library: Path, cluster: str) -> None:
        self.name, self.host = name, host
        self.home = shelf.folder.parent / name
        self.home.mkdir()
        self.disk = HostDisk(shelf, name, DISK_BYTES)
        self.shim = Shim(library, self.home / "told")
        self.address = f"{host.address}:{PORT}"
        self.etcd = EtcdMember(
            name, self.home / "etcd", ETCD_PORT, PEER_PORT, cluster, host=host.address, within=host.within
        )
        self._program: Program | None = None
        self._past: list[str] = []

    @property
    def store(self) -> Path:
        return self.disk.folder / "store"

    def configure(self, name_server: str, etcd: Sequence[str], settings: Mapping[str, str]) -> None:
        """Write the broker's settings."""
        given = {
            "brokerClusterName": "DefaultCluster",
            "brokerName": "broker-f",
            "bindAddress": self.host.address,
            "listenPort": str(PORT),
            "haListenPort": str(HA_PORT),
            "namesrvAddr": name_server,
            "etcdEndpoints": ";".join(etcd),
            "storePathRootDir": str(self.store),
            **SETTINGS,
            **settings,
        }
        (self.home / "broker.conf").write_text("".join(f"{key}={value}\n" for key, value in given.items()))

    @property
    def broker(self) -> Program:
        assert self._program is not None
        return self._program

    @property
    def is_up(self) -> bool:
        """Return whether the broker's process is there, paused or not."""
        return self._program is not None and self._program.process.poll() is None

    def start(self) -> None:
        """Start the broker, without waiting for it."""
        command: list[str | Path] = [sys.executable, "-m", "pyromq.cli.main", "broker", "-c", self.home / "broker.conf"]
        within = self.host.within(self.disk.within(command))
        env = {"HOME": str(self.home), **self.shim.env}
        self._program = Program(within, name=f"broker {self.name}", env=env, cwd=self.home)

    def wait_ready(self) -> None:
        """Wait until the broker serves in some role."""
        self.broker.wait_for(READY)

    def restart(self) -> None:
        """Start the broker again until it serves: as a supervisor does, when it ends because etcd does not answer.

        One that runs already is left alone: another fault had killed it, too."""
        if self.is_up:
            return
        for attempt in count(1):
            self.start()
            try:
                self.wait_ready()
            except ProgramFailed:
                self.kill()
                if attempt == STARTS:
                    raise
            else:
                break

    def kill(self) -> None:
        """kill -9 for the broker."""
        if self._program is not None:
            self._program.kill()
            self._past += [*self._program.lines, f"--- {self.name} ended ---"]
            self._program = None

    def stop(self) -> None:
        """SIGTERM for the broker, and wait for its end; SIGKILL for one that another fault keeps from ending."""
        if self.is_up:
            self.broker.signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                self.broker.wait(60)
        self.kill()

    def pause(self) -> None:
        """Send SIGSTOP to the broker."""
        if self.is_up:
            self.broker.signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Send SIGCONT to the broker."""
        if self.is_up:
            self.broker.signal(signal.SIGCONT)

    def cut_power(self) -> None:
        """Kill all that runs here, and lose what the broker did not sync. Etcd's own files stay: it is not on trial."""
        self.kill()
        self.etcd.kill()
        self.disk.cut_power()

    def start_etcd(self) -> None:
        """Start the member of etcd, unless it runs."""
        if self.etcd.program is None:
            self.etcd.start()

    def boot(self) -> None:
        """Start all that runs here."""
        self.start_etcd()
        self.restart()

    def written(self) -> list[str]:
        """Return all lines that brokers of this machine wrote."""
        return [*self._past, *(self._program.lines if self._program is not None else ())]

    def close(self) -> None:
        """Leave nothing running, and nothing mounted."""
        self.kill()
        self.etcd.kill()
        with suppress(RuntimeError):
            self.disk.close()
