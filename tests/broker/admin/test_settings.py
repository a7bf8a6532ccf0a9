"""Settings over the wire: shown, changed with effect at once, refused by name, kept over a restart."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyromq.broker.config import BrokerConfig
from pyromq.broker.java_keys import BROKER_KEYS
from pyromq.config import load, properties
from pyromq.model.codes import ResponseCode
from pyromq.protocol.requests import RequestCode
from pyromq.store.log.retention import RetentionConfig
from tests.broker.running import running_broker


async def test_what_is_shown_can_be_read_back_and_has_no_secrets(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        answer = await broker.call(RequestCode.GET_BROKER_CONFIG)
        shown = {one.key: one.value for one in properties.parse(bytes(answer.body).decode())}
        assert shown["brokerName"] == "broker-a"
        assert shown["autoCreateTopicEnable"] == "true"
        assert shown["brokerRole"] == "ASYNC_MASTER"
        assert not [key for key in shown if "assword" in key]
        assert list(shown) == sorted(shown)
        assert '"counter":0' in answer.fields["version"]


async def test_a_change_counts_at_once_and_after_a_restart(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        assert (await broker.send("A")).code == 0
        changed = await broker.call(RequestCode.UPDATE_BROKER_CONFIG, b"autoCreateTopicEnable=false\n")
        assert changed.code == 0
        assert (await broker.send("B")).code == ResponseCode.TOPIC_NOT_EXIST
        assert '"counter":1' in (await broker.call(RequestCode.GET_BROKER_CONFIG)).fields["version"]
    loaded = load(
        BrokerConfig,
        BROKER_KEYS,
        daemon="broker",
        flags={"store_path_root_dir": str(tmp_path)},
        overlay=lambda config: config.overlay_path,
    )
    assert not loaded.config.auto_create_topic_enable


async def test_a_ratio_that_counts_as_another_is_named(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        low = await broker.call(RequestCode.UPDATE_BROKER_CONFIG, b"diskSpaceWarningLevelRatio=0.30\n")
        assert (low.code, low.remark) == (0, "diskSpaceWarningLevelRatio = 0.30 counts as 0.35, as in Java")
        assert not (await broker.call(RequestCode.UPDATE_BROKER_CONFIG, b"fileReservedTime=48\n")).remark
        assert not (await broker.call(RequestCode.UPDATE_BROKER_CONFIG, b"diskSpaceWarningLevelRatio=0.8\n")).remark


async def test_a_wrong_value_is_no_lack_of_permission(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        for text, allowed in ((b"deleteWhen=99", "write 00 to 23"), (b"brokerPermission=77", "from 0 to 7")):
            answer = await broker.call(RequestCode.UPDATE_BROKER_CONFIG, text)
            assert (answer.code, allowed in (answer.remark or "")) == (ResponseCode.INVALID_PARAMETER, True), answer
        answer = await broker.call(RequestCode.UPDATE_BROKER_CONFIG, b"listenPort=1")
        assert answer.code == ResponseCode.NO_PERMISSION
        (tmp_path / "pyromq" / "broker-overlay.properties").mkdir()
        answer = await broker.call(RequestCode.UPDATE_BROKER_CONFIG, b"fileReservedTime=48")
        assert "not changed: cannot write" in (answer.remark or "")
        assert broker.broker.live.config.part(RetentionConfig).file_reserved_hours == 72


@pytest.mark.parametrize(
    ("text", "remark"),
    [
        (b"listenPort=1", "cannot be changed while running"),
        (b"autoCreateTopicEnable=false\nlistenPort=1", "cannot be changed while running"),
        (b"storePathRootDir=/tmp/elsewhere", "cannot be changed while running"),
        (b"autoCreateTopicEnabled=false", "did you mean 'autoCreateTopicEnable'"),
        (b"brokerPermission=77", "from 0 to 7"),
        (
            b"fileReservedTime=99999999999999999999",
            "fileReservedTime = 99999999999999999999: must be from 0 to 2147483647",
        ),
        (b"rocketmqHome=/tmp/$(id)", "Can not update config in black list."),
        (b"traceOn=false\nbrokerConfigPath=/tmp/x", "Can not update config in black list."),
        (b"", "the body is empty"),
        (b"\xff\xfe", "no UTF-8"),
    ],
)
async def test_what_may_not_be_changed_is_refused_and_nothing_changes(tmp_path: Path, text: bytes, remark: str) -> None:
    async with running_broker(tmp_path) as broker:
        before = broker.broker.live.config
        answer = await broker.call(RequestCode.UPDATE_BROKER_CONFIG, text)
        assert answer.code in (
            ResponseCode.NO_PERMISSION,
            ResponseCode.INVALID_PARAMETER,
            ResponseCode.SYSTEM_ERROR,
        )
        assert remark in (answer.remark or "")
        assert broker.broker.live.config is before
        assert not before.overlay_path.exists()


async def test_how_long_messages_are_kept_changes_while_it_runs(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        for _ in range(12):  # more than one log file
            assert (await broker.send(body=b"x" * 100_000)).code == 0
        store = broker.broker.store
        await broker.broker.retention.round()
        assert store.commit_log.start == 0
        assert (await broker.call(RequestCode.UPDATE_BROKER_CONFIG, b"fileReservedTime=0")).code == 0
        assert (await broker.call(RequestCode.DELETE_EXPIRED_COMMITLOG)).code == 0
        await broker.broker.retention.round()
        assert store.commit_log.start > 0
        low = await broker.call(RequestCode.GET_MIN_OFFSET, topic="T", queueId=0)
        assert int(low.fields["offset"]) > 0
        moved = await broker.pull()
        assert (moved.code, moved.fields["nextBeginOffset"]) == (ResponseCode.PULL_OFFSET_MOVED, low.fields["offset"])
