"""Keys and secrets that every user of the machine may read are said at a start, each in one line."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import pytest

from pyromq import logs
from pyromq.cli.serve.securing import secured
from pyromq.machine.open_keys import warn_of_open_keys
from tests.interop.peers.process import Program

SAID = "readable by others"


@pytest.mark.parametrize(("mode", "is_said"), [(0o644, True), (0o604, True), (0o640, False), (0o600, False)])
def test_only_files_that_everybody_may_read_are_said(
    mode: int, is_said: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "access.key"
    file.write_bytes(b"secret")
    file.chmod(mode)
    warn_of_open_keys(logs.get("pyromq.test"), [file, file, None, tmp_path / "missing"])
    assert len(caplog.records) == is_said
    assert (f"mode={mode:04o}" in caplog.text and "chmod 600" in caplog.text) == is_said


def test_up_secure_says_it_of_what_it_has_made(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    secured(tmp_path, ("127.0.0.1",), 1_790_000_000_000)
    assert SAID not in caplog.text
    for name in ("secure.json", "tls/ca.key"):
        (tmp_path / name).chmod(0o644)
    secured(tmp_path, ("127.0.0.1",), 1_790_000_000_000)
    assert [name for name in ("secure.json", "ca.key") if name in caplog.text] == ["secure.json", "ca.key"]


@pytest.mark.parametrize(
    ("words", "key"),
    [
        (("namesrv", "--kv-config-path", "kv/kv.json"), "kv/access.key"),
        (("broker", "--store-path-root-dir", "store"), "store/pyromq/access.key"),
    ],
    ids=["namesrv", "broker"],
)
def test_servers_say_it_and_go_on(
    words: tuple[str, ...], key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / key
    file.parent.mkdir(parents=True)
    file.write_bytes(bytes(64))
    file.chmod(0o644)
    command = [sys.executable, "-m", "pyromq.cli.main", *words, "--listen", "127.0.0.1:0"]
    with Program(command, name=words[0], env={"HOME": str(tmp_path)}) as program:
        line = program.wait_for(rf"[^\n]*{SAID}[^\n]*")[0]
        assert str(file) in line
