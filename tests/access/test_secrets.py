"""Secrets are searched for: in everything that secured servers write, print and answer while users come and go.

Servers are processes of their own and log at DEBUG. A secret may stand where its owner has put it (the configuration
files), where a command prints it once, and in the answers that super users get. Nowhere else, in any form.
"""

from __future__ import annotations

import asyncio
import base64
import json
import random
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from click.testing import CliRunner

from pyromq.ambient import SystemClock
from pyromq.cli.main import cli
from pyromq.mqadmin.main import run as mqadmin
from pyromq.protocol.command import Command
from pyromq.protocol.requests import RequestCode as Code
from pyromq.transport.client import RemotingClient
from tests.access.hidden import told_in, told_in_files
from tests.access.matrix import SUPER, signed
from tests.interop.peers import ours
from tests.interop.peers.java import free_broker_port
from tests.interop.peers.process import Program
from tests.interop.waiting import eventually

ADMINS, INNERS, PHRASE = "the admin's own, 27 long", "what servers sign with, 31", "a phrase that seals all secrets"
MADE, NEXT, TYPED = "made by a file, 24 long", "the next one of it, 26", "typed to mqadmin, 25"
OTHER, SHORT = "typed later, 22 chars", "too short, 12"
SECRETS = [ADMINS, INNERS, PHRASE, MADE, NEXT, TYPED, OTHER, SHORT]
SETTINGS = {
    "authenticationEnabled": "true",
    "authorizationEnabled": "true",
    "initAuthenticationUser": json.dumps({"username": SUPER, "password": ADMINS}),
    "innerClientAuthenticationCredentials": json.dumps({"accessKey": "inner", "secretKey": INNERS}),
    "accessSecret": PHRASE,
}
LOUD = ("--log-level", "debug")


class House:
    """A name server and a broker with users, and what commands have printed."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.names = ours.NameServer(home / "names", SETTINGS, arguments=LOUD)
        self.address = f"127.0.0.1:{free_broker_port()}"
        self.conf = home / "broker.conf"
        settings = SETTINGS | {
            "namesrvAddr": self.names.address,
            "listenPort": self.address.rpartition(":")[2],
            "storePathRootDir": str(home / "store"),
        }
        self.conf.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        command: list[str | Path] = [sys.executable, "-m", "pyromq.cli.main", "broker", "-c", self.conf, *LOUD]
        self.broker = Program(command, name="broker", cwd=home, env={"HOME": str(home)})
        self.broker.wait_for("pyromq broker ready on ")
        self.printed: list[str] = []
        self.allowed = {self.conf, self.names.conf}

    @property
    def programs(self) -> list[Program]:
        return [self.names.program, self.broker]

    def pyromq(self, *words: str, secret: str = ADMINS, who: str = SUPER) -> str:
        keys = {"PYROMQ_ACCESS_KEY": who, "PYROMQ_SECRET_KEY": secret}
        arguments = ["-n", self.names.address, "--timeout", "20", *LOUD, *words]
        return self._noted(CliRunner().invoke(cli, arguments, env=keys).output)

    def mqadmin(self, *words: str) -> str:
        lines: list[str] = []
        mqadmin([words[0], "-n", self.names.address, *words[1:]], lines.append, lines.append)
        return self._noted("\n".join(lines))

    def _noted(self, text: str) -> str:
        self.printed.append(text)
        return text

    def told(self) -> dict[object, list[bytes]]:
        """Every place that has a secret in it and should not."""
        found: dict[object, list[bytes]] = {}
        found.update(told_in_files(self.home, SECRETS, self.allowed).items())
        texts = {f"printed {number}": text for number, text in enumerate(self.printed)}
        for program in self.programs:
            texts[f"output of {program.name}"] = "\n".join(program.lines)
        found |= {name: told_in(text.encode(), SECRETS) for name, text in texts.items()}
        for program in self.programs:
            for file in ("cmdline", "environ"):
                path = Path(f"/proc/{program.pid}/{file}")
                if path.exists():
                    found[path] = told_in(path.read_bytes(), SECRETS)
        return {name: forms for name, forms in found.items() if forms}


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[House]:
    for name in ("PYROMQ_PROFILE", "PYROMQ_NAMESRV", "NAMESRV_ADDR", "ROCKETMQ_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PYROMQ_CONFIG", str(tmp_path / "profiles.toml"))
    # mqadmin runs here; the servers were given what they know by their files alone
    started = House(tmp_path / "house")
    monkeypatch.setenv("PYROMQ_ACCESS_KEY", SUPER)
    monkeypatch.setenv("PYROMQ_SECRET_KEY", ADMINS)
    yield started
    for program in started.programs:
        program.kill()


def users_come_and_go(house: House) -> None:
    file = house.home / "secret"
    house.allowed.add(file)
    file.write_text(MADE)
    assert "shop" in house.pyromq("user", "create", "shop", "--secret-file", str(file))
    file.write_text(NEXT)
    house.pyromq("user", "rotate", "shop", "--secret-file", str(file))
    house.pyromq("user", "rotate", "shop", "--finish", "--yes")
    assert "create user" in house.mqadmin("createUser", "-c", "DefaultCluster", "-u", "typed", "-p", TYPED).lower()
    house.mqadmin("createUser", "-c", "DefaultCluster", "-u", "typed", "-p", TYPED)  # who is there already
    house.mqadmin("updateUser", "-c", "DefaultCluster", "-u", "typed", "-p", OTHER)
    house.mqadmin("updateUser", "-c", "DefaultCluster", "-u", "nobody", "-p", OTHER)
    house.mqadmin("createUser", "-c", "NoCluster", "-u", "typed", "-p", TYPED)
    acl = ("createAcl", "-c", "DefaultCluster", "-s", "User:typed", "-r", "Topic:orders", "-a", "Pub", "-d", "Allow")
    house.mqadmin(*acl)
    house.pyromq("user", "create", "made")  # whose secret is printed, this once, and is none of those
    house.pyromq("user", "delete", "made", "--yes")


def everything_is_looked_at(house: House) -> None:
    for words in (
        ("user", "list"),
        ("user", "show", "shop"),
        ("user", "export"),
        ("acl", "list"),
        ("inspect", "-b", house.address),
        ("broker", "config", "get", "-b", house.address),
        ("doctor",),
        ("cluster", "list"),
        ("topic", "list", "--json"),
    ):
        house.pyromq(*words)
        house.pyromq(*words, who="shop", secret=NEXT)  # who may not
        house.pyromq(*words, who="shop", secret="guessed")
        house.pyromq(*words, who="typed", secret=MADE)
    for words in (
        ("getBrokerConfig", "-b", house.address),
        ("getNamesrvConfig",),
        ("brokerStatus", "-b", house.address),
    ):
        assert house.mqadmin(*words)
    house.pyromq("config", "check", str(house.conf))
    house.pyromq("config", "check", str(house.conf), "--json")
    house.pyromq("config", "check", str(house.names.conf), "--daemon", "namesrv")
    broken = house.home / "broken.conf"
    house.allowed.add(broken)
    for text in (
        f"initAuthenticationUser={ADMINS}",
        f'initAuthenticationUser={{"username":"{SUPER}","passwd":"{ADMINS}"}}',
        f'innerClientAuthenticationCredentials={{"accessKey":["{INNERS}"]}}',
        f"accessSecret={SHORT}",
        f'authenticationEnabled={TYPED}\ninitAuthenticationUser={{"username":"","password":"{ADMINS}"}}',
    ):
        broken.write_text(f"{text}\nauthenticationEnabled=true\n" if "authentication" not in text else f"{text}\n")
        house.pyromq("config", "check", str(broken))
        house.pyromq("broker", "-c", str(broken), "--listen", "127.0.0.1:0", "--store-path-root-dir", "/proc/none")


async def is_asked_by_hand(house: House) -> None:
    """Requests that name a secret where none belongs, and answers that might repeat it."""
    async with RemotingClient(clock=SystemClock(), rng=random.Random(4)) as client:
        for address in (house.address, house.names.address):
            for code in (Code.UPDATE_BROKER_CONFIG, Code.UPDATE_NAMESRV_CONFIG):
                for text in (
                    f'initAuthenticationUser={{"username":"x","password":"{OTHER}"}}',
                    f"accessSecret={OTHER}",
                    f"tls.server.keyPassword={OTHER}",
                ):
                    command = Command(code=code, body=text.encode())
                    answer = await client.call(address, signed(command, SUPER, ADMINS), 20)
                    house._noted(f"{answer.remark} {answer.fields} {bytes(answer.body)!r}")
                    assert answer.code != 0
            odd: list[tuple[int, dict[str, str], object]] = [
                (Code.AUTH_CREATE_USER, {"username": "x" * 5000}, {"password": OTHER}),
                (Code.AUTH_CREATE_USER, {"username": "y"}, {"password": OTHER, "userType": 5}),
                (Code.AUTH_CREATE_USER, {}, {"password": OTHER}),
                (Code.AUTH_UPDATE_USER, {"username": "typed"}, [OTHER]),
                (Code.AUTH_CREATE_ACL, {"subject": "User:typed"}, {"password": OTHER, "policies": OTHER}),
            ]
            for number, fields, body in odd:
                for secret in (ADMINS, "guessed"):
                    command = Command(code=number, fields=dict(fields), body=json.dumps(body).encode())
                    answer = await client.call(address, signed(command, SUPER, secret), 20)
                    house._noted(f"{answer.remark} {answer.fields} {bytes(answer.body)!r}")


def test_no_secret_stands_where_it_should_not(house: House) -> None:
    eventually(lambda: "broker" in house.pyromq("cluster", "brokers"), "the broker is known")
    users_come_and_go(house)
    everything_is_looked_at(house)
    asyncio.run(is_asked_by_hand(house))
    assert house.told() == {}
    audited = [path for path in house.home.rglob("*") if path.is_file() and "audit" in str(path)]
    assert any(b"AUTH_CREATE_USER" in path.read_bytes() for path in audited)
    said = "\n".join(line for program in house.programs for line in program.lines)
    assert "user created" in said
    assert "request refused" in said
    house.broker.signal(signal.SIGTERM)
    house.broker.wait()
    house.names.program.signal(signal.SIGTERM)
    house.names.program.wait()
    assert house.told() == {}
    kept = list(house.home.rglob("access.json*"))
    assert any(b"siv1:" in path.read_bytes() for path in kept)  # the search would have found them there
    assert [path for path in kept if path.stat().st_mode & 0o077] == []


def test_a_secret_is_found_in_every_form() -> None:
    secret = 'a "secret" of 27 characters'
    for text in (
        secret,
        f"password={secret}, and more",
        json.dumps({"password": secret}),
        secret.encode().hex(),
        *(base64.b64encode(b"x" * before + secret.encode() + b" and more").decode() for before in range(5)),
        quote(secret),
    ):
        assert told_in(text.encode(), [secret]), text
    assert not told_in(b"another secret of some characters", [secret])
