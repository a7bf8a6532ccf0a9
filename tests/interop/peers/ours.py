"""Our name server, broker and controller as subprocesses, with the interfaces of Java's where it has them."""

from __future__ import annotations

import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from .java import QUICK_BROKER, free_broker_port
from .process import Program, ProgramFailed

# Java's small files are ours too; what belongs to rooms that are not there yet is left out.
QUICK = {key: QUICK_BROKER[key] for key in ("mappedFileSizeCommitLog", "mappedFileSizeConsumeQueue", "maxIndexNum")}


class NameServer:
    """Our name server on a free loopback port, ready when constructed. Settings are Java's key names.

    `descriptors` is the most files and sockets that it may have open.
    """

    def __init__(
        self,
        home: Path,
        settings: Mapping[str, str] | None = None,
        *,
        port: int = 0,
        descriptors: int | None = None,
        arguments: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.home = home
        merged = {"kvConfigPath": str(home / "namesrv" / "kvConfig.json"), **(settings or {})}
        self.conf = home / "conf" / "namesrv.conf"
        self.conf.parent.mkdir(parents=True, exist_ok=True)
        self.conf.write_text("".join(f"{key}={value}\n" for key, value in merged.items()))
        module = ["-m", "pyromq.cli.main", "namesrv"]
        command: list[str | Path] = [
            sys.executable,
            *module,
            "--listen",
            f"127.0.0.1:{port}",
            "-c",
            self.conf,
            *arguments,
        ]
        if descriptors is not None:
            command = ["/bin/sh", "-c", f'ulimit -n {descriptors} && exec "$@"', "sh", *command]
        self.program = Program(command, name="pyromq namesrv", env={"HOME": str(home), **(env or {})}, cwd=home)
        ready = self.program.wait_for(r"ready on (127\.0\.0\.1:[1-9]\d*)\b")
        self.address = ready[1]

    def kill(self) -> None:
        self.program.kill()


class Broker:
    """Our broker, ready when constructed: it listens and has begun to register. Keeps port and store over restarts."""

    def __init__(
        self,
        home: Path,
        name_servers: Sequence[str],
        settings: Mapping[str, str] | None = None,
        *,
        name: str = "broker-p",
        cluster: str = "DefaultCluster",
    ) -> None:
        self.name = name
        self.home = home
        port = free_broker_port()
        self.address = f"127.0.0.1:{port}"
        merged = {
            "brokerClusterName": cluster,
            "brokerName": name,
            "namesrvAddr": ";".join(name_servers),
            "listenPort": str(port),
            "storePathRootDir": str(home / "store"),
            **QUICK,
            **(settings or {}),
        }
        self.conf = home / "conf" / "broker.conf"
        self.conf.parent.mkdir(parents=True, exist_ok=True)
        self.conf.write_text("".join(f"{key}={value}\n" for key, value in merged.items()))
        self.program = self._started()

    def _started(self) -> Program:
        command: list[str | Path] = [sys.executable, "-m", "pyromq.cli.main", "broker", "-c", self.conf]
        program = Program(command, name="pyromq broker", env={"HOME": str(self.home)}, cwd=self.home)
        try:
            program.wait_for(r"pyromq broker ready on ")
        except ProgramFailed:
            program.kill()
            raise
        return program

    def stop(self) -> None:
        """SIGTERM, and wait for the end."""
        self.program.signal(signal.SIGTERM)
        code = self.program.wait()
        assert code == 0, f"{self.program.name} ended with {code}:\n{self.program.tail()}"

    def restart(self) -> None:
        """Start again, after `stop` or `kill`, on the same port and store."""
        self.program = self._started()

    def kill(self) -> None:
        """kill -9."""
        self.program.kill()


class Controller:
    """Our controller on a loopback port that it keeps over restarts, ready when constructed."""

    def __init__(
        self, home: Path, etcd: Sequence[str], settings: Mapping[str, str] | None = None, *, port: int | None = None
    ) -> None:
        self.home = home
        self.address = f"127.0.0.1:{port or free_broker_port()}"
        merged = {"etcdEndpoints": ";".join(etcd), "controllerStorePath": str(home / "controller"), **(settings or {})}
        self.conf = home / "conf" / "controller.conf"
        self.conf.parent.mkdir(parents=True, exist_ok=True)
        self.conf.write_text("".join(f"{key}={value}\n" for key, value in merged.items()))
        self.program = self._started()

    def _started(self) -> Program:
        module = ["-m", "pyromq.cli.main", "controller"]
        command: list[str | Path] = [sys.executable, *module, "--listen", self.address, "-c", self.conf]
        program = Program(command, name="pyromq controller", env={"HOME": str(self.home)}, cwd=self.home)
        try:
            program.wait_for(r"pyromq controller ready on ")
        except ProgramFailed:
            program.kill()
            raise
        return program

    def stop(self) -> None:
        """SIGTERM, and wait for the end."""
        self.program.signal(signal.SIGTERM)
        code = self.program.wait()
        assert code == 0, f"{self.program.name} ended with {code}:\n{self.program.tail()}"

    def restart(self) -> None:
        """Start again, after `stop` or `kill`, on the same port."""
        self.program = self._started()

    def kill(self) -> None:
        """kill -9."""
        self.program.kill()
