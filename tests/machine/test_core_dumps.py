"""Daemons with users leave no core dump, which would have the keys of all of them."""

from __future__ import annotations

import os
import resource
import signal
import sys
from pathlib import Path

import pytest

from tests.access.matrix import SECRET
from tests.interop.peers.process import Program

USER = f'initAuthenticationUser={{"username":"boss","password":"{SECRET}"}}\n'


def is_dumped(folder: Path, daemon: str, settings: str) -> bool:
    """Whether the system says that it wrote a dump when a daemon was aborted. Dumps may be 1 MiB large here."""
    conf = folder / f"{daemon}.conf"
    conf.write_text(settings)
    before = resource.getrlimit(resource.RLIMIT_CORE)
    if before[1] in (0, 1):
        pytest.skip("this machine allows no core dumps at all")
    most = 1 << 20 if before[1] == resource.RLIM_INFINITY else min(before[1], 1 << 20)
    resource.setrlimit(resource.RLIMIT_CORE, (most, before[1]))
    try:
        command: list[str | Path] = [
            sys.executable,
            "-m",
            "pyromq.cli.main",
            daemon,
            "--listen",
            "127.0.0.1:0",
            "-c",
            conf,
        ]
        program = Program(command, name=daemon, cwd=folder, env={"HOME": str(folder)})
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, before)
    try:
        program.wait_for(r"\b127\.0\.0\.1:[1-9]\d*\b")
        os.kill(program.pid, signal.SIGABRT)
        return os.WCOREDUMP(os.waitpid(program.pid, 0)[1])
    finally:
        program.kill()


@pytest.mark.parametrize("daemon", ["namesrv", "broker"])
def test_a_daemon_with_users_leaves_none(tmp_path: Path, daemon: str) -> None:
    with_users, without = tmp_path / "with", tmp_path / "without"
    with_users.mkdir()
    without.mkdir()
    if not is_dumped(without, daemon, ""):
        pytest.skip("this machine writes no core dumps of anybody")
    assert not is_dumped(with_users, daemon, f"authenticationEnabled=true\n{USER}")
    assert not list(with_users.rglob("core*"))
