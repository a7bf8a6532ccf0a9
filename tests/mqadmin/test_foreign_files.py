"""Names from the wire lead nowhere: what mqadmin writes stays in the folders that its page names."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyromq.mqadmin.command import Failed
from pyromq.mqadmin.files import write_private
from pyromq.protocol.bodies.body import encode_body
from pyromq.protocol.bodies.connections import ClientConnection, ConsumerConnection, ConsumerRunningInfo
from pyromq.protocol.bodies.groups import GroupList
from pyromq.protocol.headers.pull import PullMessageAnswer
from pyromq.protocol.record import Record, encode_record
from pyromq.protocol.requests import RequestCode
from pyromq.transport.dispatch import Reply

from .conftest import call, place_of
from .stand_in import StandIn, standing_in

PAYLOAD = b"* * * * * root sh /tmp/owned\n"


@pytest.fixture
def temp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder for temporary files, and the one that commands run in; `outside` is beside it."""
    for name in ("temp", "outside"):
        (tmp_path / name).mkdir(mode=0o700)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temp"))
    monkeypatch.chdir(tmp_path / "temp")
    yield tmp_path / "temp"
    assert list((tmp_path / "outside").iterdir()) == []


def broker_with(unique_key: str) -> StandIn:
    properties = f"UNIQ_KEY\x01{unique_key}\x02".encode()
    record = encode_record(Record(topic="T", queue_id=0, body=PAYLOAD, properties=properties, queue_offset=0))
    limits = PullMessageAnswer(suggest_which_broker_id=0, next_begin_offset=1, min_offset=0, max_offset=1)
    return StandIn(
        {
            RequestCode.PULL_MESSAGE: Reply(fields=limits.to_fields(), body=record),
            RequestCode.VIEW_MESSAGE_BY_ID: Reply(body=record),
            RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: Reply(body=encode_body(GroupList())),
        }
    )


def written(folder: Path) -> dict[str, bytes]:
    return {str(one.relative_to(folder)): one.read_bytes() for one in folder.rglob("*") if one.is_file()}


@pytest.mark.parametrize("by", ["queryMsgByOffset", "queryMsgById"])
@pytest.mark.parametrize("key", ["{outside}/cron", "../../../outside/cron", "a/../../../../outside/cron", ".."])
def test_a_message_whose_unique_key_is_a_path_is_written_to_the_folder_of_bodies(temp: Path, key: str, by: str) -> None:
    with standing_in(broker_with(key.format(outside=temp.parent / "outside"))) as broker:
        where = ["-b", "broker-a", "-i", "0", "-o", "0"]
        if by == "queryMsgById":
            where = ["-i", place_of(broker.address) + "0" * 16]
        shown = call(by, "-n", broker.address, "-t", "T", *where)
    assert shown.code == 0, shown.err
    (name,) = written(temp)
    path = temp / name
    assert path.parent == temp / "rocketmq" / "msgbodys"
    assert path.read_bytes() == PAYLOAD
    assert f"Message Body Path:   {path}\n" in shown.out
    assert [path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777] == [0o600, 0o700]


@pytest.mark.parametrize("link", ["rocketmq", "rocketmq/msgbodys"])
def test_a_link_in_the_place_of_the_folder_of_bodies_is_not_followed(temp: Path, link: str) -> None:
    (temp / link).parent.mkdir(mode=0o700, exist_ok=True)
    (temp / link).symlink_to(temp.parent / "outside")
    with standing_in(broker_with("KEY")) as broker:
        shown = call("queryMsgByOffset", "-n", broker.address, "-t", "T", "-b", "broker-a", "-i", "0", "-o", "0")
    assert shown.code == 0
    assert "Message Body Path:   null\n" in shown.out
    assert "mqadmin: the body is in no file: " in shown.err
    assert "is no folder of ours" in shown.err


def test_a_client_whose_id_is_a_path_is_written_to_the_folder_of_the_look(temp: Path) -> None:
    outside = temp.parent / "outside" / "profile"
    members = [ClientConnection(client_id=one) for one in (str(outside), f"../../{outside}", "192.0.2.2@GID_live")]
    answers = {
        RequestCode.GET_CONSUMER_CONNECTION_LIST: Reply(body=encode_body(ConsumerConnection(connection_set=members))),
        RequestCode.GET_CONSUMER_RUNNING_INFO: Reply(body=encode_body(ConsumerRunningInfo(jstack="\x1b[2Jowned"))),
    }
    with standing_in(StandIn(answers)) as broker:
        shown = call("consumerStatus", "-n", broker.address, "-g", "G", "-s")
    assert shown.code == 0, shown.err
    (folder,) = temp.iterdir()
    assert len(written(folder)) == 3
    assert "192.0.2.2@GID_live" in written(folder)
    assert f"{folder.name}/192.0.2.2@GID_live\n" in shown.out
    assert all(b"\x1b" not in content for content in written(folder).values())


def test_a_link_under_the_name_of_the_file_is_replaced(temp: Path) -> None:
    target = temp / "target"
    target.write_bytes(b"mine")
    (temp / "KEY").symlink_to(target)
    (temp / f"KEY.{os.getpid()}.tmp").symlink_to(target)
    assert write_private(temp, (), "KEY", b"body") == temp / "KEY"
    assert target.read_bytes() == b"mine"
    assert not (temp / "KEY").is_symlink()
    assert (temp / "KEY").read_bytes() == b"body"
    assert sorted(written(temp)) == ["KEY", "target"]


def test_a_folder_that_others_may_write_to_is_refused(temp: Path) -> None:
    (temp / "rocketmq").mkdir()
    (temp / "rocketmq").chmod(0o777)
    with pytest.raises(Failed, match=r"with rights 777, and others could put files of theirs there"):
        write_private(temp, ("rocketmq",), "KEY", b"body")
    assert written(temp) == {}


def test_a_folder_of_another_user_is_refused(temp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (temp / "rocketmq").mkdir(mode=0o700)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(Failed, match=rf"rocketmq belongs to user {os.getuid()} "):
        write_private(temp, ("rocketmq",), "KEY", b"body")
    assert written(temp) == {}
