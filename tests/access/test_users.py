"""Users and policies on a running broker: on disk when they are answered, sealed there, and judged at once."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from pyromq.access.sealing import SivSeal
from pyromq.broker.config import BrokerConfig
from pyromq.errors import ConfigError
from pyromq.model.codes import ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.requests import RequestCode as Code
from tests.access.matrix import ON, SECRET, SUPER, is_refused, signed
from tests.broker.running import Running, running_broker, turns_until

PASSWORD, LATER = "shop's own password", "shop's next password"


async def ask(
    broker: Running, row: int, who: str = SUPER, secret: str = SECRET, body: Any = None, **fields: str
) -> Command:
    data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    command = Command(code=row, fields=fields, body=data)
    return await broker.client.call(broker.address, signed(command, who, secret), 20)


async def make_shop(broker: Running, *entries: dict[str, Any]) -> None:
    answer = await ask(broker, Code.AUTH_CREATE_USER, username="shop", body={"password": PASSWORD})
    assert answer.code == 0, answer.remark
    if entries:
        body = {"policies": [{"entries": list(entries)}]}
        assert (await ask(broker, Code.AUTH_CREATE_ACL, subject="User:shop", body=body)).code == 0


def allow(resource: str, *actions: str) -> dict[str, Any]:
    return {"resource": resource, "actions": actions, "decision": "Allow"}


async def send(broker: Running, topic: str, secret: str = PASSWORD, **more: str) -> Command:
    fields = {"producerGroup": "P", "topic": topic, "defaultTopic": "TBW102", "defaultTopicQueueNums": "1"}
    fields |= {"queueId": "0", "sysFlag": "0", "bornTimestamp": "1700000000000", "flag": "0", "properties": ""} | more
    return await ask(broker, Code.SEND_MESSAGE, "shop", secret, b"hello", **fields)


async def pull(broker: Running, wait_ms: int = 0) -> Command:
    fields = {"consumerGroup": "G", "topic": "T", "queueId": "0", "queueOffset": "0", "maxMsgNums": "32"}
    fields |= {"sysFlag": "6" if wait_ms else "4", "commitOffset": "0", "suspendTimeoutMillis": str(wait_ms)}
    return await ask(broker, Code.PULL_MESSAGE, "shop", PASSWORD, subscription="*", subVersion="0", **fields)


async def test_users_outlive_a_restart_and_passwords_stand_nowhere(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with running_broker(tmp_path, **ON) as broker:
        await make_shop(broker, allow("Topic:T", "Pub"))
        assert (await send(broker, "T")).code == 0
        assert is_refused(await send(broker, "Other"))
        assert is_refused(await send(broker, "T", "guessed"))
        settings = await ask(broker, Code.GET_BROKER_CONFIG)
        assert SECRET.encode() not in bytes(settings.body)
    check_hidden(tmp_path, caplog.text)
    async with running_broker(tmp_path, **ON) as broker:
        assert (await send(broker, "T")).code == 0
        assert is_refused(await send(broker, "Other"))


async def test_a_user_of_the_settings_who_was_deleted_stays_so_while_there_is_another_administrator(
    tmp_path: Path,
) -> None:
    async with running_broker(tmp_path, **ON) as broker:
        body = {"password": PASSWORD, "userType": "Super"}
        assert (await ask(broker, Code.AUTH_CREATE_USER, username="root", body=body)).code == 0
        assert (await ask(broker, Code.AUTH_DELETE_USER, "root", PASSWORD, username=SUPER)).code == 0
    async with running_broker(tmp_path, **ON) as broker:
        assert is_refused(await ask(broker, Code.AUTH_LIST_USER))
        assert (await ask(broker, Code.AUTH_DELETE_USER, "root", PASSWORD, username="root")).code == 0
    async with running_broker(tmp_path, **ON) as broker:  # the way back: nobody else could get in
        assert (await ask(broker, Code.AUTH_LIST_USER)).code == 0


def check_hidden(folder: Path, logged: str) -> None:
    written = [path for path in folder.rglob("*") if path.is_file()]
    for secret in (PASSWORD, SECRET):
        assert [path for path in written if secret.encode() in path.read_bytes()] == []
        assert secret not in logged
    assert (folder / "pyromq" / "access.key").stat().st_mode & 0o777 == 0o600


async def test_another_key_opens_nothing_and_says_so(tmp_path: Path) -> None:
    async with running_broker(tmp_path, **ON) as broker:
        await make_shop(broker)
    (tmp_path / "pyromq" / "access.key").write_bytes(bytes(64))
    with pytest.raises(ConfigError, match="sealed with another key"):
        async with running_broker(tmp_path, **ON):
            pass


async def test_a_phrase_of_the_environment_seals_without_a_key_file(tmp_path: Path) -> None:
    phrase: dict[str, Any] = {"access_secret": "correct horse battery staple"}
    async with running_broker(tmp_path, **ON, **phrase) as broker:
        await make_shop(broker, allow("Topic:T", "Pub"))
    assert not (tmp_path / "pyromq" / "access.key").exists()
    async with running_broker(tmp_path, **ON, **phrase) as broker:
        assert (await send(broker, "T")).code == 0


async def test_a_password_is_replaced_without_a_gap(tmp_path: Path) -> None:
    async with running_broker(tmp_path, **ON) as broker:
        await make_shop(broker, allow("Topic:T", "Pub"))
        change = {"username": "shop", "keepOld": "true"}
        assert (await ask(broker, Code.AUTH_UPDATE_USER, body={"password": LATER}, **change)).code == 0
        assert [(await send(broker, "T", each)).code for each in (PASSWORD, LATER)] == [0, 0]
        assert (await ask(broker, Code.AUTH_UPDATE_USER, body={}, username="shop", dropOld="true")).code == 0
        assert (await send(broker, "T", LATER)).code == 0
        assert is_refused(await send(broker, "T", PASSWORD))
        assert (await ask(broker, Code.AUTH_UPDATE_USER, body={"userStatus": "disable"}, username="shop")).code == 0
        assert is_refused(await send(broker, "T", LATER))


async def test_a_misspelt_word_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    async with running_broker(tmp_path, **ON) as broker:
        await make_shop(broker, allow("Topic:T", "Pub"))
        for body, right in (
            (
                {"userStatus": "disabled", "password": LATER},
                "userStatus 'disabled' is not known: it is enable or disable",
            ),
            ({"userType": "Supper"}, "userType 'Supper' is not known: it is Super or Normal"),
        ):
            answer = await ask(broker, Code.AUTH_UPDATE_USER, body=body, username="shop")
            assert (answer.code, answer.remark) == (ResponseCode.NO_PERMISSION, right)
        assert (await send(broker, "T")).code == 0
        for status in ("", "DISABLE"):
            assert (await ask(broker, Code.AUTH_UPDATE_USER, body={"userStatus": status}, username="shop")).code == 0
        assert is_refused(await send(broker, "T"))


async def test_the_user_that_servers_sign_as_stays(tmp_path: Path) -> None:
    inner: dict[str, Any] = {"inner_client_authentication_credentials": '{"accessKey":"inner","secretKey":"theirs"}'}
    async with running_broker(tmp_path, **ON | inner) as broker:
        for row, body in (
            (Code.AUTH_DELETE_USER, None),
            (Code.AUTH_UPDATE_USER, {"userStatus": "disable"}),
            (Code.AUTH_UPDATE_USER, {"userType": "Normal"}),
        ):
            answer = await ask(broker, row, username="inner", body=body)
            assert answer.code == ResponseCode.NO_PERMISSION
            assert "innerClientAuthenticationCredentials" in (answer.remark or "")
            assert (await ask(broker, Code.AUTH_LIST_USER, "inner", "theirs")).code == 0
        change = {"password": "next", "userType": "Super", "userStatus": "enable"}
        assert (await ask(broker, Code.AUTH_UPDATE_USER, username="inner", body=change)).code == 0
    other = {"inner_client_authentication_credentials": '{"accessKey":"other","secretKey":"theirs"}'}
    async with running_broker(tmp_path, **ON | other) as broker:
        assert (await ask(broker, Code.AUTH_DELETE_USER, username="inner")).code == 0
        assert is_refused(await ask(broker, Code.AUTH_LIST_USER, "inner", "next"))


async def test_passwords_are_shown_to_super_users_alone(tmp_path: Path) -> None:
    async with running_broker(tmp_path, **ON) as broker:
        await make_shop(broker, allow("Cluster:*", "All"))
        for row, fields in ((Code.AUTH_GET_USER, {"username": "shop"}), (Code.AUTH_LIST_USER, {})):
            assert PASSWORD.encode() in bytes((await ask(broker, row, **fields)).body)
            answer = await ask(broker, row, "shop", PASSWORD, **fields)
            assert answer.code == 0
            assert b"shop" in bytes(answer.body)
            assert PASSWORD.encode() not in bytes(answer.body)
    async with running_broker(tmp_path, **ON, allow_copy_user=False) as broker:
        assert PASSWORD.encode() not in bytes((await ask(broker, Code.AUTH_LIST_USER)).body)


async def test_who_administers_users_makes_no_super_users(tmp_path: Path) -> None:
    async with running_broker(tmp_path, **ON) as broker:
        await make_shop(broker, allow("Cluster:*", "All"))
        body = {"password": "x", "userType": "Super"}
        answer = await ask(broker, Code.AUTH_CREATE_USER, "shop", PASSWORD, username="mine", body=body)
        expected = "The super user can only be create by super user"
        assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, expected)
        for row in (Code.AUTH_UPDATE_USER, Code.AUTH_DELETE_USER):
            answer = await ask(broker, row, "shop", PASSWORD, username=SUPER, body={"password": "mine"})
            assert answer.remark == "The super user can only be update by super user"


async def test_lists_show_what_one_may_see(tmp_path: Path) -> None:
    async with running_broker(tmp_path, **ON) as broker:
        await make_shop(broker, allow("Topic:orders*", "Get"), allow("Group:mine", "Get"))
        for topic in ("orders-1", "secret"):
            fields = {
                "topic": topic,
                "defaultTopic": "TBW102",
                "readQueueNums": "1",
                "writeQueueNums": "1",
                "perm": "6",
            }
            more = {"topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false"}
            assert (await ask(broker, Code.UPDATE_AND_CREATE_TOPIC, **fields, **more)).code == 0
        for group in ("mine", "theirs"):
            assert (await ask(broker, Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body={"groupName": group})).code == 0
        topics = await ask(broker, Code.GET_ALL_TOPIC_CONFIG, "shop", PASSWORD)
        assert json.loads(bytes(topics.body))["topicConfigTable"].keys() == {"orders-1"}
        groups = await ask(broker, Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, "shop", PASSWORD)
        assert json.loads(bytes(groups.body))["subscriptionGroupTable"].keys() == {"mine"}


async def test_a_message_is_its_topics_whoever_points_at_it(tmp_path: Path) -> None:
    async with running_broker(tmp_path, **ON) as broker:
        await make_shop(broker, allow("Topic:T", "Pub"), allow("Group:mine", "Sub"))
        assert (await send(broker, "T")).code == 0
        assert is_refused(await ask(broker, Code.VIEW_MESSAGE_BY_ID, "shop", PASSWORD, offset="0"))
        back = {"offset": "0", "group": "mine", "delayLevel": "1", "originTopic": "mine"}
        assert is_refused(await ask(broker, Code.CONSUMER_SEND_MSG_BACK, "shop", PASSWORD, **back))
        body = {"policies": [{"entries": [allow("Topic:T", "Pub", "Sub")]}]}
        assert (await ask(broker, Code.AUTH_UPDATE_ACL, subject="User:shop", body=body)).code == 0
        assert (await ask(broker, Code.VIEW_MESSAGE_BY_ID, "shop", PASSWORD, offset="0")).code == 0
        assert (await ask(broker, Code.CONSUMER_SEND_MSG_BACK, "shop", PASSWORD, **back)).code == 0


async def test_a_pull_that_waits_is_judged_again(tmp_path: Path) -> None:
    async with running_broker(tmp_path, **ON) as broker:
        await make_shop(broker, allow("Topic:T", "Pub", "Sub"), allow("Group:G", "Sub"))
        assert (await send(broker, "T")).code == 0
        waiting = asyncio.create_task(ask_beyond(broker))
        await turns_until(lambda: len(broker.broker.pulls.suspended) == 1)
        assert (await ask(broker, Code.AUTH_DELETE_ACL, subject="User:shop", resource="Topic:T")).code == 0
        assert (await waiting).code == ResponseCode.PULL_NOT_FOUND
        assert is_refused(await pull(broker))


async def test_a_change_that_cannot_be_kept_is_judged_by_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_broker(tmp_path, **ON) as broker:
        await make_shop(broker, allow("Topic:T", "Pub", "Sub"), allow("Group:G", "Sub"))
        assert [(await send(broker, "T")).code, (await pull(broker)).code] == [0, 0]  # known by a kernel from here on

        def fail(seal: SivSeal, name: str, secret: str) -> str:
            raise OSError("no random numbers")

        monkeypatch.setattr(SivSeal, "close", fail)
        assert (await ask(broker, Code.AUTH_UPDATE_USER, body={"userStatus": "disable"}, username="shop")).code != 0
        assert is_refused(await send(broker, "T"))
        assert is_refused(await pull(broker))


async def ask_beyond(broker: Running) -> Command:
    """Pull from behind the only message, and wait for another one."""
    fields = {"consumerGroup": "G", "topic": "T", "queueId": "0", "queueOffset": "1", "maxMsgNums": "32"}
    fields |= {"sysFlag": "6", "commitOffset": "0", "suspendTimeoutMillis": "15000", "subscription": "*"}
    return await ask(broker, Code.PULL_MESSAGE, "shop", PASSWORD, subVersion="0", **fields)


def test_policies_without_authentication_do_not_start() -> None:
    make: Any = BrokerConfig  # whose settings of other rooms are there only when it runs
    with pytest.raises(ConfigError, match="set authenticationEnabled = true too"):
        make(authorization_enabled=True)
    with pytest.raises(ConfigError) as fault:
        make(authentication_enabled=True, init_authentication_user='{"username":"a","passwd":"hidden!"}')
    assert "hidden!" not in str(fault.value)
    assert make(authentication_enabled=True, bind_address="0.0.0.0", broker_ip1="10.0.0.1")


async def test_no_user_is_made_while_strangers_reach_a_server_that_asks_nobody(tmp_path: Path) -> None:
    async with running_broker(
        tmp_path, bind_address="0.0.0.0", broker_ip1="127.0.0.1", allow_unauthenticated=True
    ) as broker:
        for row, fields in (
            (Code.AUTH_CREATE_USER, {"username": "mine"}),
            (Code.AUTH_UPDATE_USER, {"username": "mine"}),
            (Code.AUTH_DELETE_USER, {"username": "mine"}),
            (Code.AUTH_CREATE_ACL, {"subject": "User:mine"}),
            (Code.AUTH_DELETE_ACL, {"subject": "User:mine"}),
        ):
            command = Command(code=row, fields=fields, body=b'{"password":"mine","userType":"Super"}')
            answer = await broker.client.call(broker.address, command, 20)
            assert answer.code == ResponseCode.NO_PERMISSION
            assert "nobody is asked who he is" in (answer.remark or "")
    async with running_broker(tmp_path, **ON) as broker:
        assert b"mine" not in bytes((await ask(broker, Code.AUTH_LIST_USER)).body)
