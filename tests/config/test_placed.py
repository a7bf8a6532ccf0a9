"""What is wrong with a value as a whole is told with its place, too."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyromq.broker.config import BrokerConfig
from pyromq.broker.java_keys import BROKER_KEYS
from pyromq.config import load
from pyromq.errors import ConfigError


@pytest.mark.parametrize(
    "line", ["deleteWhen=77", "messageDelayLevel=4x", "mappedFileSizeConsumeQueue=21", "brokerName=no spaces"]
)
def test_an_error_of_the_whole_configuration_names_file_and_line(tmp_path: Path, line: str) -> None:
    file = tmp_path / "broker.conf"
    file.write_text(f"fileReservedTime=3\n{line}\n")
    with pytest.raises(ConfigError, match=rf"^{file} line 2: {line.partition('=')[0]}"):
        load(BrokerConfig, BROKER_KEYS, daemon="broker", file=file)
    with pytest.raises(ConfigError, match=r"^command line: "):
        load(BrokerConfig, BROKER_KEYS, daemon="broker", flags={"queue_file_bytes": 21})
