"""`pyromq up` evaluates SQL92 filters without being told to."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.interop import wire
from tests.interop.peers.process import Program

CHECK_CLIENT_CONFIG = 46
QUESTION = b'{"clientId":"c","group":"G","subscriptionData":{"topic":"T","subString":"%s","expressionType":"SQL92"}}'


def test_up_takes_sql_subscriptions(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pyromq.cli.main", "up", "--data", str(tmp_path / "data")]
    ports = ["--namesrv-port", "0", "--broker-port", "0"]
    with Program([*command, *ports], name="pyromq up", env={"HOME": str(tmp_path)}, cwd=tmp_path) as program:
        address = program.wait_for(r"broker (127\.0\.0\.1:\d+)")[1]
        with wire.Client(address) as client:
            assert client.call(CHECK_CLIENT_CONFIG, {}, QUESTION % b"a > 5").code == 0
            assert client.call(CHECK_CLIENT_CONFIG, {}, QUESTION % b"a >").code == 23
