"""`pyromq up --secure`: users, certificates and a profile in one go; what it prints can be typed."""

from __future__ import annotations

import asyncio
import json
import re
import stat
from contextlib import suppress
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pyromq.cli.main import cli
from pyromq.cli.serve.securing import secured
from pyromq.errors import ConfigError
from tests.access.hidden import told_in, told_in_files
from tests.cli.test_up_brokers import up


async def typed(*words: str) -> Result:
    """In a thread: the servers are processes of their own, but commands make loops of their own."""
    return await asyncio.to_thread(CliRunner().invoke, cli, [*words, "--timeout", "30"])


def said_by_processes(secret: str) -> list[Path]:
    """Command lines that have the secret in them: everybody on the machine can read those."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(FileNotFoundError, ProcessLookupError):
            if secret.encode() in path.read_bytes():
                found.append(path)
    return found


@pytest.mark.parametrize("flags", [(), pytest.param(("--brokers", "2", "--slaves", "1"), marks=pytest.mark.slow)])
async def test_only_users_are_let_in_and_commands_find_their_keys(
    flags: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    profiles = tmp_path / "profiles.toml"
    monkeypatch.setenv("PYROMQ_CONFIG", str(profiles))
    for name in ("PYROMQ_PROFILE", "PYROMQ_NAMESRV", "NAMESRV_ADDR", "PYROMQ_ACCESS_KEY", "PYROMQ_SECRET_KEY"):
        monkeypatch.delenv(name, raising=False)
    data = tmp_path / "house"
    async with up(data, "--secure", *flags) as cluster:
        await cluster.line_with("PyroMQ is up")
        await cluster.line_with("to yourself")
        told = "".join(cluster.lines)
        names = re.findall(r"Name server (127\.0\.0\.1:\d+)", told)[0]
        assert f"-n {names}" not in told
        keys = dict(re.findall(r'(\w+) = "(.*)"', profiles.read_text()))
        assert (keys["namesrv"], keys["accessKey"]) == (names, "admin")
        assert keys["secretKey"] not in told
        for private in (profiles, data / "secure.json", data / "tls" / "server.pem", data / "tls" / "ca.key"):
            assert stat.S_IMODE(private.stat().st_mode) == 0o600
        assert not said_by_processes(keys["secretKey"])
        assert (await typed("profile", "use", "house")).exit_code == 64  # it has no --timeout
        await asyncio.to_thread(CliRunner().invoke, cli, ["profile", "use", "house"])
        made = await typed("topic", "create", "orders", "--queues", "1")
        assert made.exit_code == 0, made.output
        assert (await typed("pub", "orders", "hello")).exit_code == 0
        assert re.search(r"messages +1", (await typed("topic", "describe", "orders")).output)
        user = await typed("user", "list")
        assert "admin" in user.output
        assert "all" in user.output
        stranger = await typed("topic", "list", "-n", names, "--tls-ca", str(data / "tls" / "ca.crt"))
        assert "username cannot be null" in stranger.output
        plain = await typed("topic", "list", "-n", names, "--timeout", "2")
        assert plain.exit_code == 2, plain.output
    kept = json.loads((data / "secure.json").read_text())
    assert told_in_files(data, kept.values(), [data / "secure.json"]) == {}
    assert told_in("".join(cluster.lines).encode(), kept.values()) == []
    done = await asyncio.to_thread(CliRunner().invoke, cli, ["up", "--data", str(data), "--namesrv-port", "0"])
    assert done.exit_code == 78
    assert "start it with --secure again" in done.output
    (data / "secure.json").unlink()
    assert "admin" in json.loads((data / "store" / "pyromq" / "access.json").read_bytes())["users"] or flags
    done = await asyncio.to_thread(CliRunner().invoke, cli, ["up", "--secure", "--data", str(data)])
    assert (done.exit_code, "put it back from a backup" in " ".join(done.output.split())) == (78, True), done.output
    assert not (data / "secure.json").exists()


def test_it_is_one_or_the_other() -> None:
    done = CliRunner().invoke(cli, ["up", "--secure", "--insecure"])
    assert done.exit_code == 64
    assert "opposite of --secure" in done.output


def test_users_of_another_making_are_no_lost_file(tmp_path: Path) -> None:
    table = tmp_path / "store" / "pyromq" / "access.json"
    table.parent.mkdir(parents=True)
    table.write_text('{"users": {"bob": {}}}')
    assert secured(tmp_path, (), 1_790_000_000_000).admin.access_key == "admin"
    (tmp_path / "secure.json").unlink()
    table.write_text('{"users": {"admin": {}}}')
    with pytest.raises(ConfigError, match="put it back from a backup"):
        secured(tmp_path, (), 1_790_000_000_000)
