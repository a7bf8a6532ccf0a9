"""Requests are signed with the keys of $ROCKETMQ_HOME/conf/tools.yml, as those of the Java tool."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyromq.mqadmin.command import Failed
from pyromq.mqadmin.files import Credentials, credentials
from pyromq.protocol.requests import RequestCode
from pyromq.transport.dispatch import Reply

from .conftest import call
from .stand_in import StandIn, standing_in


def home_with(folder: Path, text: str) -> dict[str, str]:
    (folder / "conf").mkdir()
    (folder / "conf" / "tools.yml").write_text(text)
    return {"ROCKETMQ_HOME": str(folder)}


def test_the_keys_of_the_file(tmp_path: Path) -> None:
    text = '# a comment\n\naccessKey: rocketmq2\nsecretKey: "1234 5678"  # theirs\nother: x\n'
    assert credentials(home_with(tmp_path, text)) == Credentials("rocketmq2", "1234 5678")


def test_without_a_file_or_keys_nothing_is_signed(tmp_path: Path) -> None:
    assert credentials({}) == Credentials()
    assert credentials({"ROCKETMQ_HOME": str(tmp_path)}) == Credentials()
    assert credentials(home_with(tmp_path, "accessKey:\nsecretKey:\n")) == Credentials()


def test_half_of_a_pair_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(Failed, match="secretKey belong together"):
        credentials(home_with(tmp_path, "accessKey: me\n"))


def test_requests_carry_the_signature(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = home_with(tmp_path, "accessKey: me\nsecretKey: secret\n")
    monkeypatch.setenv("ROCKETMQ_HOME", environment["ROCKETMQ_HOME"])
    with standing_in(StandIn({RequestCode.CLEAN_UNUSED_TOPIC: Reply()})) as apache:
        assert call("cleanUnusedTopic", "-n", apache.address, "-b", apache.address).out == "success\n"
    ((_, fields, _),) = apache.asked
    assert fields["AccessKey"] == "me"
    assert fields["Signature"]
