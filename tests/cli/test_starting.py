"""What `pyromq broker`, `namesrv` and `up` make of the settings that they are started with, and what they say."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from pyromq.broker.config import BrokerConfig
from pyromq.cli.main import cli
from pyromq.config import Loaded, settings_of
from tests.interop.peers import ours
from tests.interop.peers.process import Program


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


def test_what_replaces_an_empty_value_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "broker.conf"
    file.write_text(f"storePathRootDir={tmp_path / 'store'}\nnamesrvAddr=\n")
    found = started(monkeypatch, "-c", str(file), "-n", "flag:1")
    assert found.notices == [f"command line: -n = flag:1 replaces nothing of {file} line 2"]


def test_every_setting_may_be_given_in_every_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a file of each kind, with the byte order mark and the line ends of Windows, and by the environment."""
    store = tmp_path / "store"
    config = BrokerConfig(store_path_root_dir=store, store_path_commit_log=store / "commitlog")
    settings = settings_of(BrokerConfig)
    values = {name: one.render(getattr(config, name)) for name, one in settings.items()}
    java, toml = tmp_path / "broker.conf", tmp_path / "broker.toml"
    lines = [f"{settings[name].java}={value}" for name, value in values.items()]
    java.write_text("\ufeff" + "\r\n".join(lines), "utf-8", newline="")
    toml.write_text("\ufeff" + "\r\n".join(f"{name} = {json.dumps(value)}" for name, value in values.items()), "utf-8")
    assert started(monkeypatch, "-c", str(java)).config == config
    assert started(monkeypatch, "-c", str(toml)).config == config
    for name, value in values.items():
        monkeypatch.setenv(f"PYROMQ_BROKER_{name.upper()}", value)
    assert started(monkeypatch).config == config
    monkeypatch.setenv("PYROMQ_BROKER_LISTEN_PORT", "")
    done = CliRunner().invoke(cli, ["broker"])
    assert "PYROMQ_BROKER_LISTEN_PORT = : must be a whole number, not empty; leave it out" in done.output


@pytest.mark.parametrize("daemon", ["namesrv", "broker"])
def test_a_terminal_that_is_closed_stops_it_in_order(tmp_path: Path, daemon: str) -> None:
    where = ["--store-path-root-dir" if daemon == "broker" else "--kv-config-path", str(tmp_path / "data")]
    command = [sys.executable, "-m", "pyromq.cli.main", daemon, "--listen", "127.0.0.1:0", *where]
    usual = ["env", "--default-signal=HUP", *command]  # whoever runs the tests may have it ignored
    with Program(usual, name=daemon, env={"HOME": str(tmp_path)}, cwd=tmp_path) as program:
        program.wait_for("ready on")
        program.signal(signal.SIGHUP)
        assert program.wait() == 0
    assert not (tmp_path / "data" / "abort").exists()
    ignored = ["sh", "-c", 'trap "" HUP; exec "$@"', "sh", *command]  # as nohup does
    with Program(ignored, name=daemon, env={"HOME": str(tmp_path)}, cwd=tmp_path) as program:
        program.wait_for("ready on")
        status = Path(f"/proc/{program.pid}/status").read_text()
        assert int(status.partition("SigIgn:")[2].split()[0], 16) & 1 << signal.SIGHUP - 1


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
