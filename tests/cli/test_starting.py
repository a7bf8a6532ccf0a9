"""What `pyromq broker`, `namesrv` and `up` make of the settings that they are started with, and what they say."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from pyromq.broker.config import BrokerConfig
from pyromq.cli.main import cli
from pyromq.config import Loaded


def started(monkeypatch: pytest.MonkeyPatch, *words: str) -> Loaded[BrokerConfig]:
    """Return the settings with which this broker would serve."""
    seen: list[Loaded[BrokerConfig]] = []

    async def serve(loaded: Loaded[BrokerConfig]) -> None:
        seen.append(loaded)

    monkeypatch.setattr("pyromq.cli.serve.broker.serve", serve)
    done = CliRunner().invoke(cli, ["broker", *words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return seen[0]


def test_the_file_s_name_servers_win_over_java_s_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "broker.conf"
    file.write_text(f"namesrvAddr=file:1\nstorePathRootDir={tmp_path / 'store'}\n")
    monkeypatch.setenv("NAMESRV_ADDR", "java:1")
    only = started(monkeypatch, "--store-path-root-dir", str(tmp_path / "store"))
    assert (only.config.namesrv_addr, only.notices) == (("java:1",), [])
    both = started(monkeypatch, "-c", str(file))
    assert both.config.namesrv_addr == ("file:1",)
    assert both.notices == [f"{file} line 1: namesrvAddr = file:1 replaces java:1 of environment NAMESRV_ADDR"]
    monkeypatch.setenv("PYROMQ_BROKER_NAMESRV_ADDR", "ours:1")
    assert started(monkeypatch, "-c", str(file)).config.namesrv_addr == ("ours:1",)
    flag = started(monkeypatch, "-c", str(file), "-n", "flag:1")
    assert flag.config.namesrv_addr == ("flag:1",)
    assert flag.notices[-1] == "command line: -n = flag:1 replaces ours:1 of environment"


def test_a_wrong_variable_of_java_s_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", "nowhere")
    done = CliRunner().invoke(cli, ["broker", "--store-path-root-dir", str(tmp_path)])
    assert "environment NAMESRV_ADDR: namesrvAddr = nowhere: " in done.output
    monkeypatch.setenv("NAMESRV_ADDR", "")
    assert started(monkeypatch, "--store-path-root-dir", str(tmp_path)).config.namesrv_addr == ()
