"""What `pyromq broker`, `namesrv` and `up` make of the settings that they are started with, and what they say."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from pyromq.broker.config import BrokerConfig
from pyromq.cli.main import cli
from pyromq.config import Loaded
from tests.interop.peers import ours


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


def test_no_store_inside_or_above_one_of_a_broker_that_runs(tmp_path: Path) -> None:
    data = tmp_path / "shop" / "data"
    store = data / "store"
    running = ours.Broker(data, [])
    try:
        inside, above = f"would lie in {store}, the store of a broker", f"has {store} in it, the store of a broker"
        up = ("up", "--namesrv-port", "0", "--broker-port", "0", "--data")
        broker = ("broker", "--listen", "127.0.0.1:0", "--store-path-root-dir")
        for words, folder, said in (
            (up, store, inside),
            (up, store / "deep" / "er", inside),
            (up, data.parent, above),
            (broker, store / "x", inside),
            (broker, data, above),
            (broker, data.parent, above),
        ):
            done = CliRunner().invoke(cli, [*words, str(folder)])
            assert (done.exit_code, said in done.output) == (78, True), (words, folder, done.output)
        assert {"store", "deep", "x", "tls"}.isdisjoint(one.name for one in store.iterdir())
        assert [one.name for one in data.parent.iterdir()] == ["data"]
    finally:
        running.kill()
