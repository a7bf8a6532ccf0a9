"""Files of ACL 1.0: what RocketMQ's own migration makes of them, what its 4.9 lets accounts do, and what is refused."""

from __future__ import annotations

import os
import traceback
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.access.directory import AccessContent, Directory
from pyromq.access.plain.accounts import read_file
from pyromq.access.plain.addresses import AddressList
from pyromq.access.plain.files import ReadFiles, contents
from pyromq.access.plain.users import judged_policies, judged_user, migrated_policies, migrated_user
from pyromq.access.policies import AclConflict
from pyromq.errors import ConfigError
from pyromq.protocol.access import Action, Resource

PUB, SUB, GET, DELETE = Action.PUB, Action.SUB, Action.GET, Action.DELETE
APACHES = b"""
globalWhiteRemoteAddresses:
  - 10.10.103.*
accounts:
  - accessKey: RocketMQ
    secretKey: 12345678
    whiteRemoteAddress:
    admin: false
    defaultTopicPerm: DENY
    defaultGroupPerm: SUB
    topicPerms:
      - topicA=DENY
      - topicB=PUB|SUB
    groupPerms:
      - groupB=PUB|SUB
      - groupC=SUB
  - accessKey: rocketmq2
    secretKey: 12345678
    whiteRemoteAddress: 192.168.1.*
    admin: true
"""


def test_accounts_are_migrated_as_rocketmq_does() -> None:
    found = read_file(APACHES, "plain_acl.yml")
    users = [migrated_user(account) for account in found.accounts]
    assert [(one.username, one.password, one.user_type) for one in users] == [
        ("RocketMQ", "12345678", "Normal"),
        ("rocketmq2", "12345678", "Super"),
    ]
    entries = [
        (policy.policy_type, entry.resource, entry.actions, entry.decision)
        for policy in migrated_policies(found.accounts[0])
        for entry in policy.entries
    ]
    assert entries == [
        ("Custom", "Topic:topicA", ["All"], "Deny"),
        ("Custom", "Topic:topicB", ["Pub", "Sub"], "Allow"),
        ("Custom", "Group:groupB", ["Pub", "Sub"], "Allow"),
        ("Custom", "Group:groupC", ["Sub"], "Allow"),
        ("Default", "Topic:*", ["All"], "Deny"),
        ("Default", "Group:*", ["Sub"], "Allow"),
    ]
    assert migrated_policies(found.accounts[1]) == []
    assert (str(found.white), str(found.accounts[1].white)) == ("10.10.103.*", "192.168.1.*")


def judging(conflict: AclConflict, **account: object) -> Directory:
    import yaml

    text = yaml.safe_dump({"accounts": [{"accessKey": "account", "secretKey": "a secret"} | account]})
    (one,) = read_file(text.encode(), "plain_acl.yml").accounts
    directory = Directory(conflict=conflict)
    directory.derive(AccessContent({"account": judged_user(one)}, {"account": judged_policies(one)}))
    return directory


@pytest.mark.parametrize("conflict", AclConflict)
def test_the_permission_of_a_name_says_everything_about_it(conflict: AclConflict) -> None:
    """As `checkPerm` of 4.9: the default does not count for a name that has a permission of its own."""
    perms = {"topicPerms": ["P=PUB", "S=SUB", "N=DENY", "%RETRY%G=SUB", "a*=PUB"], "defaultTopicPerm": "SUB"}
    directory = judging(conflict, **perms)

    def may(kind: Resource, name: str, *actions: Action) -> bool:
        return directory.fault("account", kind, name, actions, "10.1.1.1") is None

    topics = {name: [may(Resource.TOPIC, name, each) for each in (PUB, SUB, DELETE)] for name in ("P", "S", "N", "X")}
    assert topics == {
        "P": [True, False, False],
        "S": [False, True, False],
        "N": [False, False, False],
        "X": [False, True, False],
    }
    assert may(Resource.TOPIC, "S", SUB, GET)
    assert not may(Resource.TOPIC, "ab", PUB)  # a star is a star
    assert may(Resource.GROUP, "G", SUB)
    assert not may(Resource.GROUP, "H", SUB)  # no default is DENY
    assert may(Resource.TOPIC, "RMQ_SYS_TRACE_TOPIC", PUB)
    assert not may(Resource.CLUSTER, "DefaultCluster", GET)


WORDS = {"DENY": set(), "PUB": {PUB}, "SUB": {SUB}, "PUB|SUB": {PUB, SUB}, "SUB|PUB": {PUB, SUB}}
NAMES = st.sampled_from(("A", "B", "a*", "%RETRY%A"))
PERMISSIONS = st.dictionaries(NAMES, st.sampled_from(sorted(WORDS)), max_size=4)
DEFAULTS = st.sampled_from((None, *WORDS))


@given(
    topics=PERMISSIONS,
    groups=PERMISSIONS.map(lambda one: {name: word for name, word in one.items() if not name.startswith("%")}),
    topic_default=DEFAULTS,
    group_default=DEFAULTS,
    is_admin=st.booleans(),
    conflict=st.sampled_from(AclConflict),
)
def test_sending_and_consuming_is_judged_as_by_the_rules_of_4_9(
    topics: dict[str, str],
    groups: dict[str, str],
    topic_default: str | None,
    group_default: str | None,
    is_admin: bool,
    conflict: AclConflict,
) -> None:
    """Against `PlainPermissionManager.checkPerm` and `Permission` of 4.9.8, word by word."""
    account: dict[str, object] = {"admin": is_admin, "defaultTopicPerm": topic_default}
    account |= {"defaultGroupPerm": group_default}
    account |= {"topicPerms": [f"{name}={word}" for name, word in topics.items()]}
    account |= {"groupPerms": [f"{name}={word}" for name, word in groups.items()]}
    directory = judging(conflict, **account)
    owned = {f"%RETRY%{name}": word for name, word in groups.items()} | topics  # topics are read behind groups

    def allowed(resource: str, needed: Action) -> bool:
        if is_admin and not owned:
            return True
        default = group_default if resource.startswith("%RETRY%") else topic_default
        return needed in WORDS[owned.get(resource, default or "DENY")]

    for name in ("A", "B", "a*", "ab"):
        for action in (PUB, SUB):
            fault = directory.fault("account", Resource.TOPIC, name, (action,), "10.1.1.1")
            assert (fault is None) is allowed(name, action), (name, action)
        fault = directory.fault("account", Resource.GROUP, name, (SUB,), "10.1.1.1")
        assert (fault is None) is allowed(f"%RETRY%{name}", SUB), name


def test_an_admin_with_permissions_has_no_others_for_messages() -> None:
    directory = judging(AclConflict.ALLOW, admin=True, topicPerms=["P=PUB"], defaultGroupPerm="SUB")

    def may(kind: Resource, name: str, action: Action) -> bool:
        return directory.fault("account", kind, name, (action,), "10.1.1.1") is None

    assert may(Resource.TOPIC, "P", PUB)
    assert [may(Resource.TOPIC, name, action) for name, action in (("P", SUB), ("X", PUB), ("X", SUB))] == [False] * 3
    assert all(may(Resource.TOPIC, name, DELETE) for name in ("P", "X"))
    assert may(Resource.CLUSTER, "DefaultCluster", Action.UPDATE)
    assert may(Resource.GROUP, "G", SUB)
    everything = judging(AclConflict.ALLOW, admin=True)
    assert everything.fault("account", Resource.TOPIC, "X", (PUB,), "10.1.1.1") is None


UNREADABLE = (  # each for another fault of PyYAML: a tag that it does not know, a KeyError, an AttributeError, ...
    b"!secret-ish}]",
    b"!secret-ish!x x}]",
    b"*secret-ish}]",
    b'"secret-ish\\q"}]',
    b"!!bool secret-ish}]",
    b"!!timestamp secret-ish}]",
    b"!!int secret-ish}]",
    b"!!int ''}]",
    b"!!float " + b"1:" * 300 + b"1}]",
    b"[" * 20_000,
)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"accounts: [{accessKey: secret-ish", "is no YAML"),
        (b"accounts: 7", "a list of accounts"),
        (b"- a", "a list of accounts"),
        (b"accounts: [x]", "account 1 has no accessKey"),
        (b"accounts: [{accessKey: abcdefg}]", "no secretKey"),
        (b"accounts: [{accessKey: abcdefg, secretKey: short}]", "secretKey is too short"),
        (b"accounts: [{accessKey: abcdefg, secretKey: true}]", "in quotes"),
        (b"accounts: [{accessKey: abcdefg, secretKey: secret-ish, admin: maybe}]", "admin is true or false"),
        (b"accounts: [{accessKey: abcdefg, secretKey: secret-ish, topicPerms: [T]}]", "it is NAME="),
        (b"accounts: [{accessKey: abcdefg, secretKey: secret-ish, topicPerms: T=PUB}]", "is a list"),
        (b"accounts: [{accessKey: abcdefg, secretKey: secret-ish, topicPerms: [T=PUBLISH]}]", "'PUBLISH' is none of"),
        (b"accounts: [{accessKey: abcdefg, secretKey: secret-ish, defaultTopicPerm: pub}]", "'pub' is none of"),
        (
            b"accounts: [{accessKey: abcdefg, secretKey: secret-ish, whiteRemoteAddress: 10.1.1}]",
            "'10.1.1' is no address",
        ),
        (b"globalWhiteRemoteAddresses: [10.1.1.300]", "'10.1.1.300' is no address"),
        (b"accounts: !!python/object/apply:os.system [id]", "is no YAML"),
        (b"accounts: [2025-13-45]", "is no YAML"),
        *((b"accounts: [{accessKey: abcdefg, secretKey: " + value, "is no YAML") for value in UNREADABLE),
        (b"accounts: [{accessKey: abcdefg, secretKey: 0x" + b"f" * 5000 + b"}]", "in quotes"),
    ],
)
def test_what_is_no_such_file_is_refused_without_its_secrets(text: bytes, why: str) -> None:
    with pytest.raises(ConfigError, match=why) as fault:
        read_file(text, "plain_acl.yml")
    assert "secret-ish" not in str(fault.value)


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        ("*", ["10.1.1.1", "::1"], ["nonsense", ""]),
        ("*.*.*.*", ["10.1.1.1"], []),
        ("10.1.2.3", ["10.1.2.3", "::ffff:10.1.2.3"], ["10.1.2.30", "::10.1.2.3"]),
        ("10.1.2.*", ["10.1.2.0", "10.1.2.255"], ["10.1.3.1", "::1"]),
        ("10.1.*.*", ["10.1.2.3"], ["10.2.2.3"]),
        ("10.1.2.1-10", ["10.1.2.1", "10.1.2.10"], ["10.1.2.0", "10.1.2.11"]),
        ("10.1.1-5.*", ["10.1.5.9"], ["10.1.6.9"]),
        ("10.1.2.{1,20}", ["10.1.2.1", "10.1.2.20"], ["10.1.2.2"]),
        ("10.1.2.3,10.1.2.5", ["10.1.2.5"], ["10.1.2.4"]),
        ("10.1.16.0/20, 10.9.9.{1,2}", ["10.1.31.9", "10.9.9.2"], ["10.1.32.0", "10.9.9.3"]),
        ("1050::5:600:300c:*", ["1050::5:600:300c:77"], ["1050::5:600:300d:77"]),
        ("5::7:6:1-200:*", ["5::7:6:1ff:1", "5::7:6:200:ffff"], ["5::7:6:201:1"]),
        ("fe80::{1,a}", ["fe80::1", "FE80:0:0::A"], ["fe80::2"]),
        ("", [], ["10.1.1.1"]),
    ],
)
def test_white_lists_are_read_as_in_rocketmq(text: str, inside: list[str], outside: list[str]) -> None:
    found = AddressList.parse(text)
    assert [one for one in inside if not found.covers(one)] == []
    assert [one for one in outside if found.covers(one)] == []


@pytest.mark.parametrize(
    "text",
    [
        "10.1.2",
        "10.1.2.{1",
        "10.1.2.1}",
        "10.1.2.5-1",
        "10.1.2.-1",
        "010.1.1.*",
        "a.b.c.*",
        "10.1.2.3/33",
        "5:*",
        "1.2.3.4.5.6.7.8",
    ],
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no address"):
        AddressList.parse(text)


@pytest.mark.parametrize("loader", ["CSafeLoader", "SafeLoader"])
@pytest.mark.parametrize("value", UNREADABLE)
def test_neither_loader_of_yaml_shows_a_secret(value: bytes, loader: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import yaml

    monkeypatch.setattr(yaml, "CSafeLoader", getattr(yaml, loader))
    with pytest.raises(ConfigError, match="is no YAML") as fault:
        read_file(b"accounts: [{accessKey: abcdefg, secretKey: " + value, "plain_acl.yml")
    assert "secret-ish" not in "".join(traceback.format_exception(fault.value))


def test_a_file_that_cannot_be_read_stands_in_no_others_way(tmp_path: Path) -> None:
    folder, account = tmp_path / "conf" / "acl", "accounts: [{{accessKey: account, secretKey: {}}}]"
    folder.mkdir(parents=True)
    (tmp_path / "conf" / "plain_acl.yml").mkdir()  # no file at all
    files = ReadFiles()
    for secret in ("secret-of-old", "secret-of-now"):
        (folder / "more.yml").write_text(account.format(secret))
        assert files.take(contents(tmp_path))
        assert [account.secret for _, account in files.accounts()] == [secret]
        assert ["cannot be read" in fault for fault in files.faults.values()] == [True]
    assert not files.take(contents(tmp_path))


def test_folders_that_are_hidden_or_taken_away_are_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As Kubernetes lays out a ConfigMap: the files point into a hidden folder, which is replaced at any time."""
    folder = tmp_path / "conf" / "acl"
    hidden, leaving = folder / "..2024_01", folder / "leaving"
    for each in (hidden, leaving):
        each.mkdir(parents=True)
        (each / "users.yml").write_text("accounts: [{accessKey: account, secretKey: a-secret}]")
    (folder / "..data").symlink_to(hidden.name)
    (folder / "shown.yml").symlink_to("..data/users.yml")
    looked_at: list[str] = []
    scan = os.scandir

    def scan_late(path: str | os.PathLike[str]) -> object:
        looked_at.append(Path(path).name)
        if Path(path) == leaving:
            leaving.rename(tmp_path / "away")
        return scan(path)

    monkeypatch.setattr(os, "scandir", scan_late)
    assert list(contents(tmp_path)) == [folder / "shown.yml"]
    assert looked_at == ["acl", "leaving"]


def test_files_count_in_order_and_keep_what_was_whole(tmp_path: Path) -> None:
    main, more = tmp_path / "conf" / "plain_acl.yml", tmp_path / "conf" / "acl" / "deep" / "more.yaml"
    more.parent.mkdir(parents=True)
    account = "accounts: [{{accessKey: {}, secretKey: secret-{}, admin: true}}]"
    main.write_text(account.format("account", "main"))
    more.write_text(account.format("account", "more"))
    (more.parent / ".hidden.yml").write_text("broken: [")
    files = ReadFiles()

    def secrets() -> list[str]:
        files.take(contents(tmp_path))
        return [account.secret for _, account in files.accounts()]

    assert secrets() == ["secret-more", "secret-main"]
    assert not files.take(contents(tmp_path))
    main.write_text("accounts: [")
    assert (secrets(), list(files.faults)) == (["secret-more", "secret-main"], [main])
    main.write_text("")
    assert (secrets(), "is empty" in files.faults[main]) == (["secret-more", "secret-main"], True)
    main.write_text("accounts: []")
    assert (secrets(), files.faults) == (["secret-more"], {})
    more.unlink()
    assert secrets() == []
