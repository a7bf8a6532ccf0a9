"""What `pyromq up` allows without being told to: SQL92 filters, delays of a year."""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path

import pytest

from pyromq.client import sync
from pyromq.client.errors import Refused
from tests.interop import wire
from tests.interop.peers.process import Program

CHECK_CLIENT_CONFIG = 46
QUESTION = b'{"clientId":"c","group":"G","subscriptionData":{"topic":"T","subString":"%s","expressionType":"SQL92"}}'


def test_up_takes_sql_subscriptions_and_long_delays(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pyromq.cli.main", "up", "--data", str(tmp_path / "data")]
    ports = ["--namesrv-port", "0", "--broker-port", "0"]
    with Program([*command, *ports], name="pyromq up", env={"HOME": str(tmp_path)}, cwd=tmp_path) as program:
        servers = program.wait_for(r"Name server (127\.0\.0\.1:\d+), broker (127\.0\.0\.1:\d+)")
        name_server, address = servers[1], servers[2]
        with wire.Client(address) as client:
            assert client.call(CHECK_CLIENT_CONFIG, {}, QUESTION % b"a > 5").code == 0
            assert client.call(CHECK_CLIENT_CONFIG, {}, QUESTION % b"a >").code == 23
        with sync.connect(name_server) as sdk, sdk.producer() as producer:
            assert producer.send("T", "next year", delay=timedelta(days=365)).recall_handle
            with pytest.raises(Refused, match=r"31622400000ms \(timerMaxDelaySec=31622400\)"):
                producer.send("T", "later", delay=timedelta(days=367))
