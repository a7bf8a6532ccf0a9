"""`pyromq user` and `pyromq acl` as administrators type them, on two brokers and a name server that ask who it is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pyromq.cli.main import cli
from tests.access.matrix import SECRET, SUPER
from tests.interop.peers import ours
from tests.interop.waiting import eventually

INNER = "inner"
SETTINGS = {
    "authenticationEnabled": "true",
    "authorizationEnabled": "true",
    "initAuthenticationUser": json.dumps({"username": SUPER, "password": SECRET}),
    "innerClientAuthenticationCredentials": json.dumps({"accessKey": INNER, "secretKey": SECRET}),
}


class Guarded:
    """Two brokers and their name server, with users, and commands of whom one likes."""

    def __init__(self, names: str) -> None:
        self.names = names

    def run(self, *words: str, who: str = SUPER, secret: str = SECRET, text: str | None = None) -> Result:
        keys = {"PYROMQ_ACCESS_KEY": who, "PYROMQ_SECRET_KEY": secret}
        return CliRunner().invoke(cli, ["-n", self.names, "--timeout", "20", *words], env=keys, input=text)

    def shown(self, *words: str, text: str | None = None) -> str:
        done = self.run(*words, text=text)
        assert done.exit_code == 0, done.output
        return done.stdout

    def rows(self, *words: str) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.shown(*words, "--json").splitlines()]

    def refused(self, *words: str, code: int = 1) -> str:
        done = self.run(*words)
        assert done.exit_code == code, done.output
        return done.stderr

    def may(self, secret: str, who: str = "shop") -> bool:
        done = self.run("pub", "orders", "hello", who=who, secret=secret)
        assert done.exit_code in (0, 78), done.output
        return done.exit_code == 0


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    home = tmp_path_factory.mktemp("guarded")
    names = ours.NameServer(home / "names", SETTINGS)
    started = [ours.Broker(home / one, [names.address], SETTINGS, name=one) for one in ("broker-a", "broker-b")]
    try:
        found = Guarded(names.address)
        eventually(lambda: len(found.run("cluster", "brokers", "--json").stdout.splitlines()) == 2, "both are known")
        found.shown("topic", "create", "orders", "--queues", "2")
        yield found
    finally:
        for one in started:
            one.kill()
        names.kill()


def test_a_user_is_made_on_all_servers_and_his_secret_is_replaced_without_a_gap(guarded: Guarded) -> None:
    made = guarded.rows("user", "create", "shop")[0]
    first = str(made["secret"])
    assert len(first) >= 32
    assert "is on broker-a, broker-b, name server already" in guarded.refused("user", "create", "shop")
    assert not guarded.may(first)
    guarded.shown("acl", "create", "shop", "Topic:orders", "Group:*", "--allow", "pub,Sub")
    assert guarded.may(first)
    row = next(row for row in guarded.rows("user", "list") if row["user"] == "shop")
    assert row == {
        "user": "shop",
        "type": "Normal",
        "status": "enable",
        "role": "",
        "oldSecretValid": False,
        "on": "all",
    }
    second = str(guarded.rows("user", "rotate", "shop")[0]["secret"])
    assert [guarded.may(first), guarded.may(second)] == [True, True]
    assert "has two secrets already" in guarded.refused("user", "rotate", "shop", code=78)
    guarded.shown("user", "rotate", "shop", "--finish", "--yes")
    assert [guarded.may(first), guarded.may(second)] == [False, True]
    assert "nothing to finish" in guarded.refused("user", "rotate", "shop", "--finish", "--yes")
    shown = guarded.shown("user", "rotate", "shop", "--at-once", "--secret-file", "-", "--yes", text="mine, all mine\n")
    assert "mine, all mine" not in shown
    assert [guarded.may(second), guarded.may("mine, all mine")] == [False, True]
    guarded.shown("user", "update", "shop", "--disable", "--yes")
    assert not guarded.may("mine, all mine")
    for words in (("user", "list"), ("user", "show", "shop"), ("user", "export"), ("acl", "list")):
        shown = guarded.shown(*words)
        assert not [secret for secret in (first, second, "mine, all mine", SECRET) if secret in shown], words
    guarded.shown("user", "delete", "shop", "--yes")
    assert "there is no user 'shop'" in guarded.refused("user", "show", "shop")


def test_nobody_shuts_himself_out(guarded: Guarded, tmp_path: Path) -> None:
    for what in ("delete", "update --disable", "update --normal"):
        command, *option = what.split()
        assert f"you are {SUPER}: nobody is to" in guarded.refused("user", command, SUPER, *option, "--yes", code=78)
    file = tmp_path / "users.json"
    file.write_text(json.dumps({"users": [{"username": SUPER, "userStatus": "Disable"}]}))
    assert "to disable himself" in guarded.refused("user", "import", str(file), "--yes", code=78)
    file.write_text(json.dumps({"users": [{"username": SUPER, "userStatus": "enable", "userType": "Super"}]}))
    guarded.shown("user", "import", str(file), "--yes")
    assert "sign their requests to each other as" in guarded.refused("user", "delete", INNER, "--yes", code=78)


def test_one_server_tells_the_others(guarded: Guarded) -> None:
    def is_on_all() -> bool:
        rows = [row for row in guarded.rows("user", "list") if row["user"] == "solo"]
        return [row["on"] for row in rows] == ["all"]

    secret = str(guarded.rows("user", "create", "solo", "-b", "broker-a")[0]["secret"])
    guarded.shown("acl", "create", "solo", "Topic:orders", "--allow", "Pub", "-b", "broker-a")
    eventually(is_on_all, "all servers know the user")
    eventually(lambda: guarded.rows("acl", "list")[-1]["on"] == "all", "and what he may do")
    assert guarded.may(secret, "solo")
    guarded.shown("user", "delete", "solo", "--yes")
    assert "there is no user 'solo'" in guarded.refused("user", "show", "solo")


def test_policies_and_roles(guarded: Guarded) -> None:
    secret = str(guarded.rows("user", "create", "alice", "--role", "reader")[0]["secret"])
    assert next(row for row in guarded.rows("user", "list") if row["user"] == "alice")["role"] == "reader"
    keys = {"who": "alice", "secret": secret}
    assert guarded.run("topic", "list", **keys).exit_code == 0
    assert "permission to access" in guarded.run("topic", "create", "hers", **keys).output
    guarded.shown("acl", "role", "alice", "operator", "--yes")
    assert guarded.run("topic", "create", "hers", **keys).exit_code == 0
    for words in (("user", "create", "friend"), ("broker", "config", "set", "fileReservedTime", "1", "--yes")):
        assert "permission to access" in guarded.run(*words, **keys).output
    done = guarded.run("topic", "delete", "hers", "--yes", **keys)
    assert (done.exit_code, "name servers still list it" in done.stderr) == (0, True), done.output
    assert (
        guarded.run("topic", "delete", "hers", "--yes", **keys).exit_code == 78
    )  # nothing is left that she may delete
    guarded.shown("topic", "delete", "hers", "--yes")
    assert "there is no topic 'hers'" in guarded.refused("topic", "delete", "hers", "--yes")
    guarded.shown("acl", "role", "alice", "administrator", "--yes")
    assert guarded.run("user", "create", "friend", **keys).exit_code == 0
    assert "by super user" in guarded.run("user", "create", "chief", "--super", "--yes", **keys).output
    guarded.shown("acl", "create", "alice", "Topic:secret*", "--deny", "All", "--from", "10.0.0.0/8")
    assert guarded.rows("acl", "list", "Topic:secret*") == [
        {"user": "alice", "policy": "Custom", "resource": "Topic:secret*", "actions": "All", "from": "10.0.0.0/8"}
        | {"decision": "Deny", "on": "all"}
    ]
    guarded.shown("acl", "delete", "alice", "Topic:secret*", "--yes")
    guarded.shown("acl", "role", "alice", "none", "--yes")
    assert "has no permissions" in guarded.refused("acl", "show", "alice")
    assert "is no action" in guarded.refused("acl", "create", "alice", "Topic:x", "--allow", "Send", code=64)
    assert "is no resource" in guarded.refused("acl", "create", "alice", "x", "--allow", "Pub", code=64)


def test_users_go_to_a_file_and_come_back(guarded: Guarded, tmp_path: Path) -> None:
    secret = str(guarded.rows("user", "create", "carol")[0]["secret"])
    guarded.shown("acl", "create", "carol", "Topic:orders", "--allow", "Pub")
    file = tmp_path / "users.json"
    guarded.shown("user", "export", str(file), "--secrets")
    assert file.stat().st_mode & 0o777 == 0o600
    content = json.loads(file.read_text())
    kept = {"users": [one for one in content["users"] if one["username"] == "carol"]}
    kept["acls"] = [one for one in content["acls"] if one["subject"] == "User:carol"]
    assert kept["users"] == [
        {"username": "carol", "password": secret, "userType": "Normal", "userStatus": "enable"},
    ]
    file.write_text(json.dumps(kept))
    guarded.shown("user", "delete", "carol", "--yes")
    assert "make, policies" in guarded.shown("user", "import", str(file), "--dry-run")
    assert not guarded.may(secret, "carol")
    guarded.shown("user", "import", str(file), "--yes")
    assert guarded.may(secret, "carol")
    guarded.shown("user", "delete", "carol", "--yes")
    del kept["users"][0]["password"]
    file.write_text(json.dumps(kept))
    anew = next(row for row in guarded.rows("user", "import", str(file), "--yes") if row["user"] == "carol")
    assert not guarded.may(secret, "carol")
    assert guarded.may(str(anew["secret"]), "carol")
    file.write_text('{"users": [{}]}')
    assert "without a username" in guarded.refused("user", "import", str(file), "--yes", code=78)


@pytest.mark.parametrize("how", [(), ("--pop",)])
def test_a_member_without_a_right_to_the_group_is_refused_at_once(guarded: Guarded, how: tuple[str, ...]) -> None:
    who = f"member{len(how)}"
    secret = str(guarded.rows("user", "create", who)[0]["secret"])
    guarded.shown("acl", "create", who, "Topic:orders", "Group:mine", "--allow", "Pub,Sub")
    keys = {"who": who, "secret": secret}
    assert guarded.run("pub", "orders", "hello", **keys).exit_code == 0
    done = guarded.run("sub", "orders", "--group", "theirs", "--from", "first", "--count", "1", *how, **keys)
    assert (done.exit_code, "permission to access" in done.stderr) == (78, True), done.output
    done = guarded.run("sub", "orders", "--group", "mine", "--from", "first", "--count", "1", *how, **keys)
    assert done.exit_code == 0, done.output


def test_who_may_only_look_at_groups_is_refused_messages_at_once(guarded: Guarded) -> None:
    secret = str(guarded.rows("user", "create", "onlooker", "--role", "reader")[0]["secret"])
    done = guarded.run("sub", "orders", "--count", "1", who="onlooker", secret=secret)
    assert (done.exit_code, "permission to access" in done.stderr) == (78, True), done.output


def test_a_sender_to_a_topic_that_is_not_there_hears_so(guarded: Guarded) -> None:
    secret = str(guarded.rows("user", "create", "vendor")[0]["secret"])
    guarded.shown("acl", "create", "vendor", "Topic:shop-*", "--allow", "Pub")
    auto = ("broker", "config", "set", "autoCreateTopicEnable")
    guarded.shown(*auto, "false", "--yes")
    done = guarded.run("pub", "shop-new", "a", who="vendor", secret=secret)
    guarded.shown(*auto, "true", "--yes")
    said = " ".join(done.stderr.split())
    assert (done.exit_code != 0, "shop-new" in said, "not exist" in said) == (True, True, True), said
    assert "right Create on" in said
    assert "Cluster:" not in said
    assert guarded.run("pub", "shop-new", "a", who="vendor", secret=secret).exit_code == 0  # the send makes it


def test_doctor_tells_a_refusal_from_a_server_that_is_away(guarded: Guarded) -> None:
    secret = str(guarded.rows("user", "create", "newcomer")[0]["secret"])
    done = guarded.run("doctor", who="newcomer", secret=secret)
    said = " ".join(done.stdout.split())
    assert (done.exit_code, "answers, and refuses" in said, "does not answer" in said) == (2, True, False), said
    assert "pyromq acl role USER reader" in said
    guarded.shown("acl", "create", "newcomer", "Cluster:*", "--allow", "Get,List")
    done = guarded.run("doctor", who="newcomer", secret=secret)
    said = " ".join(done.stdout.split())
    assert (done.exit_code, "could not be checked" in said) == (1, True), done.output
    guarded.shown("acl", "role", "newcomer", "reader", "--yes")
    assert "could not be checked" not in guarded.run("doctor", who="newcomer", secret=secret).output
