"""A `pyromq up` of its own for the examples and pages, as a newcomer starts it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest


class Up:
    """One cluster, and commands that find it as the pages say: by the environment."""

    def __init__(self, process: subprocess.Popen[str], ready: str, name_server: str, folder: Path) -> None:
        self.process = process
        self.ready = ready  # the line by which it said that it is up
        self.folder = folder
        bins = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        # A home of its own: members of a broadcast group keep their offsets there.
        self._environment = os.environ | {"PYROMQ_NAMESRV": name_server, "PATH": bins, "HOME": str(folder)}

    def run(self, *command: str) -> str:
        done = subprocess.run(
            command, cwd=self.folder, env=self._environment, text=True, capture_output=True, timeout=120
        )
        assert done.returncode == 0, f"{command} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
        return done.stdout


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """One per page: they use the same topics and groups, as newcomers' pages do."""
    folder = tmp_path_factory.mktemp("newcomer")
    command = [sys.executable, "-m", "pyromq", "up", "--namesrv-port", "0", "--broker-port", "0"]
    with (folder / "up.log").open("w") as errors:
        process = subprocess.Popen(command, cwd=folder, text=True, stdout=subprocess.PIPE, stderr=errors)
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if found := re.search(r"Name server (\S+),", line):
                yield Up(process, line, found[1], folder)
                break
        else:
            raise AssertionError(f"pyromq up did not come up:\n{(folder / 'up.log').read_text()}")
    finally:
        process.terminate()
        process.wait(30)
        process.stdout.close()
