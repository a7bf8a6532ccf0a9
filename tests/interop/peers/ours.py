"""`pyromq namesrv` as a subprocess, with the interface of `java.NameServer`, so that a test can take either."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from .process import Program


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
        ready = self.program.wait_for(r"\b(127\.0\.0\.1:[1-9]\d*)\b")
        self.address = ready[1]

    def kill(self) -> None:
        self.program.kill()
