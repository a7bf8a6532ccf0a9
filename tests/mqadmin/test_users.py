"""The user and policy commands on a broker of ours print what Java's did, for an administrator with keys."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.interop.conftest import is_known
from tests.interop.peers import ours
from tests.interop.waiting import eventually

from .conftest import Stage, call
from .golden import blocks

ADMIN, SECRET = "root of all", "a long secret"
ORDER = (
    "createUser updateUser getUser listUser copyUser createAcl updateAcl getAcl listAcl copyAcl deleteAcl deleteUser"
)


def test_users_and_policies_as_recorded(servers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "tools.yml").write_text(f'accessKey: "{ADMIN}"\nsecretKey: "{SECRET}"\n')
    monkeypatch.setenv("ROCKETMQ_HOME", str(tmp_path))
    first = json.dumps({"username": ADMIN, "password": SECRET})
    settings = {"authenticationEnabled": "true", "authorizationEnabled": "true", "initAuthenticationUser": first}
    broker = ours.Broker(tmp_path / "broker", [servers], settings, name="broker-users", cluster="Users")
    try:
        eventually(lambda: is_known(servers, "broker-users"), "the broker has registered")
        stage = Stage(servers, broker.address)
        for block in (block for name in ORDER.split() for block in blocks(name)):
            words = [word.replace("DefaultCluster", "Users") for word in stage.words(block)]
            shown = call(*words)
            mine = [line for line in stage.as_recorded(shown.out + causes(shown.err)).splitlines() if ADMIN not in line]
            assert plain(mine) == plain(causes_alone(block.printed).splitlines()), block.command
        (tmp_path / "conf" / "tools.yml").unlink()
        assert "username cannot be null." in call("listUser", "-n", servers, "-b", broker.address).err
        broker.stop()
        audit = "".join(path.read_text("utf-8") for path in (tmp_path / "broker").rglob("audit-*.jsonl"))
        assert '"AUTH_LIST_USER"' in audit
        assert "username cannot be null." in audit
        assert SECRET not in audit
    finally:
        broker.kill()


def plain(lines: list[str]) -> list[str]:
    """Without the columns, and without the broker that Java names in some of its errors."""
    return sorted(" ".join(re.sub(r" BROKER: \S+$", "", line).split()) for line in lines if line.strip())


def causes(error: str) -> str:
    return "".join(line + "\n" for line in error.splitlines() if line.startswith("Caused by: "))


def causes_alone(printed: str) -> str:
    """What was printed, and of a failure its cause, as ours is compared everywhere."""
    left_out = ("org.apache.rocketmq.tools", "For more information")
    return "".join(line + "\n" for line in printed.splitlines() if not line.startswith(left_out))
